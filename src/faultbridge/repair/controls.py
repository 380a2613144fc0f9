"""Controls of a cluster: pauses, silences, breakers, budget and holds, each committed with its entry."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.breaker import close_manually
from faultbridge.decide.entry_builder import note
from faultbridge.model.cluster.silences import MAX_SILENCE, MAX_SILENCES, SILENCE, Silence
from faultbridge.model.cluster.state import Breaker, BreakerState, Control, Pause, domain_of
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, BreakerScope, EntryType, NoteKind, SafetyKind, SafetyState
from faultbridge.model.errors import Rejected, UnknownName
from faultbridge.model.event_data import ClusterIncidentData, ClusterSafetyData, or_unset
from faultbridge.model.fault_enums import Severity
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Path, Value, Write
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes, event_ids
from faultbridge.record.ports.table import Clock, Table
from faultbridge.repair.case_orders import OperatorOrder, RequestKey

NO_ORDER = OperatorOrder()
_TRIPPED: frozenset[str] = frozenset({SafetyState.OPEN, SafetyState.USED_UP, SafetyState.HELD})


class ControlChange(Struct, frozen=True):
    """The next controls of a cluster and the entries that record the change.

    Without entries, nothing is written. `severity` is stored in each entry; None if the change has no severity. `cause`
    is the id of the event that opened a breaker, used up the budget or opened an incident. For every other change, the
    cause is the previous entry about the same breaker, budget, pause or hold. `writes` are further writes for the same
    transaction.
    """

    control: Control
    drafts: tuple[Draft, ...] = ()
    severity: Severity | None = None
    cause: str | None = None
    writes: tuple[Write, ...] = ()


class Controls(Struct, frozen=True):
    """Reads and changes the controls of clusters. After a conflict, a change is computed again."""

    table: Table
    clock: Clock
    stack: Stack

    def read(self, cluster: str) -> Control:
        """Read the controls of a cluster. Raises Rejected `unknown_cluster` if it is not registered."""
        found = self.table.get(keys.cluster_control(cluster))
        if found is None:
            raise UnknownName("cluster", cluster)
        return items.read_control(cluster, found)

    def change(
        self,
        cluster: str,
        revise: Callable[[Control, datetime], ControlChange],
        actor: Actor,
        request: RequestKey | None = None,
    ) -> Control:
        """Commit the change that `revise` computes from the current controls, if it has entries.

        With `request`, nothing is done if the order was executed under this key, which the commit records.
        """

        def once() -> Control:
            before, now = self.read(cluster), truncate(self.clock.now())
            if request is not None and request.is_executed(self.table):
                return before
            changed = revise(before, now)
            if not changed.drafts:
                return before
            if request is not None:
                changed = replace(changed, writes=(*changed.writes, request.executed(now)))
            self._commit(before, changed, actor, now)
            return changed.control

        return append_to_cluster(once)

    def pause(self, cluster: str, order: OperatorOrder = NO_ORDER, until: datetime | None = None) -> Control:
        """Pause new repairs until a time or an order; repairs that have passed their intent continue.

        A later pause of the same operator replaces the earlier one. The pauses of several operators exist side by side.
        """

        def revise(control: Control, now: datetime) -> ControlChange:
            if until is not None and until <= now:
                raise Rejected("bad_time", f"the end is not in the future: {to_text(until)}")
            before = control.pauses.get(order.person)
            if before is not None and (before.reason, before.until) == (order.reason, until):
                return ControlChange(control)
            pauses = {**control.pauses, order.person: Pause(now, order.reason, until)}
            return _pause_change(control, pauses, _ordered(order), order.operator, now)

        return self.change(cluster, revise, Actor.CLI, order.request)

    def resume(self, cluster: str, order: OperatorOrder = NO_ORDER, *, force: bool = False) -> Control:
        """End the operator's pause of a cluster; with `force`, end the pauses of all operators.

        Raises Rejected `not_yours` if only others paused the cluster, unless `force` is True.
        """

        def revise(control: Control, now: datetime) -> ControlChange:
            others = {by: one for by, one in control.pauses.items() if by != order.person}
            if not force and others == control.pauses and others:
                text = f"{cluster} is paused by others: {pauses_text(others)}; use --force to end their pauses"
                raise Rejected("not_yours", text)
            kept = {} if force else others
            ended = {by: one for by, one in control.pauses.items() if by not in kept and by != order.person}
            reason = "; ".join([_ordered(order), *([f"ended the pause by {pauses_text(ended)}"] if ended else ())])
            return _pause_change(control, kept, reason, order.operator, now)

        return self.change(cluster, revise, Actor.CLI, order.request)

    def end_expired(self, cluster: str) -> Control:
        """End the pauses and silences of a cluster whose time is over, each with an entry."""

        def revise(control: Control, now: datetime) -> ControlChange:
            pauses = {by: one for by, one in control.pauses.items() if one.until is None or one.until > now}
            over = {by: one for by, one in control.pauses.items() if by not in pauses}
            changed = _pause_change(control, pauses, f"its time is over: pause by {pauses_text(over)}", None, now)
            ended = [one for one in control.silences.values() if one.until <= now]
            drafts = tuple(silence_over(one, f"expired: {one.reason}", now) for one in ended)
            silences = {name: one for name, one in control.silences.items() if one not in ended}
            return ControlChange(replace(changed.control, silences=silences), (*changed.drafts, *drafts))

        return self.change(cluster, revise, Actor.SWEEP)

    def silence(self, cluster: str, order: OperatorOrder, wanted: Silence) -> Silence:
        """Hold the pages of a cluster that match a silence; its id, person, reason and start are set here.

        `wanted.since` before now means now. Raises Rejected `bad_time` for an end that is not after the start, or more
        than 30 days from now, and `too_many` if the cluster has 50 silences.
        """
        made: list[str] = []

        def revise(control: Control, now: datetime) -> ControlChange:
            since = max(truncate(wanted.since), now)
            if not since < wanted.until <= now + MAX_SILENCE:
                raise Rejected("bad_time", f"a silence ends after its start, at most {MAX_SILENCE.days} days from now")
            if len(control.silences) >= MAX_SILENCES:
                raise Rejected("too_many", f"the cluster has {MAX_SILENCES} silences; end one first")
            name = _silence_id(self.stack, control, order)
            one = replace(
                wanted, id=name, by=order.person, reason=order.reason, since=since, until=truncate(wanted.until)
            )
            made[:] = [name]
            text = f"silenced {one.scope} until {to_text(one.until)}: {order.text}"
            draft = _silence_note(one, text, "begun", order.operator, now)
            return ControlChange(replace(control, silences={**control.silences, name: one}), (draft,))

        control = self.change(cluster, revise, Actor.CLI, order.request)
        one = control.silences.get(made[0] if made else _silence_id(self.stack, control, order))
        if one is None:
            raise Rejected("silence_over", "the silence that was added under this key has ended")
        return one

    def test_page(self, cluster: str, urgency: str, order: OperatorOrder, *, over: bool) -> None:
        """Record a note that sends, or with `over` resolves, a test page of an urgency."""
        stage, text = "over" if over else "begun", f"test of {urgency} pages"

        def revise(control: Control, now: datetime) -> ControlChange:
            draft = note(kind=NoteKind.TEST_PAGE, text=text, at=now, operator=order.operator, stage=stage)
            return ControlChange(control, (replace(draft, subject="test-page"),))

        self.change(cluster, revise, Actor.CLI)

    def end_silence(self, cluster: str, silence_id: str, order: OperatorOrder) -> Control:
        """End a silence before its time; raises UnknownName if the cluster has no such silence."""

        def revise(control: Control, now: datetime) -> ControlChange:
            one = control.silences.get(silence_id)
            if one is None:
                raise UnknownName("silence", silence_id, cluster)
            kept = {name: other for name, other in control.silences.items() if name != silence_id}
            draft = silence_over(one, f"ended by an operator: {order.text}", now, order.operator)
            return ControlChange(replace(control, silences=kept), (draft,))

        return self.change(cluster, revise, Actor.CLI, order.request)

    def close_breakers(self, cluster: str, operator: str | None = None) -> Control:
        """Close all circuit breakers of a cluster. Only nodes that fail from now on can open them again."""

        def revise(control: Control, now: datetime) -> ControlChange:
            tripped = {name: one for name, one in control.breakers.items() if one.state is not BreakerState.CLOSED}
            closed = {name: close_manually(one, now) for name, one in tripped.items()}
            drafts = tuple(
                breaker_draft(name, tripped[name].state, one, "closed by an operator", operator)
                for name, one in closed.items()
            )
            return ControlChange(replace(control, breakers={**control.breakers, **closed}), drafts)

        return self.change(cluster, revise, Actor.CLI)

    def _commit(self, before: Control, changed: ControlChange, actor: Actor, now: datetime) -> None:
        state = items.read_cluster(before.cluster, self.table.get(keys.cluster_state(before.cluster)))
        # An order of an operator starts a chain; anything else follows from what the cluster recorded last.
        cause = changed.cause or (None if actor is Actor.CLI else state.head.event_id)
        drafts = tuple(_with_cause(draft, before, cause) for draft in changed.drafts)
        _, writes = cluster_writes(self.stack, state, state, drafts, actor=actor, severity=changed.severity, now=now)
        events = dict(zip((str(one.subject) for one in drafts), event_ids(self.stack, state, len(drafts)), strict=True))
        silences = changed.control.silences
        events = {**changed.control.events, **events}
        kept = {name: one for name, one in events.items() if not name.startswith(SILENCE) or name in silences}
        attributes: dict[Path, Value] = {
            ("pauses",): dump(changed.control.pauses),
            ("silences",): dump(silences),
            ("budget_used_up",): changed.control.budget_used_up,
            ("eviction_limits",): list(changed.control.eviction_limits),
            ("breakers",): dump(changed.control.breakers),
            ("events",): dump(kept),
            ("holds",): dump(changed.control.holds),
        }
        self.table.transact([items.control_update(before, attributes), *writes, *changed.writes])
        for draft in changed.drafts:
            _log_change(before.cluster, draft)


def pauses_text(pauses: Mapping[str, Pause]) -> str:
    """Return who paused repairs, why and until when, as one phrase."""
    return ", ".join(
        by + (f" ({one.reason})" if one.reason else "") + (f" until {to_text(one.until)}" if one.until else "")
        for by, one in pauses.items()
    )


def _ordered(order: OperatorOrder) -> str:
    return f"ordered by an operator{': ' if order.reason else ''}{order.reason}"


def _pause_change(
    control: Control, pauses: Mapping[str, Pause], reason: str, operator: str | None, now: datetime
) -> ControlChange:
    if pauses == control.pauses:
        return ControlChange(control)
    before, after = (SafetyState.PAUSED if one else SafetyState.RUNNING for one in (control.pauses, pauses))
    ends = [one.until for one in pauses.values()]
    until = None if None in ends else max((one for one in ends if one), default=None)
    still = "" if len(pauses) >= len(control.pauses) or not pauses else f"; still paused by {pauses_text(pauses)}"
    draft = control_draft(
        SafetyKind.PAUSE, before, after, now, reason=f"{reason}{still}", operator=operator, until=until
    )
    return ControlChange(replace(control, pauses=pauses), (draft,))


def _silence_id(stack: Stack, control: Control, order: OperatorOrder) -> str:
    """Return the id of a new silence; that of an order under a key depends on the key alone."""
    own = order.request.token if order.request else f"{control.version}/{order.person}"
    digest = hashlib.sha256(f"{stack.id}/{control.cluster}/{own}".encode()).digest()
    return SILENCE + base64.b32encode(digest).decode().lower()[:12]


def _silence_note(one: Silence, text: str, stage: str, operator: str | None, now: datetime) -> Draft:
    facts = {"silence": one.id, "by": one.by, "until": to_text(one.until), **one.matchers}
    draft = note(kind=NoteKind.SILENCE, text=text, at=now, facts=facts, operator=operator, stage=stage)
    return replace(draft, subject=one.id)


def silence_over(one: Silence, text: str, now: datetime, operator: str | None = None) -> Draft:
    """Draft the entry about the end of a silence."""
    return _silence_note(one, f"silence of {one.scope} {text}", "over", operator, now)


def breaker_draft(
    name: str,
    before: BreakerState | None,
    breaker: Breaker,
    reason: str,
    operator: str | None = None,
    covered_by: SafetyKind | None = None,
) -> Draft:
    """Draft the entry for a breaker that changed; `before` is None for a new breaker."""
    return control_draft(
        SafetyKind.BREAKER,
        SafetyState(before) if before else None,
        SafetyState(breaker.state),
        breaker.since,
        reason=reason,
        domain=domain_of(name),
        counts={"failing": breaker.failing, "of": breaker.of},
        operator=operator,
        name=name,
        incident=breaker.incident,
        covered_by=covered_by,
    )


def control_draft(
    kind: SafetyKind,
    before: SafetyState | None,
    after: SafetyState,
    at: datetime,
    *,
    reason: str,
    domain: str | None = None,
    counts: Mapping[str, int] | None = None,
    operator: str | None = None,
    until: datetime | None = None,
    name: str | None = None,
    incident: str | None = None,
    source: str | None = None,
    mode: str | None = None,
    covered_by: SafetyKind | None = None,
) -> Draft:
    """Draft the entry for a change of one control.

    `before` and `after` are the states of the control. `name` distinguishes several breakers or holds of a cluster.
    `domain` is the failure domain of a breaker or a hold; with None, the control applies to the whole cluster. A hold
    delays the repairs that the incident `incident` affects; of a breaker or the budget, it is the expired incident
    whose page covers the change. The claims of `source` are accepted or damped. `until` is the time at which the new
    state ends by itself. `covered_by` is the control whose page covers the change, so that one cause sends one urgent
    page.
    """
    data = ClusterSafetyData(
        kind=kind,
        from_=before,
        to=after,
        reason=reason,
        scope=BreakerScope.DOMAIN if domain else BreakerScope.CLUSTER,
        domain=domain,
        counts=dict(counts or {}),
        until=until,
        operator=operator,
        incident_id=or_unset(incident),
        source=or_unset(source),
        failure_mode=or_unset(mode),
        covered_by=or_unset(covered_by),
    )
    return Draft(EntryType.CLUSTER_SAFETY, at, data, subject=name or kind)


def _with_cause(draft: Draft, before: Control, cause: str | None) -> Draft:
    """Return the entry with its cause set.

    If a breaker opened, the budget was used up or a hold started, and no operator ordered this, the entry's cause is
    `cause`, the id of the triggering event. For every other change, the cause is the previous entry about the same
    breaker, budget, pause or hold. If one of these two causes does not exist, the other is used.
    """
    last = before.events.get(str(draft.subject))
    data = draft.data
    if isinstance(data, ClusterSafetyData | ClusterIncidentData) and data.to in _TRIPPED and not data.operator:
        return replace(draft, causation_id=cause or last)
    return replace(draft, causation_id=last or cause)


def _log_change(cluster: str, draft: Draft) -> None:
    data = draft.data
    if not isinstance(data, ClusterSafetyData):
        return
    log_cause(
        f"{data.kind}_changed",
        reason=data.reason,
        cluster=cluster,
        before=data.from_,
        after=data.to,
        domain=data.domain,
        operator=data.operator,
    )
