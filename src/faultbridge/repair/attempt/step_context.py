"""A step of an attempt: its contract with the state machine, what it may read, and its fenced writes.

A step is fenced if it can write only while its attempt is the current one of the case. The contract has version 1:
request, result and outcomes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, field

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules, due_at, move_case
from faultbridge.decide.governing_rules import (
    Requirement,
    believed,
    requirement_for,
    rule_of_case,
    with_requirement,
)
from faultbridge.model.cases import FAILED_STEP, HELD_SINCE, Approval, Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import KARPENTER, PARALLEL_CLUSTER, ClusterConfig
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, NoteKind, RepairAction, WaitingFor
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.compute import Collector, Launcher, Provider, Restarter, Verifier
from faultbridge.record.ports.installation import ComputeAccess
from faultbridge.record.ports.messaging import Workflow
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.ports.orchestrator import ClusterNode, Orchestrator, VolumeAttachments, Volumes
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.rulebook import Rulebook

VERSION = 1
SUPPORTED_VERSIONS = frozenset({VERSION})
"""Executions run for hours and survive deployments: support the previous version while one may still run."""

MAX_ERROR_LENGTH = 500


def execution_input(key: NodeKey, case: Case) -> dict[str, object]:
    """Return the input of the Step Functions execution for the current attempt of a case."""
    return {"v": VERSION, "cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}


class StepRequest(Struct, frozen=True):
    """One call of one step for one attempt; `error` is what the state machine or the runner caught."""

    step: str
    key: NodeKey
    case: str
    attempt: int
    error: str = ""

    @classmethod
    def read(cls, payload: Mapping[str, object]) -> StepRequest:
        """Parse the payload of a call. Raises Rejected for an unsupported version or a malformed payload."""
        if payload.get("v") not in SUPPORTED_VERSIONS:
            supported = ", ".join(str(version) for version in sorted(SUPPORTED_VERSIONS))
            raise Rejected(
                "unknown_version",
                f"unsupported version of the step contract: {payload.get('v')!r}; supported: {supported}",
            )
        try:
            key = NodeKey(str(payload["cluster"]), str(payload["node"]))
            case, attempt, error = str(payload["case"]), int(str(payload["attempt"])), payload.get("error") or ""
            if isinstance(error, Mapping):
                error = f"{error.get('Error', 'error')}: {error.get('Cause', '')}"[:MAX_ERROR_LENGTH]
            return cls(str(payload["step"]), key, case, attempt, str(error))
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected("bad_step", f"missing or invalid field in the step payload: {error}") from error


class StepOutcome(StrEnum):
    """The outcome of a step, by which the state machine selects its next state.

    - `done`: continue with the next state.
    - `repair`: reset or reboot the instance instead of replacing it.
    - `diagnose`: verify the instance without a repair.
    - `follow`: wait for the provider's own repair.
    - `gone`: another controller terminated the instance; wait for its successor.
    - `waiting`: there is no result yet; the result is sent later to the execution, by its task token.
    - `stopped`: the case is queued again.
    - `failed`: the case is escalated to an operator.
    - `superseded`: the attempt of this call has ended or was replaced by a newer attempt.
    """

    DONE = "done"
    DIAGNOSE = "diagnose"
    REPAIR = "repair"
    FOLLOW = "follow"
    GONE = "gone"
    WAITING = "waiting"
    STOPPED = "stopped"
    FAILED = "failed"
    SUPERSEDED = "superseded"


class StepResult(Struct, frozen=True):
    """The result of one call of one step, with a reason in plain text."""

    outcome: StepOutcome
    reason: str = ""

    def data(self, step: str) -> dict[str, str]:
        """Return the result of the step `step` in the form that the state machine reads."""
        return {"step": step, "outcome": self.outcome.value, "reason": self.reason}


def waiting(reason: str) -> StepResult:
    """Return the result of a step that has no outcome yet and is probed again later."""
    return StepResult(StepOutcome.WAITING, reason)


class AttemptSuperseded(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if the attempt of a call has ended or was replaced by a newer attempt."""


class StepAlreadyFinished(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if a step already has its outcome; a repeated call returns this outcome."""

    def __init__(self, result: StepResult) -> None:
        """Store the recorded result of the step."""
        super().__init__(result.outcome.value)
        self.result = result


LEASE = timedelta(minutes=3)
"""Longer than any call of a step: until the lease ends, the sweep leaves the attempt alone."""

MAX_PROBE_INTERVAL = timedelta(minutes=10)
MAX_PROBE_DOUBLINGS = 16
"""Limits the exponent of the doubling; the interval reaches its maximum long before."""


def live_attempt(state: NodeState) -> tuple[Case, Attempt]:
    """Return the live case of a node and its attempt, else raise AttemptSuperseded."""
    case = state.live_case
    if case is None or case.attempt is None:
        raise AttemptSuperseded
    return case, case.attempt


def update_attempt(
    state: NodeState,
    marks: Mapping[str, datetime] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of Attempt
) -> NodeState:
    """Change fields of the node's current attempt (and `Case.marks`), and compute its next timer."""
    case, attempt = live_attempt(state)
    changed = replace(case, attempt=replace(attempt, **changes), marks=case.marks if marks is None else marks)
    return replace(state, case=changed, due_at=due_at(state, case=changed))


def start_or_resume_step(
    state: NodeState, step: str, token: str | None, now: datetime, timeout: timedelta
) -> NodeState:
    """Start a step, with a deadline after `timeout`, or resume it with its old deadline."""
    _, attempt = live_attempt(state)
    if attempt.step == step:
        return update_attempt(state, task_token=token or attempt.task_token, probe_at=now + LEASE)
    return update_attempt(
        state, step=step, since=now, tries=0, deadline=now + timeout, task_token=token, probe_at=now + LEASE
    )


def schedule_probe(state: NodeState, now: datetime, first: timedelta) -> NodeState:
    """Schedule the next probe of a waiting step, not later than a coming deadline.

    `first` is the time until the first probe of the step; each further interval is twice as long, up to a maximum.
    """
    _, attempt = live_attempt(state)
    at = now + min(first * (1 << min(attempt.tries, MAX_PROBE_DOUBLINGS)), MAX_PROBE_INTERVAL)
    if attempt.deadline is not None and attempt.deadline > now:
        at = min(at, attempt.deadline)
    return update_attempt(state, tries=attempt.tries + 1, probe_at=at)


def enter_phase(state: NodeState, phase: Phase, now: datetime) -> NodeState:
    """Move the attempt into a phase, such as draining. The case records when it first entered each phase."""
    case, _ = live_attempt(state)
    return update_attempt(state, {phase.value: now, **case.marks}, phase=phase)


def record_outcome(state: NodeState, step: str, outcome: StepOutcome, phase: Phase, now: datetime) -> NodeState:
    """Record the outcome of a step, and move the attempt into the next phase.

    The Step Functions task token is kept until the next step starts. If the execution did not receive the outcome, the
    recovery can therefore send the outcome again.
    """
    case, attempt = live_attempt(state)
    steps, marks = {**attempt.steps, step: outcome.value}, {phase.value: now, **case.marks}
    return update_attempt(state, marks, phase=phase, steps=steps, tries=0, deadline=None, probe_at=now + LEASE)


def stop_timers(attempt: Attempt) -> Attempt:
    """Remove task token, probe time and deadline from an attempt that has ended."""
    return replace(attempt, task_token=None, probe_at=None, deadline=None)


def move_node(state: NodeState, target: NodeStatus, now: datetime, reason: str | Reason) -> tuple[NodeState, Draft]:
    """Change the status of a node, and draft the entry that records the change."""
    return replace(state, status=target), entry_builder.status_change(state, target, now, reason)


BECOME_FAILED = frozenset(
    {
        NodeStatus.DRAINING,
        NodeStatus.REPAIRING,
        NodeStatus.REPLACING,
        NodeStatus.PROVISIONING,
        NodeStatus.VALIDATING,
    }
)
"""A node in one of these statuses becomes `failed` when its case is escalated."""

BECOME_QUARANTINED = frozenset({NodeStatus.DRAINING, NodeStatus.REPAIRING, NodeStatus.REPLACING, NodeStatus.VALIDATING})
"""A node in one of these statuses becomes `quarantined` again when its case is queued again."""

FIRST_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(minutes=30)
MAX_RETRY_DOUBLINGS = 5
"""Enough doublings to reach the longest delay; a case may wait for capacity for hundreds of attempts."""


def escalate_case(
    state: NodeState, now: datetime, reason: str | Reason, *, drafts: tuple[Draft, ...] = (), fails: bool = True
) -> Transition:
    """End the attempt and escalate the case to an operator.

    If `BECOME_FAILED` lists the status of the node, the node becomes `failed`. With `fails=False` the node keeps its
    status, because nothing proves that the node is faulty.
    """
    if fails and state.status in BECOME_FAILED:
        state, draft = move_node(state, NodeStatus.FAILED, now, reason)
        drafts = (*drafts, draft)
    case, attempt = live_attempt(state)
    escalated = replace(case, status=CaseStatus.ESCALATED, attempt=stop_timers(attempt), because=Reason.of(reason))
    return move_case(Transition(state, drafts), escalated, now, reason)


def requeue_case(
    state: NodeState,
    now: datetime,
    waiting_for: WaitingFor,
    reason: str | Reason,
    *,
    drafts: tuple[Draft, ...] = (),
    repair_action: RepairAction | None = None,
    requirement: Requirement | None = None,
    not_before: datetime | None = None,
) -> Transition:
    """End the attempt and queue the case again, which releases its repair slot.

    If `BECOME_QUARANTINED` lists the status of the node, the node becomes `quarantined` again.

    - `repair_action`: the repair action of the next attempt. None means the action of the case. If the ended attempt
      was verifying the node and has no intent, None means `verify`, because another controller may have replaced the
      instance. For a canceled case, the next action is always `verify`.
    - `requirement`: the condition that requires a stronger repair action, with its policy rule, or None. This rule
      becomes the rule of the case.
    - `not_before`: the earliest time of the next attempt; None if it may start at once.
    """
    case, attempt = live_attempt(state)
    if waiting_for is WaitingFor.IDLE and not case.claimed:  # what only claims report sends no page
        case = replace(case, marks={HELD_SINCE: attempt.since or now, **case.marks})
    verifying = state.status is NodeStatus.VALIDATING and attempt.intent is None
    if case.cancelled or (verifying and repair_action is None):
        repair_action = RepairAction.VERIFY
    if state.status in BECOME_QUARANTINED:
        state, draft = move_node(state, NodeStatus.QUARANTINED, now, reason)
        drafts = (*drafts, draft)
    queued = replace(
        with_requirement(case, requirement) if requirement else case,
        status=CaseStatus.QUEUED,
        attempt=None,
        repair_action=repair_action or case.repair_action,
        waiting_for=waiting_for,
        not_before=not_before,
        because=Reason.of(reason),
        capacity_since=(case.capacity_since or now) if waiting_for is WaitingFor.CAPACITY else case.capacity_since,
    )
    return move_case(Transition(state, drafts), queued, now, reason)


def exclude_attempt(transition: Transition) -> Transition:
    """Return the transition with its ended attempt excluded from the policy's limit of attempts."""
    case = transition.state.live_case
    if case is None:
        return transition
    return replace(transition, state=replace(transition.state, case=replace(case, uncounted=case.uncounted + 1)))


def retry_time(case: Case, now: datetime) -> datetime:
    """Return when a case may be retried: after one minute, doubled with each attempt up to 30 minutes."""
    return now + min(FIRST_RETRY_DELAY * (1 << min(max(case.attempts - 1, 0), MAX_RETRY_DOUBLINGS)), MAX_RETRY_DELAY)


P = TypeVar("P")


def ask_operator(
    state: NodeState,
    repair_action: RepairAction,
    reason: str,
    now: datetime,
    answer_by: datetime,
    *,
    by_rule: bool = True,
    rule: str | None = None,
) -> Transition:
    """Request an operator's approval of this repair action for the next attempt of a queued case.

    - `answer_by`: the deadline for the operator's answer.
    - `by_rule`: False if missing evidence of EC2 capacity, and no policy rule, requires the approval.
    - `rule`: the name of the policy rule that requires the approval; None means the rule of the case. The rule is added
      to the rules that govern the case, so that it applies to later attempts even if its fault has ended.

    For a canceled case, only a verification is requested, because its next attempt does nothing else.
    """
    case = state.live_case
    if case is None or (case.cancelled and repair_action is not RepairAction.VERIFY):
        return Transition(state)
    approval = Approval(case.attempts + 1, repair_action, now, answer_by, by_rule=by_rule)
    facts = {
        "attempt": approval.attempt,
        "repair_action": repair_action.value,
        "answer_by": to_text(answer_by),
        "instance_id": state.instance_id,
        "rule": rule or case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(kind=NoteKind.APPROVAL, text=reason, at=now, case_id=case.id, facts=facts, stage="begun")
    governed_by = tuple(dict.fromkeys((*case.governed_by, *([rule] if rule else ()))))
    state = replace(state, case=replace(case, approval=approval, governed_by=governed_by))
    return Transition(replace(state, due_at=due_at(state, now)), (draft,))


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
        """Return a cluster's own adapters if it has a role, HyperPod, Karpenter or ParallelCluster, else the shared."""
        shared = config.provider_role is None and config.hyperpod_cluster is None
        return (
            self if shared and config.provider not in {KARPENTER, PARALLEL_CLUSTER} else self.compute_of_cluster(config)
        )


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
        return self.state.instance_id

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

    def entry(
        self,
        outcome: str,
        at: datetime | None = None,
        *,
        step: str | None = None,
        **details: Any,  # noqa: ANN401 - arguments of entry_builder.step
    ) -> Draft:
        """Draft the entry of this step, or of `step`, with its outcome, `at` a time or now."""
        return entry_builder.step(self.case, step or self.request.step, outcome, at or self.now, **details)

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

    def escalate_to_operator(
        self,
        reason: str | Reason,
        *drafts: Draft,
        fails: bool = True,
        change: Callable[[NodeState], NodeState] = lambda state: state,
    ) -> StepResult:
        """End the attempt and escalate the case to an operator, after a `change` of the node.

        `fails=False` keeps the status of the node.
        """
        self.commit(lambda state, now: escalate_case(change(state), now, reason, drafts=drafts, fails=fails))
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
        # A claim that arrived meanwhile has a verification of its own before it, and so does its rule.
        return requirement_for(believed(state), self.rules.policy, action)

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
