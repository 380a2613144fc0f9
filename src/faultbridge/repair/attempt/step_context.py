"""The context of one call of a step: what it may read, and the fenced writes that change the node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec import Struct, field

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.governing_rules import Requirement, requirement_for, rule_of_case
from faultbridge.model.cases import FAILED_STEP, Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import KARPENTER, ClusterConfig
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, RepairAction, WaitingFor
from faultbridge.model.errors import Misconfigured
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports import (
    Clock,
    ClusterNode,
    Collector,
    ComputeAccess,
    Launcher,
    ObjectStore,
    Orchestrator,
    Provider,
    Restarter,
    Table,
    Verifier,
    VolumeAttachments,
    Volumes,
    Workflow,
)
from faultbridge.record.rulebook import Rulebook
from faultbridge.repair.admission import ask_operator
from faultbridge.repair.attempt.progress import (
    escalate_case,
    exclude_attempt,
    live_attempt,
    record_outcome,
    requeue_case,
    retry_time,
    update_attempt,
)
from faultbridge.repair.attempt.step_contract import (
    AttemptSuperseded,
    StepAlreadyFinished,
    StepOutcome,
    StepRequest,
    StepResult,
)

P = TypeVar("P")


def adapter_named(adapters: Mapping[str, P], kind: str, name: str) -> P:
    """Return the adapter of this name; raises Misconfigured, with the known names, if there is none."""
    if name not in adapters:
        raise Misconfigured(f"unknown {kind}: {name!r}; known: {', '.join(sorted(adapters)) or 'none'}")
    return adapters[name]


def no_other_accounts(config: ClusterConfig) -> ComputeAccess:
    """Raise Misconfigured: this installation cannot access other AWS accounts or HyperPod clusters."""
    asked = config.provider_role.arn if config.provider_role else config.hyperpod_cluster or config.eks_cluster
    raise Misconfigured(f"access to the instances of {config.cluster} is not set up: {asked}")


class StepTools(Struct, frozen=True):
    """The interfaces that steps use; a cluster selects its adapters, such as the provider, by name."""

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
    volumes: Mapping[str, Volumes] = field(default_factory=dict)
    volume_attachments: Mapping[str, VolumeAttachments] = field(default_factory=dict)
    probe_interval: timedelta = timedelta(seconds=30)
    compute_of_cluster: Callable[[ClusterConfig], ComputeAccess] = no_other_accounts
    update_incidents: Callable[[str], object] = lambda _cluster: None

    def compute(self, config: ClusterConfig) -> ComputeAccess:
        """Return a cluster's own adapters if it has a role, HyperPod or Karpenter, else the shared ones."""
        shared = config.provider_role is None and config.hyperpod_cluster is None and config.provider != KARPENTER
        return self if shared else self.compute_of_cluster(config)


Change = Callable[[NodeState, datetime], Transition]


class StepContext(Struct, frozen=True):
    """One call of a step: its tools, request and rules, and the node as last read or written."""

    tools: StepTools
    request: StepRequest
    rules: Rules
    state: NodeState

    @property
    def now(self) -> datetime:
        """Return the current time."""
        return self.tools.clock.now()

    @property
    def case(self) -> Case:
        """Return the live case of the node. Raises AttemptSuperseded if no live case has an attempt."""
        return live_attempt(self.state)[0]

    @property
    def attempt(self) -> Attempt:
        """Return the attempt of the live case. Raises AttemptSuperseded if no live case has an attempt."""
        return live_attempt(self.state)[1]

    @property
    def instance_id(self) -> str | None:
        """Return the id of the instance that backs the node, or None if it is not known."""
        incarnation = self.state.incarnation
        return incarnation.instance_id if incarnation else None

    @property
    def compute(self) -> ComputeAccess:
        """Return the adapters through which Faultbridge accesses the cluster's instances."""
        return self.tools.compute(self.rules.config)

    @property
    def provider(self) -> Provider:
        """Return the adapter of the system that replaces the cluster's instances."""
        return adapter_named(self.compute.providers, "provider", self.rules.config.provider)

    @property
    def launcher(self) -> Launcher | None:
        """Return the adapter that launches successors, or None if the provider's groups launch them."""
        return self.compute.launchers.get(self.rules.config.provider)

    @property
    def restarter(self) -> Restarter:
        """Return the adapter that resets GPUs and reboots instances of the cluster."""
        return adapter_named(self.compute.restarters, "restarter", self.rules.config.restarter)

    @property
    def orchestrator(self) -> Orchestrator:
        """Return the adapter of the system that cordons and drains the cluster's nodes."""
        return adapter_named(self.tools.orchestrators, "orchestrator", self.rules.config.orchestrator)

    @property
    def volumes(self) -> Volumes:
        """Return the adapter that moves the volumes of the cluster's instances."""
        return adapter_named(self.compute.volumes, "provider with volumes", self.rules.config.provider)

    @property
    def moves_volumes(self) -> bool:
        """Return whether the repair may move volumes: the policy names volumes, or `moving_volumes` has some."""
        return bool(self.rules.policy.volumes or self.state.moving_volumes)

    @property
    def lacks_volumes(self) -> bool:
        """Return whether the cluster's provider has no adapter that can move volumes between instances."""
        return self.rules.config.provider not in self.compute.volumes

    @property
    def member(self) -> ClusterNode:
        """Return the node in the data type that orchestrator adapters accept."""
        return ClusterNode.of(self.state, self.rules.config)

    @property
    def verifier(self) -> Verifier:
        """Return the adapter of the system that runs diagnostics on the cluster's instances."""
        return adapter_named(self.compute.verifiers, "verifier", self.rules.config.verifier)

    def log(self, decision: str, reason: str, level: int = logging.WARNING, **ids: object) -> None:
        """Log a decision of this call with the ids of node, case, attempt and step."""
        key, request = self.request.key, self.request
        log_cause(
            decision,
            reason=reason,
            level=level,
            cluster=key.cluster,
            node=key.node,
            case_id=request.case,
            attempt=request.attempt,
            step=request.step,
            **ids,
        )

    def fence(self, state: NodeState) -> None:
        """Check that this call may still write; otherwise raise AttemptSuperseded or StepAlreadyFinished."""
        case = state.live_case
        attempt = case.attempt if case else None
        if case is None or attempt is None or case.status is not CaseStatus.IN_PROGRESS:
            raise AttemptSuperseded
        if (case.id, case.attempts) != (self.request.case, self.request.attempt):
            raise AttemptSuperseded
        if self.request.step in attempt.steps:
            raise StepAlreadyFinished(StepResult(StepOutcome(attempt.steps[self.request.step])))

    def commit(self, revise: Change, actor: Actor = Actor.STEP) -> StepContext:
        """Write a change of the node and return the new context, unless `fence` raises an error."""

        def fenced(state: NodeState, now: datetime) -> Transition:
            self.fence(state)
            return revise(state, now)

        appended = self.tools.append(self.state.key, fenced, actor=actor, current=self.state)
        return replace(self, state=appended.state)

    def finish(self, outcome: StepOutcome, phase: Phase, change: Change, actor: Actor = Actor.STEP) -> StepResult:
        """Write the step's outcome, the attempt's next `phase` and a change of the node in one transaction."""

        def finished(state: NodeState, now: datetime) -> Transition:
            changed = change(state, now)
            after = record_outcome(changed.state, self.request.step, outcome, phase, now)
            return replace(changed, state=after)

        self.commit(finished, actor)
        return StepResult(outcome)

    def escalate_to_operator(self, reason: str | Reason, *drafts: Draft, fails: bool = True) -> StepResult:
        """End the attempt and escalate the case to an operator; `fails=False` keeps the status of the node."""
        self.commit(lambda state, now: escalate_case(state, now, reason, drafts=drafts, fails=fails))
        self.log("attempt_escalated", str(reason))
        return StepResult(StepOutcome.FAILED, str(reason))

    def requeue(
        self,
        waiting_for: WaitingFor,
        reason: str | Reason,
        *drafts: Draft,
        repair_action: RepairAction | None = None,
        delay: bool = True,
        counts: bool = True,
        failed: bool = False,
    ) -> StepResult:
        """End the attempt and queue the case again.

        - `repair_action`: the action of the next attempt; with None, `requeue_case` chooses it.
        - `delay`: if True, the next attempt waits for a time that grows with each attempt; else it may start at once.
        - `counts`: if True, the ended attempt counts against the number of attempts that the policy permits.
        - `failed`: if True, the repair failed, which ends the trial of a half-open breaker.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            not_before = retry_time(self.case, now) if delay else None
            case, attempt = live_attempt(state)
            if failed and case.repair_action.needs_slot:
                state = update_attempt(state, {**case.marks, FAILED_STEP: attempt.since or now})
            queued = requeue_case(
                state,
                now,
                waiting_for,
                reason,
                drafts=drafts,
                repair_action=repair_action,
                requirement=self._requirement_of(state, repair_action),
                not_before=not_before,
            )
            return queued if counts else exclude_attempt(queued)

        self.commit(revise)
        self.log("attempt_requeued", str(reason), waiting_for=waiting_for.value, repair_action=repair_action)
        return StepResult(StepOutcome.STOPPED, str(reason))

    def _requirement_of(self, state: NodeState, action: RepairAction | None) -> Requirement | None:
        order = list(RepairAction)
        if action is None or order.index(action) <= order.index(self.case.repair_action):
            return None
        return requirement_for(state, self.rules.policy, action)

    def request_approval(self, reason: str, *drafts: Draft) -> StepResult:
        """Queue the case again, and request approval of its action; the ended attempt is not counted."""
        deadline = rule_of_case(self.state, self.case, self.rules.policy).approval_deadline

        def revise(state: NodeState, now: datetime) -> Transition:
            queued = exclude_attempt(requeue_case(state, now, WaitingFor.APPROVAL, reason, drafts=drafts))
            action = self.case.repair_action
            question = ask_operator(queued.state, action, reason, now, now + deadline, by_rule=False)
            return Transition(question.state, (*queued.drafts, *question.drafts))

        self.commit(revise)
        self.log("approval_requested", reason)
        return StepResult(StepOutcome.STOPPED, reason)

    def stop_if_canceled(self) -> StepResult | None:
        """End the attempt of a canceled case, unless it only verifies; the next one only verifies."""
        if not self.case.cancelled or self.case.repair_action is RepairAction.VERIFY:
            return None
        return self.requeue(
            WaitingFor.ADMISSION, "canceled before the intent", repair_action=RepairAction.VERIFY, delay=False
        )

    def retry_or_escalate(self, waiting_for: WaitingFor, reason: str | Reason, *drafts: Draft) -> StepResult:
        """Queue the case again if the policy allows another attempt; escalate it otherwise."""
        if self.case.counted_attempts >= self.rules.policy.limits.attempts:
            last = Reason.of(reason).plus(f" (attempt {self.case.attempts}, the last one)")
            return self.escalate_to_operator(last, *drafts)
        return self.requeue(waiting_for, reason, *drafts)
