"""Isolation: keeps new work off a faulty node at once, before its repair starts.

The isolation is stored as `requested` before the orchestrator is called, so that the sweep repeats the call after a
crash. A node becomes `quarantined` when its isolation is confirmed. A node that recovers before that is uncordoned. A
node whose instance is proven dead can become `quarantined` without a confirmation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import Isolation, NodeKey, NodeState
from faultbridge.errors import Misconfigured
from faultbridge.ledger.append import Append
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.decide.opt_out import opted_out_until
from faultbridge.pipeline.decide.orchestrator_unreachable import proof_of_failure, reason_to_proceed
from faultbridge.ports import CallResult, ClusterNode, Orchestrator, ProviderFailure
from faultbridge.repair.controls import Controls
from faultbridge.repair.isolation_backoff import end_backoff, isolation_note, record_failed_call
from faultbridge.repair.isolation_changes import confirm, confirm_cordon, log_isolation, quarantine, request_again
from faultbridge.repair.isolation_rules import breaker_holds, in_service, needs_isolation, waits_out_of_service
from faultbridge.rules.rulebook import Rulebook, rules_of

CONFIRMED = "isolation confirmed"
NO_ORCHESTRATOR = "isolation not applicable: the cluster has no orchestrator"
HELD_BY_BREAKER = "the breaker is not closed"
WITHDRAWN = "isolation withdrawn: the node has no fault that needs a repair"
PROVIDER_ISOLATES = "isolation not applicable: the provider repairs the node and keeps work off it"


class IsolationResult(StrEnum):
    """The result of one isolation call.

    - `nothing`: no isolation is needed or permitted.
    - `done`: the node is now isolated or, with a dead instance, quarantined without a confirmed isolation.
    - `withdrawn`: the node recovered and was uncordoned.
    - `failed`: the orchestrator did not confirm the call; the sweep repeats the call.
    - `held`: a circuit breaker keeps the node in service.
    - `postponed`: the delay after a failed call has not ended.
    """

    NOTHING = "nothing"
    DONE = "done"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    HELD = "held"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class Isolate:
    """Isolates nodes whose case requires it, through the orchestrator of their cluster."""

    append: Append
    rulebook: Rulebook
    orchestrators: Mapping[str, Orchestrator]
    controls: Controls

    def __call__(self, key: NodeKey, *, ordered: bool = False) -> IsolationResult:
        """Isolate one node, or uncordon it if it no longer needs isolation. The sweep repeats a failed call.

        With `ordered`, the node is isolated because its repair starts, even if the policy kept it in service until
        then. In a cluster that Faultbridge repairs, an open circuit breaker keeps the node in service. A half-open
        breaker does so only without `ordered`.
        """
        state = self.append.read(key)
        return self.as_read(state, rules_of(self.rulebook, key.cluster), ordered=ordered)

    def as_read(
        self, state: NodeState, rules: Rules, control: Control | None = None, *, ordered: bool = False
    ) -> IsolationResult:
        """Isolate one node whose state the caller has just read; uncordon it if it no longer needs isolation.

        - `ordered` is True if the node is isolated because its repair starts.
        - `control` has the cluster's controls, with its circuit breakers, if the caller has just read them, else None.

        Breakers are checked only in a cluster that Faultbridge repairs, and only for a node in service. If a breaker in
        `control` keeps the node in service, the result is `held`. Otherwise the breakers are read from the table and
        checked again before the node is isolated, because a breaker may have opened since `control` was read.
        """
        config = rules.config
        permitted = state.registered and opted_out_until(state, config, self.append.clock.now()) is None
        if permitted and config.follows_provider:
            return self._confirm_for_provider(state, ordered=ordered)
        if not permitted or not config.repairs:
            return IsolationResult.NOTHING
        orchestrator = self.orchestrator(config)
        if needs_isolation(state, ordered=ordered):
            if self._held_by_breaker(state, control, ordered=ordered):
                # Each sweep repeats this for each node; the breaker itself is logged when it changes.
                log_isolation(state, "isolation_held", HELD_BY_BREAKER, level=logging.DEBUG)
                return IsolationResult.HELD
            return self._isolate(state, rules, orchestrator, ordered=ordered)
        if state.isolation is Isolation.REQUESTED and in_service(state):
            return self._withdraw(state, rules, orchestrator)
        waits = orchestrator.applicable and waits_out_of_service(state)
        return self._isolate_waiting(state, rules, orchestrator) if waits else IsolationResult.NOTHING

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

        self.append(state.key, revise, actor=Actor.ISOLATE)
        log_isolation(state, "isolation_confirmed", CONFIRMED)
        return IsolationResult.DONE

    def _is_postponed(self, state: NodeState) -> bool:
        return state.isolation_again_at is not None and self.append.clock.now() < state.isolation_again_at

    def _confirm_for_provider(self, state: NodeState, *, ordered: bool) -> IsolationResult:
        if not needs_isolation(state, ordered=ordered):
            return IsolationResult.NOTHING
        return self._confirm(state, Isolation.NOT_APPLICABLE, PROVIDER_ISOLATES, ordered=ordered)

    def _held_by_breaker(self, state: NodeState, control: Control | None, *, ordered: bool) -> bool:
        if control is not None and breaker_holds(control, state, ordered=ordered):
            return True
        return breaker_holds(self.controls.read(state.key.cluster), state, ordered=ordered)

    def _isolate(self, state: NodeState, rules: Rules, orchestrator: Orchestrator, *, ordered: bool) -> IsolationResult:
        config = rules.config
        if not orchestrator.applicable:
            return self._confirm(state, Isolation.NOT_APPLICABLE, NO_ORCHESTRATOR, ordered=ordered)
        if state.isolation is Isolation.NONE:
            state = self._request(state, ordered=ordered)
            if state.isolation is not Isolation.REQUESTED:
                return IsolationResult.NOTHING
        if self._is_postponed(state):
            return IsolationResult.POSTPONED
        answer = orchestrator.cordon(ClusterNode.of(state, config))
        if answer.ok:
            return self._confirm(state, Isolation.CONFIRMED, CONFIRMED, ordered=ordered)
        after = self._record_failure(state, rules, answer)
        proof = proof_of_failure(after) if answer.failure is ProviderFailure.NOT_FOUND else None
        if proof is not None:  # the orchestrator removed its node with the instance, so nothing is left to cordon
            text = f"the orchestrator has no such node, and {proof}"
            return self._confirm(after, Isolation.REQUESTED, text, ordered=ordered)
        return self._proceed_without(after, rules, ordered=ordered)

    def _proceed_without(self, state: NodeState, rules: Rules, *, ordered: bool) -> IsolationResult:
        """Quarantine a node without a confirmed isolation, if its instance is dead and the policy permits it.

        The drain step calls the orchestrator again later.
        """
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

    def _request(self, state: NodeState, *, ordered: bool) -> NodeState:
        def revise(now: NodeState, at: datetime) -> Transition:
            needed = needs_isolation(now, ordered=ordered) and now.isolation is Isolation.NONE
            requested = replace(now, isolation=Isolation.REQUESTED, isolation_since=at, orchestrator_lost_at=None)
            return Transition(requested if needed else now)

        after = self.append(state.key, revise, actor=Actor.ISOLATE, current=state).state
        if after.isolation is Isolation.REQUESTED:
            log_isolation(after, "isolation_requested", after.live_case.code if after.live_case else "")
        return after

    def _confirm(self, state: NodeState, how: Isolation, reason: str, *, ordered: bool) -> IsolationResult:
        revise = confirm(how, reason, ordered=ordered)
        return confirmed(self.append(state.key, revise, actor=Actor.ISOLATE, current=state).state, reason)

    def _withdraw(self, state: NodeState, rules: Rules, orchestrator: Orchestrator) -> IsolationResult:
        answer = orchestrator.uncordon(ClusterNode.of(state, rules.config))
        if not answer.ok:
            self._record_failure(state, rules, answer)
            return IsolationResult.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            if now.isolation is not Isolation.REQUESTED or needs_isolation(now, ordered=False):
                return Transition(now)
            draft = isolation_note(now, WITHDRAWN, at)
            # Only a tick may set the status `healthy`, so the node is due at once.
            serving, drafts = end_backoff(replace(now, isolation=Isolation.NONE, due_at=at), at)
            return Transition(serving, (draft, *drafts))

        after = self.append(state.key, revise, actor=Actor.ISOLATE).state
        if after.isolation is Isolation.CONFIRMED:
            # Another call cordoned the node for a newer fault, and this uncordon may have come after it.
            requested = self.append(state.key, request_again, actor=Actor.ISOLATE).state
            return self._isolate_waiting(requested, rules, orchestrator)
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


def confirmed(state: NodeState, reason: str) -> IsolationResult:
    """Log the isolation and return DONE if the node is now quarantined; otherwise return NOTHING."""
    if state.status is not NodeStatus.QUARANTINED:
        return IsolationResult.NOTHING
    log_isolation(state, "isolation_confirmed", reason)
    return IsolationResult.DONE
