"""The intent of an attempt: its point of no return, recorded before a repair acts on an instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import exclusion_reason
from faultbridge.decide.correlate.held_cases import families_of
from faultbridge.decide.governing_rules import (
    believed,
    next_higher,
    next_repair_action,
    required_repair_action,
    requirements,
    rule_of_case,
    rule_to_ask,
    strongest_requirement,
    with_governing_rules,
)
from faultbridge.model.cases import Intent, Phase, Reason
from faultbridge.model.cluster.config import FailureDomain, failure_domains
from faultbridge.model.cluster.state import Control
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import NodeStatus, ProviderFailure, RepairAction, WaitingFor
from faultbridge.model.errors import FaultbridgeError, Transient
from faultbridge.model.nodes import NodeKey, NodeState, is_repeated, is_replaced
from faultbridge.model.policy import Rule
from faultbridge.model.storage import items
from faultbridge.model.storage.wire.message import raw_key
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Bundle, BundleState
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.queries import cluster_control
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    enter_phase,
    live_attempt,
    move_node,
    update_attempt,
    waiting,
)

# Exclusions: end an attempt whose node or cluster was excluded from repairs after its admission.
#
# A node is excluded while
#
# - the owner of its group updates the group (update hold),
# - its cluster is under maintenance, or the mode or the repair owner of the cluster permits no repair,
# - the node is ignored.
#
# An attempt that only verifies its node continues.


def stop_for_update(context: StepContext) -> StepResult | None:
    """End the attempt, unless it only verifies, if the node's group has an update hold."""
    hold = context.rules.config.update_hold(context.state.placement.group, context.now)
    if hold is None or not context.case.repair_action.needs_slot:
        return None
    reason = f"an update of group {hold.group} began before the intent"
    return context.requeue(WaitingFor.UPDATE, reason, delay=False, counts=False)


def stop_if_excluded(context: StepContext) -> StepResult | None:
    """Requeue the case, unless the attempt only verifies, if the node is excluded from repairs."""
    reason = exclusion(context, context.state)
    if reason is None or not context.case.repair_action.needs_slot:
        return None
    return context.requeue(WaitingFor.PAUSE, reason, delay=False, counts=False)


def exclusion(context: StepContext, state: NodeState) -> str | None:
    """Return why the node is excluded from repairs now (update holds apart), or None."""
    config = context.rules.config
    if not config.permits_repairs:
        return f"the cluster's mode is {config.mode.value} and its repair owner {config.repair_owner.value}"
    return exclusion_reason(state, config, context.now)


NAME = "intent"
NODE_STATUS_OF = {
    RepairAction.RESET_GPU: NodeStatus.REPAIRING,
    RepairAction.REBOOT_NODE: NodeStatus.REPAIRING,
    RepairAction.REPLACE_NODE: NodeStatus.REPLACING,
}


def stop_before_intent(context: StepContext) -> StepResult | None:
    """End an attempt that must not reach its intent, the point of no return; otherwise return None.

    The attempt ends if

    - its case is canceled, or repairs are paused,
    - the node or its cluster is excluded from repairs,
    - an open incident affects the node, or the owner of the node's group updates the group,
    - a new fault requires a stronger repair action, or an approval.
    """
    stopped = context.stop_if_canceled() or _stop_if_paused(context) or stop_if_excluded(context)
    stopped = stopped or stop_for_update(context)
    return stopped or _stop_for_stronger_action(context) or _stop_for_approval(context)


def commit_intent(
    context: StepContext,
    facts: Mapping[str, object],
    reason: str = "",
    *,
    spare: str | None = None,
    instance_types: tuple[str, ...] = (),
    permits: Callable[[Control], bool] = lambda _: True,
) -> StepContext:
    """Record the intent, the point of no return, unless something forbids the repair now.

    - The repair is forbidden if its case is canceled, if repairs are paused, if the node or cluster is excluded, if an
      incident affects the node, if the rule of a new fault requires an approval, or if `permits` returns False.
    - `permits` gets the cluster's controls. If these change before the commit, the commit fails, and the conditions are
      checked again.
    - If the repair is forbidden, or the instance is unknown, the attempt in the returned context has no intent.
    - `spare` and `instance_types` are stored for the successor. `facts` and `reason` are recorded in the entry.

    The incidents are updated first, because new faults of a node that is out of service do not update the incidents.
    """
    _update_incidents(context)

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        incarnation = state.incarnation
        if case.cancelled or attempt.intent is not None or incarnation is None or incarnation.instance_id is None:
            return Transition(state)
        control = _permitting_control(context, state)
        if control is None or not permits(control):
            return Transition(state)
        intent = Intent(case.repair_action, incarnation.instance_id, incarnation.instance, case.execution, now)
        state = update_attempt(state, intent=intent, spare=spare, instance_types=instance_types)
        state = replace(state, case=with_governing_rules(state, live_attempt(state)[0], context.rules.policy))
        return _after_intent(state, intent, control, reason, {"policy": context.rules.policy.version, **facts})

    return context.commit(revise)


def stop_for_incident(context: StepContext, control: Control | None = None) -> StepResult | None:
    """End the attempt if an open incident affects the node; return None otherwise."""
    incident = _incident_of(context, context.state, control or _read_control(context))
    if incident is None:
        return None
    reason = f"incident {incident} opened before the intent"
    return context.requeue(WaitingFor.INCIDENT, reason, delay=False, counts=False)


def stop_for_new_incident(context: StepContext) -> StepResult | None:
    """Update the incidents, and end the attempt if one affects the node, before volumes are detached."""
    _update_incidents(context)
    return stop_for_incident(context)


def _stop_if_paused(context: StepContext) -> StepResult | None:
    control = _read_control(context)
    if control.paused:
        return context.requeue(WaitingFor.PAUSE, "repairs were paused before the intent", delay=False, counts=False)
    return stop_for_incident(context, control)


def _after_intent(
    state: NodeState, intent: Intent, control: Control, reason: str, facts: Mapping[str, object]
) -> Transition:
    case, now = live_attempt(state)[0], intent.at
    named = {"generation": intent.generation, "token": intent.token, "rule": case.rule}
    step = entry_builder.step(
        case, NAME, "committed", now, reason=reason, old_instance=intent.instance_id, facts=named | dict(facts)
    )
    state = enter_phase(state, Phase.INTENT, now)
    state, draft = move_node(state, NODE_STATUS_OF[case.repair_action], now, "drained; intent committed")
    return Transition(state, (step, draft), (items.control_update(control),))


def _permitting_control(context: StepContext, state: NodeState) -> Control | None:
    control = _read_control(context)
    if control.paused or exclusion(context, state) is not None:
        return None
    held = _incident_of(context, state, control) or _rule_to_ask(context, state)
    return None if held else control


class IncidentsOfFailure(Struct, frozen=True):
    """The ids of the incidents that may explain why an attempt failed; None if there is no such incident.

    - `open`: repairs of the node wait for this incident.
    - `expired`: the incident in a failure domain of the node is not closed, but has reached its maximum age.
    - `closed`: the incident in a failure domain of the node was closed while the node was verified.
    """

    open: str | None = None
    expired: str | None = None
    closed: str | None = None


def incidents_of_failure(context: StepContext) -> IncidentsOfFailure:
    """Return the ids of the incidents that may explain why the attempt failed; no id for a canceled case.

    `open` and `closed` are set only if an attempt of the case has reached its intent or its verification.

    The incidents are updated first, because other nodes of the failure domain may have failed moments ago.
    """
    if context.case.cancelled:
        return IncidentsOfFailure()
    _update_incidents(context)
    state, control, domains = context.state, _read_control(context), _domains(context, context.state)
    since = context.attempt.watched_since
    return IncidentsOfFailure(
        open=_incident_of(context, state, control) if is_repeated(state) else None,
        expired=control.expired_incident_of(domains),
        closed=control.closed_incident_of(domains, since) if since and is_repeated(state) else None,
    )


def _update_incidents(context: StepContext) -> None:
    """Update the incidents. Errors become Transient, so that the step is tried again and does not fail."""
    try:
        context.tools.update_incidents(context.state.key.cluster)
    except Transient:
        raise
    except FaultbridgeError as error:
        raise Transient(f"the incidents could not be updated: {error}") from error


def _incident_of(context: StepContext, state: NodeState, control: Control) -> str | None:
    domains = _domains(context, state)
    since = state.case.opened_at if state.case and is_repeated(state) else None
    return control.incident_of(state.key.node, domains, families_of(state), repeated_since=since)


def _domains(context: StepContext, state: NodeState) -> tuple[FailureDomain, ...]:
    key, placement, declared = state.key, state.placement, context.rules.config.domains
    return failure_domains(key.cluster, key.node, placement.domain, placement.domains, declared)


def _read_control(context: StepContext) -> Control:
    return cluster_control(context.tools.table, context.state.key.cluster)


def _stop_for_stronger_action(context: StepContext) -> StepResult | None:
    action = required_repair_action(context.state, context.case, context.rules.policy)
    if action is context.case.repair_action:
        return None
    reason = f"a new fault needs a stronger repair action: {action.value}"
    return context.requeue(WaitingFor.ADMISSION, reason, repair_action=action, delay=False, counts=False)


def _stop_for_approval(context: StepContext) -> StepResult | None:
    asking = _rule_to_ask(context, context.state)
    if asking is None:
        return None
    reason = f"{context.case.repair_action.value} requires approval: rule {asking.name} of a new fault"
    return context.requeue(WaitingFor.ADMISSION, reason, delay=False, counts=False)


def _rule_to_ask(context: StepContext, state: NodeState) -> Rule | None:
    case, _ = live_attempt(state)
    return rule_to_ask(state, case, context.rules.policy, case.repair_action, case.attempts)


def fail_step(context: StepContext, outcome: str, reason: str, failure: ProviderFailure) -> StepResult:
    """Record that the step failed, end the attempt, and try the next permitted repair action."""
    operation, instance = context.attempt.operation, context.instance_id
    draft = context.entry(outcome, reason=reason, failure=failure, operation=operation, new_instance=instance)
    return try_next_action(context, Reason(reason, failure), draft)


def try_next_action(
    context: StepContext, reason: Reason, draft: Draft, *, at_least: RepairAction | None = None
) -> StepResult:
    """Queue the case for the next permitted repair action, or escalate it to an operator if there is none.

    `at_least` is the stronger action that the faults of the node require, or None. The first rule that applies is used:

    - An open incident explains the fault: the case waits, because the instance may not be bad.
    - An incident was closed while the node was verified: the node is verified again, unless `at_least` is given.
    - The attempt only verified the node, and no repair action fixes any active fault: the case is escalated.
    - No further action is permitted, the case is canceled, or the strongest action was tried as often as the policy
      permits: the case is escalated.
    - The instance was already replaced, and an incident past its maximum age affects the node: the case is escalated.
    - Otherwise, the case is queued for the next action; after the strongest action, for the same action again.
    """
    case, policy = context.case, context.rules.policy
    incidents = incidents_of_failure(context)
    waits = wait_for_incident(context, reason, draft, incidents=incidents, repair_action=at_least)
    if waits is not None:
        return waits
    if incidents.closed is not None and at_least is None:
        text = f"; incident {incidents.closed} was open during the verification; the node is verified again"
        verify, reason = RepairAction.VERIFY, reason.plus(text)
        return context.requeue(WaitingFor.ADMISSION, reason, draft, repair_action=verify, delay=False, counts=False)
    if case.repair_action is RepairAction.VERIFY and (unrepairable := _unrepairable_faults(context)):
        text = f"; no automatic repair is known for {', '.join(unrepairable)}"
        return context.escalate_to_operator(reason.plus(text), draft)
    rule, required = rule_of_case(context.state, case, policy), strongest_requirement(believed(context.state), policy)
    if at_least is not None and required is not None and required.repair_action is at_least:
        rule = required.rule
    action = next_repair_action(rule, at_least=at_least or next_higher(case.repair_action) or case.repair_action)
    same = action is case.repair_action
    if action is None or case.cancelled or (same and case.counted_attempts >= policy.limits.attempts):
        return context.escalate_to_operator(reason, draft)
    if is_replaced(context.state) and incidents.expired is not None:
        text = f"; incident {incidents.expired} still affects its failure domain"
        return context.escalate_to_operator(reason.plus(text), draft)
    reason = reason.plus(f"; {f'{action.value} is tried again' if same else f'next repair action: {action.value}'}")
    # There are few repair actions, so the policy limits only retries of the same action.
    return context.requeue(
        WaitingFor.ADMISSION, reason, draft, repair_action=action, delay=False, counts=same, failed=True
    )


def _unrepairable_faults(context: StepContext) -> tuple[str, ...]:
    """Return the codes of the node's faults that need a case, if no repair action fixes any of them.

    Only an operator can fix such faults, so a failed verification then escalates the case. Otherwise, the result is
    empty. It is also empty if Faultbridge did not request the instance of the case: the caller then tries the next
    repair action, which can replace the instance.
    """
    found = requirements(context.state, context.rules.policy)
    if context.case.unrequested_instance or any(one.repair_action is not None for one in found):
        return ()
    return tuple(sorted({one.condition.code for one in found}))


def wait_for_incident(
    context: StepContext,
    reason: Reason,
    draft: Draft,
    *,
    incidents: IncidentsOfFailure | None = None,
    repair_action: RepairAction | None = None,
) -> StepResult | None:
    """Let the case wait for the open incident that explains the failed attempt; None if there is none."""
    incidents = incidents or incidents_of_failure(context)
    if incidents.open is None:
        return None
    reason = reason.plus(f"; incident {incidents.open} explains it")
    return context.requeue(WaitingFor.INCIDENT, reason, draft, repair_action=repair_action, delay=False, counts=False)


MAX_INLINE_BYTES = 4096
EVIDENCE_NAME = "collect"
COLLECT_TIMEOUT = timedelta(minutes=5)
OUTCOMES = {BundleState.KEPT: "kept", BundleState.FAILED: "failed", BundleState.RUNNING: "timed_out"}


def store_report(objects: ObjectStore, key: NodeKey, report: bytes, now: datetime) -> tuple[str, dict[str, object]]:
    """Return the first 4 KB of a verification report; a longer report is stored as an object."""
    if len(report) <= MAX_INLINE_BYTES:
        return report.decode(errors="replace"), {}
    object_key = raw_key(key.cluster, now, report)
    objects.put(object_key, report)
    return report[:MAX_INLINE_BYTES].decode(errors="ignore"), {"report": object_key}


def collect_logs(context: StepContext) -> tuple[StepContext, StepResult | None]:
    """Collect the instance's logs; the result is `waiting` until they exist, fail, or five minutes pass."""
    instance_id = context.instance_id
    if EVIDENCE_NAME in context.attempt.steps or instance_id is None:
        return context, None
    if context.attempt.bundle_since is None:
        context = context.commit(lambda state, now: Transition(update_attempt(state, bundle_since=now)))
    bundle = _read_bundle(context, instance_id)
    since = context.attempt.bundle_since
    timed_out = since is None or context.now >= since + COLLECT_TIMEOUT
    if bundle.state is BundleState.RUNNING and not timed_out:
        return context, waiting("the log bundle is being collected")
    if bundle.state is not BundleState.KEPT:
        context.log("log_bundle_skipped", bundle.reason or OUTCOMES[bundle.state], instance_id=instance_id)
    return context.commit(lambda state, now: _record_bundle(state, now, bundle, instance_id)), None


def _read_bundle(context: StepContext, instance_id: str) -> Bundle:
    try:
        return context.compute.collector.collect(instance_id, context.case.execution)
    except FaultbridgeError as error:
        # A missing log bundle must not stop the repair.
        return Bundle(BundleState.FAILED, reason=str(error))


def _record_bundle(state: NodeState, now: datetime, bundle: Bundle, instance_id: str) -> Transition:
    case, attempt = live_attempt(state)
    if EVIDENCE_NAME in attempt.steps:
        return Transition(state)
    facts = {"bundle": bundle.place} if bundle.state is BundleState.KEPT else {}
    outcome = OUTCOMES[bundle.state]
    step = entry_builder.step(
        case, EVIDENCE_NAME, outcome, now, reason=bundle.reason, old_instance=instance_id, facts=facts
    )
    steps = {**attempt.steps, EVIDENCE_NAME: StepOutcome.DONE.value}
    return Transition(update_attempt(state, steps=steps), (step,))
