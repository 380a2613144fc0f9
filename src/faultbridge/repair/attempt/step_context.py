"""Work: one call of one step, with everything the step may look at and the only way in which it may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Attempt, Case, Phase, RepairAction, WaitingFor
from faultbridge.domain.clusters import ProviderRole
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Misconfigured
from faultbridge.ledger.append import Append
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import (
    Clock,
    ClusterNode,
    Collector,
    Launcher,
    ObjectStore,
    Orchestrator,
    Provider,
    Restarter,
    Table,
    Verifier,
    Workflow,
)
from faultbridge.repair.admission import asked
from faultbridge.repair.attempt.compute_access import ComputeAccess, nowhere
from faultbridge.repair.attempt.contract import Answer, Outcome, Request, Settled, Superseded
from faultbridge.repair.attempt.failed_attempts import again_at, escalated, requeued, uncounted
from faultbridge.repair.attempt.progress import live, reached, settled
from faultbridge.rules.rulebook import Rulebook

DRY_FOR = timedelta(minutes=10)
"""How long a group without capacity is left alone before one repair looks again."""

P = TypeVar("P")
Change = Callable[[NodeState, datetime], Transition]


@dataclass(frozen=True, slots=True)
class Tools:
    """The ports that steps use; what acts on nodes and proves them by the names that clusters give them."""

    table: Table
    clock: Clock
    append: Append
    workflow: Workflow
    rulebook: Rulebook
    objects: ObjectStore
    providers: Mapping[str, Provider]
    launchers: Mapping[str, Launcher]
    restarters: Mapping[str, Restarter]
    collector: Collector
    orchestrators: Mapping[str, Orchestrator]
    verifiers: Mapping[str, Verifier]
    probe: timedelta = timedelta(seconds=30)
    elsewhere: Callable[[ProviderRole], ComputeAccess] = nowhere


@dataclass(frozen=True, slots=True)
class Work:
    """A step at work on the node as it last read or wrote it."""

    tools: Tools
    request: Request
    rules: Rules
    state: NodeState

    @property
    def case(self) -> Case:
        """Return the case under repair."""
        return live(self.state)[0]

    @property
    def attempt(self) -> Attempt:
        """Return the attempt under way."""
        return live(self.state)[1]

    @property
    def instance_id(self) -> str | None:
        """Return the instance that sits in the node."""
        sitting = self.state.incarnation
        return sitting.instance_id if sitting else None

    @property
    def reach(self) -> ComputeAccess:
        """Return what acts on the cluster's machines: ours, or that of the account where they are."""
        role = self.rules.config.provider_role
        return self.tools if role is None else self.tools.elsewhere(role)

    @property
    def provider(self) -> Provider:
        """Return what replaces instances of the cluster."""
        return _named(self.reach.providers, "provider", self.rules.config.provider)

    @property
    def launcher(self) -> Launcher | None:
        """Return what launches successors; None where the provider's groups launch them."""
        return self.reach.launchers.get(self.rules.config.provider)

    @property
    def restarter(self) -> Restarter:
        """Return what mends instances of the cluster in place."""
        return _named(self.reach.restarters, "restarter", self.rules.config.restarter)

    @property
    def orchestrator(self) -> Orchestrator:
        """Return what keeps work off nodes of the cluster."""
        return _named(self.tools.orchestrators, "orchestrator", self.rules.config.orchestrator)

    @property
    def member(self) -> ClusterNode:
        """Return the node as its orchestrator is asked about it."""
        return ClusterNode.of(self.state, self.rules.config)

    @property
    def verifier(self) -> Verifier:
        """Return what proves nodes of the cluster good."""
        return _named(self.reach.verifiers, "verifier", self.rules.config.verifier)

    def fence(self, state: NodeState) -> None:
        """Raise Superseded unless the caller's attempt is the live one, Settled if the step has its outcome."""
        case = state.live_case
        attempt = case.attempt if case else None
        if case is None or attempt is None or case.status is not CaseStatus.IN_PROGRESS:
            raise Superseded
        if (case.id, case.attempts) != (self.request.case, self.request.attempt):
            raise Superseded
        if self.request.step in attempt.steps:
            raise Settled(Answer(Outcome(attempt.steps[self.request.step])))

    def commit(self, revise: Change, actor: Actor = Actor.STEP) -> Work:
        """Write a revision of the node, if the attempt is still the live one when it is written."""

        def fenced(state: NodeState, now: datetime) -> Transition:
            self.fence(state)
            return revise(state, now)

        appended = self.tools.append(self.state.key, fenced, actor=actor, config=self.rules.config, current=self.state)
        return replace(self, state=appended.state)

    def settle(
        self,
        outcome: Outcome,
        phase: Phase,
        change: Change,
        actor: Actor = Actor.STEP,
    ) -> Answer:
        """Write what the step came to, in one transaction with what it did to the node."""

        def finish(state: NodeState, now: datetime) -> Transition:
            changed = change(state, now)
            after = settled(reached(changed.state, phase, now), self.request.step, outcome, now)
            return replace(changed, state=after)

        self.commit(finish, actor)
        return Answer(outcome)

    def escalate(self, reason: str, *drafts: Draft, fails: bool = True) -> Answer:
        """End the attempt with a case for a person."""
        self.commit(lambda state, now: escalated(state, now, reason, drafts=drafts, fails=fails))
        return Answer(Outcome.FAILED, reason)

    def requeue(
        self,
        waiting_for: WaitingFor,
        reason: str,
        *drafts: Draft,
        repair_action: RepairAction | None = None,
        later: bool = True,
        counts: bool = True,
    ) -> Answer:
        """End the attempt with the case back in the queue, for `later` with a pause that grows by the attempts.

        An attempt that does not count is none of those that the policy allows.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            not_before = again_at(self.case, now) if later else None
            back = requeued(
                state, now, waiting_for, reason, drafts=drafts, repair_action=repair_action, not_before=not_before
            )
            return back if counts else uncounted(back)

        self.commit(revise)
        return Answer(Outcome.STOPPED, reason)

    def ask(self, reason: str, *drafts: Draft) -> Answer:
        """End the attempt with the case waiting for a person's word about the next one."""
        patience = self.rules.policy.rule_named(self.case.rule).approval_deadline

        def revise(state: NodeState, now: datetime) -> Transition:
            back = uncounted(requeued(state, now, WaitingFor.APPROVAL, reason, drafts=drafts))
            question = asked(back.state, reason, now, now + patience)
            return Transition(question.state, (*back.drafts, *question.drafts))

        self.commit(revise)
        return Answer(Outcome.STOPPED, reason)

    def stop_if_cancelled(self) -> Answer | None:
        """End the attempt where a person cancelled the case: nothing is given up, the node is only brought back."""
        if not self.case.cancelled or self.case.repair_action is RepairAction.VERIFY:
            return None
        return self.requeue(
            WaitingFor.BUDGET, "cancelled before the intent", repair_action=RepairAction.VERIFY, later=False
        )

    def retry_or_escalate(self, waiting_for: WaitingFor, reason: str, *drafts: Draft) -> Answer:
        """Try the case again later as long as it has attempts left."""
        if self.case.tried >= self.rules.policy.limits.attempts:
            return self.escalate(f"{reason} (attempt {self.case.attempts}, the last one)", *drafts)
        return self.requeue(waiting_for, reason, *drafts)


def waiting(reason: str) -> Answer:
    """Answer that the step must be looked at again later."""
    return Answer(Outcome.WAITING, reason)


def _named(known: Mapping[str, P], kind: str, name: str) -> P:
    if name not in known:
        raise Misconfigured(f"{kind} {name!r} is unknown (known: {', '.join(sorted(known)) or 'none'})")
    return known[name]
