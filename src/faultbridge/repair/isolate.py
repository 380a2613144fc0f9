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
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from faultbridge.decide.case_moves import Rules, opted_out_until
from faultbridge.decide.governing_rules import proof_of_failure, reason_to_proceed
from faultbridge.decide.work import work_stays
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.isolation import in_service, needs_isolation, needs_permit, takes_work
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Revise
from faultbridge.record.ports import CallResult, ClusterNode, Orchestrator
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.isolation import (
    confirm,
    confirm_cordon,
    log_isolation,
    quarantine,
    record_failed_call,
    request_again,
    unless_superseded,
    waits_out_of_service,
    withdraw,
)
from faultbridge.repair.isolation_permits import IsolationPermits

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
        if config.repairs and free and _is_kept_from_work(state):  # also while the node is ignored
            return self._withdraw(state, rules, self.orchestrator(config))
        permitted = state.registered and opted_out_until(state, config, self.append.clock.now()) is None
        if permitted and config.follows_provider:
            return self._confirm_for_provider(state, rules, ordered=ordered)
        if not permitted or not config.repairs:
            return IsolationResult.NOTHING
        orchestrator = self.orchestrator(config)
        if needs_isolation(state, ordered=ordered):
            result = self._isolate(state, rules, orchestrator, ordered=ordered)
            prefers = result is IsolationResult.HELD and not state.discouraged and orchestrator.applicable
            # While the budget keeps the node in service, the orchestrator prefers other nodes for new work.
            if prefers and orchestrator.discourage(ClusterNode.of(state, rules.config)).ok:
                self.append(state.key, _mark_discouraged, actor=Actor.ISOLATE, current=state)
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
            if takes_work(changed.state) or not rules.config.repairs or not needs_permit(now, at):
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

    def _confirm_for_provider(self, state: NodeState, rules: Rules, *, ordered: bool) -> IsolationResult:
        if not needs_isolation(state, ordered=ordered):
            return IsolationResult.NOTHING
        return self._confirm(state, rules, Isolation.NOT_APPLICABLE, PROVIDER_ISOLATES, ordered=ordered)

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


def _is_kept_from_work(state: NodeState) -> bool:
    return state.discouraged or state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED}


def keeps_work(state: NodeState) -> bool:
    """Return whether the running work of a node stays there, although the node has a case."""
    return state.live_case is not None and work_stays(state, state.live_case)


def _request_uncordon(state: NodeState, at: datetime) -> Transition:
    return request_again(state, at) if state.isolation is Isolation.CONFIRMED else Transition(state)


def _mark_discouraged(state: NodeState, _: datetime) -> Transition:
    return Transition(replace(state, discouraged=takes_work(state)))


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
