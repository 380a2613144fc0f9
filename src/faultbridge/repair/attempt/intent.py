"""The intent of an attempt: its point of no return, recorded before a repair acts on an instance.

After the intent, the attempt cannot be canceled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Intent, Phase, RepairAction, WaitingFor
from faultbridge.domain.cluster.failure_domains import FailureDomain, failure_domains
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Rule
from faultbridge.domain.repeated_repairs import is_repeated
from faultbridge.errors import FaultbridgeError, Transient
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.correlate.held_cases import families_of
from faultbridge.pipeline.decide.governing_rules import rule_to_ask, with_governing_rules
from faultbridge.pipeline.decide.repair_actions import required_repair_action
from faultbridge.repair.attempt.exclusions import exclusion, stop_for_update, stop_if_excluded
from faultbridge.repair.attempt.progress import enter_phase, live_attempt, move_node, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Update

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
    facts: Mapping[str, Any],
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
        return _after_intent(state, intent, control, reason, facts)

    return context.commit(revise)


def stop_for_incident(context: StepContext, control: Control | None = None) -> StepResult | None:
    """End the attempt if an open incident affects the node; return None otherwise.

    `control` has the cluster's controls if the caller has just read them; with None, this function reads them.
    """
    incident = _incident_of(context, context.state, control or _read_control(context))
    if incident is None:
        return None
    reason = f"incident {incident} opened before the intent"
    return context.requeue(WaitingFor.INCIDENT, reason, delay=False, counts=False)


def stop_for_new_incident(context: StepContext) -> StepResult | None:
    """Update the incidents, and end the attempt if one affects the node; return None otherwise.

    It is called before volumes are detached, because detaching can disturb work on the node.
    """
    _update_incidents(context)
    return stop_for_incident(context)


def _stop_if_paused(context: StepContext) -> StepResult | None:
    control = _read_control(context)
    if control.paused:
        return context.requeue(WaitingFor.PAUSE, "repairs were paused before the intent", delay=False, counts=False)
    return stop_for_incident(context, control)


def _after_intent(
    state: NodeState, intent: Intent, control: Control, reason: str, facts: Mapping[str, Any]
) -> Transition:
    case, now = live_attempt(state)[0], intent.at
    named = {"generation": intent.generation, "token": intent.token, "rule": case.rule, "policy": case.policy}
    step = entry_builder.step(
        case, NAME, "committed", now, reason=reason, old_instance=intent.instance_id, facts=named | dict(facts)
    )
    state = enter_phase(state, Phase.INTENT, now)
    state, draft = move_node(state, NODE_STATUS_OF[case.repair_action], now, "drained; intent committed")
    unchanged = Update(
        keys.cluster_control(control.cluster), add={"version": 1}, when=Equals("version", control.version)
    )
    return Transition(state, (step, draft), (unchanged,))


def _permitting_control(context: StepContext, state: NodeState) -> Control | None:
    control = _read_control(context)
    if control.paused or exclusion(context, state) is not None:
        return None
    held = _incident_of(context, state, control) or _rule_to_ask(context, state)
    return None if held else control


@dataclass(frozen=True, slots=True)
class IncidentsOfFailure:
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
    cluster = context.state.key.cluster
    return items.read_control(cluster, context.tools.table.get(keys.cluster_control(cluster)))


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
