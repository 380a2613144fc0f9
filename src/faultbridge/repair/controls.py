"""Controls of a cluster's repairs: pause, breakers, budget and holds, each committed with its entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.breaker import close_manually
from faultbridge.model.cluster.state import Breaker, BreakerState, Control, domain_of
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, BreakerScope, EntryType, SafetyKind, SafetyState
from faultbridge.model.errors import UnknownName
from faultbridge.model.event_data import ClusterIncidentData, ClusterSafetyData, or_unset
from faultbridge.model.fault_enums import Severity
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Equals, Path, Update, Value, Write
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes, event_ids
from faultbridge.record.ports import Clock, Table

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

    def change(self, cluster: str, revise: Callable[[Control, datetime], ControlChange], actor: Actor) -> Control:
        """Commit the change that `revise` computes from the current controls, if it has entries."""

        def once() -> Control:
            before, now = self.read(cluster), truncate(self.clock.now())
            changed = revise(before, now)
            if not changed.drafts:
                return before
            self._commit(before, changed, actor, now)
            return changed.control

        return append_to_cluster(once)

    def pause(self, cluster: str, *, paused: bool, operator: str | None = None) -> Control:
        """Pause or resume new repairs; repairs that have passed their intent continue."""

        def revise(control: Control, now: datetime) -> ControlChange:
            if control.paused is paused:
                return ControlChange(control)
            before, after = SafetyState.PAUSED, SafetyState.RUNNING
            before, after = (after, before) if paused else (before, after)
            reason = "ordered by an operator"
            draft = control_draft(SafetyKind.PAUSE, before, after, now, reason=reason, operator=operator)
            return ControlChange(replace(control, paused=paused), (draft,))

        return self.change(cluster, revise, Actor.CLI)

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
        attributes: dict[Path, Value] = {
            ("paused",): changed.control.paused,
            ("budget_used_up",): changed.control.budget_used_up,
            ("eviction_limits",): list(changed.control.eviction_limits),
            ("breakers",): dump(changed.control.breakers),
            ("events",): {**changed.control.events, **events},
            ("holds",): dump(changed.control.holds),
        }
        unchanged = Equals("version", before.version)
        control = Update(keys.cluster_control(before.cluster), set=attributes, add={"version": 1}, when=unchanged)
        self.table.transact([control, *writes, *changed.writes])
        for draft in changed.drafts:
            _log_change(before.cluster, draft)


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
