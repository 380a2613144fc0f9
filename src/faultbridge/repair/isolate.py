"""Isolation: keeps new work off a faulty node at once, before its repair starts.

The isolation is stored as `requested` before the orchestrator is called, so that the sweep repeats the call after a
crash. A node becomes `quarantined` when its isolation is confirmed. A node that recovers before that is uncordoned. A
node whose instance is proven dead can become `quarantined` without a confirmation.

Only a lost node is taken out of service at once. One whose work is at risk is cordoned and stays in service
(`degraded`) until no work runs there. If its fault ends before, it is uncordoned without diagnostics.

A node that is not lost needs a permit of the isolation budget, which is committed with the request. Each change of the
isolation has a number. An answer of the orchestrator is recorded only while the number is that of the call; otherwise
another call may have come later, and the isolation is requested again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules, opted_out_until
from faultbridge.decide.fold.node_conditions import NodeConditions
from faultbridge.decide.governing_rules import proof_of_failure, reason_to_proceed
from faultbridge.decide.work import MAX_WITHDRAWALS, work_stays
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, NoteKind, ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.isolation import in_service, needs_isolation, needs_permit, takes_work
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Revise, append_many
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode, Orchestrator
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.isolation_permits import IsolationPermits

_OUT_OF_SERVICE = frozenset({NodeStatus.VALIDATING, NodeStatus.QUARANTINED, NodeStatus.FAILED})


def waits_out_of_service(state: NodeState) -> bool:
    """Return whether a node waits out of service, outside an attempt, without a confirmed cordon."""
    case = state.live_case
    waits = case is not None and case.status is not CaseStatus.IN_PROGRESS
    return waits and state.status in _OUT_OF_SERVICE and state.isolation is Isolation.REQUESTED


CORDONED = "in service, cordoned: no new work; running work stays"
MINUTE = timedelta(minutes=1)
OVERDUE_AFTER = 5 * MINUTE
"""How long the isolation of a node may fail before an operator is paged."""

FIRST_CALL_DELAY, MAX_CALL_DELAY = MINUTE / 2, 5 * MINUTE
"""The delay between two calls to a failing orchestrator; it doubles with each call."""

MAX_DOUBLINGS = 8
"""Limits the exponent of the doubling; the delay reaches its maximum long before."""


def record_failed_call(state: NodeState, at: datetime, answer: CallResult, limits: Limits) -> Transition:
    """Record a failed orchestrator call and schedule the next call.

    Once the isolation has failed for five minutes, also page an operator, but only once. Any other failure is noted in
    the timeline at most once a day for each failure code.
    """
    failure = answer.failure.value if answer.failure else ""
    reason = answer.reason or failure
    lost_at = (state.orchestrator_lost_at or at) if answer.inconclusive else None
    scheduled = schedule_call(replace(state, orchestrator_lost_at=lost_at), at, limits)
    if is_overdue(scheduled, at):
        text = f"the orchestrator has failed for {OVERDUE_AFTER // MINUTE} minutes: {reason}"
        return page_overdue(scheduled, at, text, failure)
    folding = NodeConditions(scheduled, Catalog(""))
    if not folding.first_of_the_day(f"isolation:{failure}", at):
        return Transition(scheduled)
    draft = isolation_note(scheduled, f"the orchestrator failed and is called again: {reason}", at, failure)
    return Transition(folding.state(), (draft,))


def is_overdue(state: NodeState, at: datetime) -> bool:
    """Return whether isolation has failed for five minutes and no operator was paged for this yet."""
    since = state.isolation_since
    return since is not None and not state.isolation_overdue and at - since >= OVERDUE_AFTER


def schedule_call(state: NodeState, at: datetime, limits: Limits) -> NodeState:
    """Schedule the next call to a failing orchestrator. The delay doubles with each call, up to a limit.

    The next call is made earlier if one of two times comes before the end of the delay: five minutes after the start of
    the isolation, when an operator is paged, or the end of the policy's `orchestrator_timeout`.
    """
    again = at + min(FIRST_CALL_DELAY * (1 << min(state.isolation_tries, MAX_DOUBLINGS)), MAX_CALL_DELAY)
    since = state.isolation_since
    if since is not None and not state.isolation_overdue and at - since < OVERDUE_AFTER:
        again = min(again, since + OVERDUE_AFTER)
    lost_at = state.orchestrator_lost_at
    if lost_at is not None and at < lost_at + limits.orchestrator_timeout:
        again = min(again, lost_at + limits.orchestrator_timeout)
    return replace(state, isolation_tries=state.isolation_tries + 1, isolation_again_at=again)


def page_overdue(state: NodeState, at: datetime, text: str, failure: str = "TIMEOUT") -> Transition:
    """Page an operator because the orchestrator has not isolated the node for too long."""
    draft = isolation_note(state, text, at, failure, stage="overdue")
    return Transition(replace(state, isolation_overdue=True), (draft,))


def end_backoff(state: NodeState, at: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Return the node without its backoff, and the note that resolves the page, if there was one."""
    cleared = replace(
        state,
        isolation_since=None,
        isolation_overdue=False,
        isolation_tries=0,
        isolation_again_at=None,
        orchestrator_lost_at=None,
        discouraged=False,
    )
    if not state.isolation_overdue:
        return cleared, ()
    return cleared, (isolation_note(state, "the orchestrator answers again", at, stage="over"),)


def isolation_note(state: NodeState, text: str, at: datetime, failure: str = "", stage: str | None = None) -> Draft:
    """Draft a note about a node's isolation; `overdue` triggers a page, and `over` resolves it."""
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    case_id = case.id if case else None
    return entry_builder.note(kind=NoteKind.ISOLATION, text=text, at=at, case_id=case_id, facts=facts, stage=stage)


def confirm(how: Isolation, reason: str, *, ordered: bool) -> Revise:
    """Return the change that quarantines a node, if it still needs isolation.

    `how` is the isolation to store: `confirmed`, `not_applicable` if no orchestrator cordons the node, or `requested`
    for a dead instance without a confirmation. `ordered` is True if the node's repair starts.

    A cordoned node whose work is not lost stays in service, because its work continues (`Isolate.take_out`).
    """

    def revise(now: NodeState, at: datetime) -> Transition:
        # If the node recovered in the meantime, the request stays recorded until it is withdrawn.
        if not needs_isolation(now, ordered=ordered):
            return Transition(now)
        isolated, drafts = end_backoff(replace(now, isolation=how), at)
        case = now.live_case
        if how is Isolation.CONFIRMED and case is not None and work_stays(now, case):
            cordoned = now.isolation is Isolation.CONFIRMED
            return Transition(isolated, drafts if cordoned else (*drafts, _in_service(isolated, CORDONED, at)))
        return quarantine(isolated, at, reason, *drafts)

    return revise


def _in_service(state: NodeState, reason: str, at: datetime) -> Draft:
    """Draft the entry of a change of isolation that leaves the node in service."""
    status = state.status or NodeStatus.DEGRADED
    return entry_builder.status_change(state, status, at, reason)


def withdraw(state: NodeState, at: datetime, reason: str) -> Transition:
    """Return the transition of a node in service whose cordon is removed; the next tick may make it healthy."""
    recent = state.withdrawals[1 - MAX_WITHDRAWALS :]
    free = replace(state, isolation=Isolation.NONE, withdrawals=(*recent, at), due_at=at)
    serving, drafts = end_backoff(free, at)
    return Transition(serving, (_in_service(serving, reason, at), *drafts))


def unless_superseded(called: NodeState, revise: Revise) -> Revise:
    """Return a change after a cordon that requests the isolation again if it changed since the call was made."""

    def if_current(now: NodeState, at: datetime) -> Transition:
        if now.isolation_number == called.isolation_number or now.incarnation != called.incarnation:
            return revise(now, at)
        return request_again(now, at)

    return if_current


def confirm_cordon(state: NodeState, at: datetime) -> Transition:
    """Return the transition that records that the orchestrator confirmed the cordon of a node."""
    return Transition(*end_backoff(replace(state, isolation=Isolation.CONFIRMED), at))


def request_again(state: NodeState, at: datetime) -> Transition:
    """Return the transition to a requested isolation, because it is not known whether the node is cordoned."""
    if state.isolation in {Isolation.REQUESTED, Isolation.NOT_APPLICABLE} or state.status in {None, NodeStatus.RETIRED}:
        return Transition(state)
    # Without the time of the request, a missing cordon would never count as overdue.
    return Transition(replace(state, isolation=Isolation.REQUESTED, isolation_since=at))


def quarantine(state: NodeState, at: datetime, reason: str, *drafts: Draft) -> Transition:
    """Return the transition of the node to `quarantined`."""
    draft = entry_builder.status_change(state, NodeStatus.QUARANTINED, at, reason)
    return Transition(replace(state, status=NodeStatus.QUARANTINED), (*drafts, draft))


def log_isolation(state: NodeState, decision: str, reason: str, level: int = logging.INFO, **fields: object) -> None:
    """Log one decision about the isolation of a node."""
    ids = {"cluster": state.key.cluster, "node": state.key.node}
    log_cause(decision, reason=reason, level=level, case_id=state.live_case and state.live_case.id, **ids, **fields)


CONFIRMED = "isolation confirmed"
NO_ORCHESTRATOR = "isolation not applicable: the cluster has no orchestrator"
WITHDRAWN = "isolation withdrawn: no fault keeps new work off the node any more"
PROVIDER_ISOLATES = "isolation not applicable: the provider repairs the node and keeps work off it"


class IsolationResult(StrEnum):
    """The result of one isolation call.

    - `nothing`: no isolation is needed or permitted.
    - `done`: the node is now isolated or, with a dead instance, quarantined without a confirmed isolation.
    - `withdrawn`: the node recovered and was uncordoned.
    - `failed`: the orchestrator did not confirm the call; the sweep repeats the call.
    - `held`: the isolation budget keeps the node in service.
    - `postponed`: the delay after a failed call has not ended.
    """

    NOTHING = "nothing"
    DONE = "done"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    HELD = "held"
    POSTPONED = "postponed"


class Isolate(Struct, frozen=True):
    """Isolates nodes whose case requires it, through the orchestrator of their cluster."""

    append: Append
    rulebook: Rulebook
    orchestrators: Mapping[str, Orchestrator]
    permits: IsolationPermits

    def isolate(self, key: NodeKey, *, ordered: bool = False) -> IsolationResult:
        """Isolate one node, or uncordon it; with `ordered`, because its repair starts."""
        state = self.append.read(key)
        return self.isolate_as_read(state, rules_of(self.rulebook, key.cluster), ordered=ordered)

    def isolate_as_read(self, state: NodeState, rules: Rules, *, ordered: bool = False) -> IsolationResult:
        """Isolate a node whose state was just read; uncordon it if it needs no isolation."""
        config = rules.config
        free = in_service(state) and not needs_isolation(state, ordered=ordered)
        kept_from_work = state.discouraged or state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED}
        if config.isolates and free and kept_from_work:  # also while the node is ignored
            return self._withdraw(state, rules, self.orchestrator(config))
        permitted = state.registered and opted_out_until(state, config, self.append.clock.now()) is None
        if permitted and config.provider_isolates and needs_isolation(state, ordered=ordered):
            return self._confirm(state, rules, Isolation.NOT_APPLICABLE, PROVIDER_ISOLATES, ordered=ordered)
        if not permitted or not config.isolates:
            return IsolationResult.NOTHING
        orchestrator = self.orchestrator(config)
        if needs_isolation(state, ordered=ordered):
            result = self._isolate(state, rules, orchestrator, ordered=ordered)
            prefers = result is IsolationResult.HELD and not state.discouraged and orchestrator.applicable
            # While the budget keeps the node in service, the orchestrator prefers other nodes for new work.
            if prefers and orchestrator.discourage(ClusterNode.of(state, rules.config)).ok:

                def discourage(now: NodeState, _: datetime) -> Transition:
                    return Transition(replace(now, discouraged=takes_work(now)))

                self.append(state.key, discourage, actor=Actor.ISOLATE, current=state)
            return result
        waits = orchestrator.applicable and waits_out_of_service(state)
        return self._isolate_waiting(state, rules, orchestrator) if waits else IsolationResult.NOTHING

    def busy(self, state: NodeState, rules: Rules) -> str | None:
        """Return why running work keeps a node in service, or None if the node is idle or its provider repairs it."""
        if rules.config.follows_provider:
            return None
        try:
            answer = self.orchestrator(rules.config).idle(ClusterNode.of(state, rules.config))
        except Transient as error:
            return f"it is not known whether work runs: {error}"
        return None if answer.ok else f"running work stays, because the fault did not end it: {answer.reason}"

    def take_out(self, state: NodeState, rules: Rules) -> tuple[NodeState, str | None]:
        """Take a cordoned node out of service, or return why its work keeps it in service."""
        busy = self.busy(state, rules)
        if busy is not None:
            return state, busy

        def revise(now: NodeState, at: datetime) -> Transition:
            cordoned = now.isolation is Isolation.CONFIRMED and needs_isolation(now, ordered=True)
            return quarantine(now, at, "cordoned, and no work runs there") if cordoned else Transition(now)

        return self.append(state.key, revise, actor=Actor.ISOLATE).state, None

    def permitted(self, revise: Revise, rules: Rules) -> Revise:
        """Return a change that also takes the permit that it needs, and does nothing without one."""

        def with_permit(now: NodeState, at: datetime) -> Transition:
            changed = revise(now, at)
            if takes_work(changed.state) or not rules.config.isolates or not needs_permit(now, at):
                return changed
            permit = self.permits.permit(now, rules, at)
            if isinstance(permit, str):
                # Each sweep repeats this for each node; the wait itself is recorded with the case.
                log_isolation(now, "isolation_held", permit, level=logging.DEBUG)
                return Transition(now)
            return replace(changed, state=replace(changed.state, permitted_at=at), writes=(*changed.writes, permit))

        return with_permit

    def _isolate_waiting(self, state: NodeState, rules: Rules, orchestrator: Orchestrator) -> IsolationResult:
        if self._is_postponed(state):
            return IsolationResult.POSTPONED
        answer = orchestrator.cordon(ClusterNode.of(state, rules.config))
        if not answer.ok:
            self._record_failure(state, rules, answer)
            return IsolationResult.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            if now.incarnation != state.incarnation or not waits_out_of_service(now):
                return Transition(now)
            return confirm_cordon(now, at)

        self.append(state.key, unless_superseded(state, revise), actor=Actor.ISOLATE)
        log_isolation(state, "isolation_confirmed", CONFIRMED)
        return IsolationResult.DONE

    def _is_postponed(self, state: NodeState) -> bool:
        return state.isolation_again_at is not None and self.append.clock.now() < state.isolation_again_at

    def _isolate(self, state: NodeState, rules: Rules, orchestrator: Orchestrator, *, ordered: bool) -> IsolationResult:
        if not orchestrator.applicable:
            if not ordered and keeps_work(state):  # nothing but the status keeps work off the node
                return IsolationResult.NOTHING
            return self._confirm(state, rules, Isolation.NOT_APPLICABLE, NO_ORCHESTRATOR, ordered=ordered)
        if state.isolation is Isolation.CONFIRMED:  # it was cordoned, and its work stayed
            if keeps_work(state):
                return IsolationResult.NOTHING
            return self._confirm(state, rules, Isolation.CONFIRMED, CONFIRMED, ordered=ordered)
        if state.isolation is Isolation.NONE:
            state = self._request(state, rules, ordered=ordered)
            if state.isolation is not Isolation.REQUESTED:
                return held_or_nothing(state, self.append.clock.now())
        return self._call_cordon(state, rules, orchestrator, ordered=ordered)

    def _call_cordon(
        self, state: NodeState, rules: Rules, orchestrator: Orchestrator, *, ordered: bool
    ) -> IsolationResult:
        if self._is_postponed(state):
            return IsolationResult.POSTPONED
        answer = orchestrator.cordon(ClusterNode.of(state, rules.config))
        if answer.ok:
            return self._confirm(state, rules, Isolation.CONFIRMED, CONFIRMED, ordered=ordered, called=True)
        after = self._record_failure(state, rules, answer)
        proof = proof_of_failure(after) if answer.failure is ProviderFailure.NOT_FOUND else None
        if proof is not None:  # the orchestrator removed its node with the instance, so nothing is left to cordon
            text = f"the orchestrator has no such node, and {proof}"
            return self._confirm(after, rules, Isolation.REQUESTED, text, ordered=ordered)
        return self._proceed_without(after, rules, ordered=ordered)

    def _proceed_without(self, state: NodeState, rules: Rules, *, ordered: bool) -> IsolationResult:
        """Quarantine a dead node without a confirmed isolation, if the policy permits it; drain calls again."""
        if reason_to_proceed(state, rules.policy, self.append.clock.now()) is None:
            return IsolationResult.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            proof = reason_to_proceed(now, rules.policy, at)
            if proof is None or not needs_isolation(now, ordered=ordered):
                return Transition(now)
            return quarantine(now, at, f"isolation not confirmed: {proof}")

        after = self.append(state.key, revise, actor=Actor.ISOLATE, current=state).state
        if after.status is not NodeStatus.QUARANTINED:
            return IsolationResult.FAILED
        log_isolation(state, "isolation_skipped", "the orchestrator is out of reach and the instance is proven dead")
        return IsolationResult.DONE

    def _request(self, state: NodeState, rules: Rules, *, ordered: bool) -> NodeState:
        def revise(now: NodeState, at: datetime) -> Transition:
            needed = needs_isolation(now, ordered=ordered) and now.isolation is Isolation.NONE
            requested = replace(now, isolation=Isolation.REQUESTED, isolation_since=at, orchestrator_lost_at=None)
            return Transition(requested if needed else now)

        after = self.append(state.key, self.permitted(revise, rules), actor=Actor.ISOLATE, current=state).state
        if after.isolation is Isolation.REQUESTED:
            log_isolation(after, "isolation_requested", after.live_case.code if after.live_case else "")
        return after

    def _confirm(
        self, state: NodeState, rules: Rules, how: Isolation, reason: str, *, ordered: bool, called: bool = False
    ) -> IsolationResult:
        revise = self.permitted(confirm(how, reason, ordered=ordered), rules)
        revise = unless_superseded(state, revise) if called else revise
        after = self.append(state.key, revise, actor=Actor.ISOLATE, current=state).state
        return confirmed(after, reason, self.append.clock.now())

    def _withdraw(self, state: NodeState, rules: Rules, orchestrator: Orchestrator) -> IsolationResult:
        if state.isolation is Isolation.CONFIRMED:  # the sweep repeats an uncordon whose answer is lost
            state = self.append(state.key, _request_uncordon, actor=Actor.ISOLATE, current=state).state
            if needs_isolation(state, ordered=False) or not in_service(state):
                return IsolationResult.NOTHING
        answer = orchestrator.uncordon(ClusterNode.of(state, rules.config))
        if not answer.ok:
            self._record_failure(state, rules, answer)
            return IsolationResult.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            if now.isolation is Isolation.NONE:  # it was only discouraged, or another call withdrew it too
                return Transition(replace(now, discouraged=False))
            if now.isolation_number != state.isolation_number:
                return request_again(now, at)
            return Transition(now) if needs_isolation(now, ordered=False) else withdraw(now, at, WITHDRAWN)

        after = self.append(state.key, revise, actor=Actor.ISOLATE).state
        if waits_out_of_service(after):  # another call took it out of service, and this uncordon may have come after it
            return self._isolate_waiting(after, rules, orchestrator)
        if needs_isolation(after, ordered=False):
            return self.isolate_as_read(after, rules)  # it failed again, and this uncordon ended what kept work off
        log_isolation(state, "isolation_withdrawn", WITHDRAWN)
        return IsolationResult.WITHDRAWN

    def _record_failure(self, state: NodeState, rules: Rules, answer: CallResult) -> NodeState:
        def revise(now: NodeState, at: datetime) -> Transition:
            return record_failed_call(now, at, answer, rules.policy.limits)

        after = self.append(state.key, revise, actor=Actor.ISOLATE).state
        log_isolation(after, "isolation_retried", answer.reason, level=logging.WARNING, failure=answer.failure)
        return after

    def orchestrator(self, config: ClusterConfig) -> Orchestrator:
        """Return the orchestrator of a cluster. Raises Misconfigured if its name is unknown."""
        found = self.orchestrators.get(config.orchestrator)
        if found is None:
            known = ", ".join(sorted(self.orchestrators)) or "none"
            raise Misconfigured(f"unknown orchestrator of {config.cluster}: {config.orchestrator!r}; known: {known}")
        return found


def keeps_work(state: NodeState) -> bool:
    """Return whether the running work of a node stays there, although the node has a case."""
    return state.live_case is not None and work_stays(state, state.live_case)


def _request_uncordon(state: NodeState, at: datetime) -> Transition:
    return request_again(state, at) if state.isolation is Isolation.CONFIRMED else Transition(state)


def confirmed(state: NodeState, reason: str, now: datetime) -> IsolationResult:
    """Log the isolation and return DONE if the node is now isolated; otherwise return HELD or NOTHING."""
    if state.status is not NodeStatus.QUARANTINED and state.isolation is not Isolation.CONFIRMED:
        return held_or_nothing(state, now)
    log_isolation(state, "isolation_confirmed", reason)
    return IsolationResult.DONE


def held_or_nothing(state: NodeState, now: datetime) -> IsolationResult:
    """Return HELD if the node still serves and needs a permit, else NOTHING: it recovered meanwhile."""
    held = needs_isolation(state, ordered=True) and needs_permit(state, now)
    return IsolationResult.HELD if held else IsolationResult.NOTHING


GROUP = 15
"""In a cluster without an orchestrator, how many nodes are isolated in one transaction."""

Results = Mapping[str, IsolationResult]


def prepare_isolations(isolate: Isolate, cluster: str, nodes: Sequence[str]) -> Mapping[str, Callable[[], Results]]:
    """Read the nodes, and return functions that isolate them, by the names of their nodes joined by `, `.

    A function returns results by node name. It isolates a group of up to 15 nodes if Faultbridge repairs the
    cluster, the cluster has no orchestrator, and the nodes need no permit of the isolation budget. Otherwise, or if
    the isolation of a node is already requested, it isolates one node. The nodes with the most severe faults come
    first, because they get the permits.
    """
    if not nodes:
        return {}
    rules, now = rules_of(isolate.rulebook, cluster), isolate.append.clock.now()
    isolate = replace(isolate, permits=replace(isolate.permits, refusing={}))
    states = sorted(isolate.append.read_many(NodeKey(cluster, node) for node in nodes), key=isolation_urgency)
    needs_no_call = rules.config.isolates and not isolate.orchestrator(rules.config).applicable
    unrequested = [state for state in states if state.isolation is not Isolation.REQUESTED]
    grouped = [state for state in unrequested if needs_no_call and not needs_permit(state, now)]
    groups = [grouped[start : start + GROUP] for start in range(0, len(grouped), GROUP)]
    alone = {state.key.node: state for state in states if state not in grouped}
    return {
        **{", ".join(one.key.node for one in some): partial(_isolate_group, isolate, some, rules) for some in groups},
        **{name: partial(_isolate_alone, isolate, state, rules) for name, state in alone.items()},
    }


def _isolate_alone(isolate: Isolate, state: NodeState, rules: Rules) -> Results:
    if state.isolation is not Isolation.NONE:
        # The next call may go to the orchestrator, and no condition of a write protects that call.
        state = isolate.append.read(state.key)
    return {state.key.node: isolate.isolate_as_read(state, rules)}


def _isolate_group(isolate: Isolate, states: Sequence[NodeState], rules: Rules) -> Results:
    """Quarantine those nodes that need isolation, in a cluster without an orchestrator to cordon them."""
    now = isolate.append.clock.now()
    in_use = [state for state in states if state.registered and opted_out_until(state, rules.config, now) is None]
    wanted = [state for state in in_use if needs_isolation(state, ordered=False)]
    results = {state.key.node: IsolationResult.NOTHING for state in states}
    revise = isolate.permitted(confirm(Isolation.NOT_APPLICABLE, NO_ORCHESTRATOR, ordered=False), rules)

    def commit_alone(node: NodeKey) -> None:
        results[node.node] = isolate.isolate(node)

    changes = {state.key: revise for state in wanted}
    for done in append_many(isolate.append, changes, actor=Actor.ISOLATE, alone=commit_alone):
        results[done.state.key.node] = confirmed(done.state, NO_ORCHESTRATOR, now)
    return results


def isolation_urgency(state: NodeState) -> tuple[int, datetime, str]:
    """Return the place of a node among the nodes that need a permit: the most severe fault comes first."""
    case = state.live_case
    opened = case.opened_at if case else datetime.max.replace(tzinfo=UTC)
    return -(state.severity.rank if state.severity else 0), opened, state.key.node
