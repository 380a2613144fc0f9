"""Required order: the command without which a node or case cannot continue (`serve/ops/required_orders.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Struct

from faultbridge.decide.case_moves import FOREVER, LABEL, is_absence, opted_out_until
from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig, Mode
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction
from faultbridge.model.event_data import doc
from faultbridge.model.nodes import NodeState


class RequiredOrder(Struct, frozen=True):
    """Why a node or case cannot continue by itself, and the exact command that makes it continue."""

    reason: str
    command: str


def required_order(state: NodeState, config: ClusterConfig, now: datetime, control: Control) -> RequiredOrder | None:
    """Return the command without which a node or its case cannot continue, or None."""
    case = state.live_case
    if state.status in {None, NodeStatus.RETIRED}:
        return None
    if case is None:
        return _without_case(state, config, now)
    if case.status is CaseStatus.ESCALATED:
        return permission_order(config) or _escalated(state, case, config)
    if case.status is CaseStatus.QUEUED:
        return _queued(state, case, config, now, control)
    return None


def _escalated(state: NodeState, case: Case, config: ClusterConfig) -> RequiredOrder:
    """Return the command for an escalated case: return the node, or add it with a missing group."""
    was_to_be_replaced = case.repair_action is RepairAction.REPLACE_NODE and case.attempts > 0
    if not (was_to_be_replaced and config.acts and state.placement.group is None):
        return _on_node("return", state, f"the case is escalated: {case.reason}")
    key = state.key
    reason = (
        "no group is registered from which the node could be replaced; name it, then order the replacement, or remove"
        " the node with `faultbridge node retire`. If you fixed the instance, `faultbridge node return` verifies it"
    )
    return RequiredOrder(reason, f"faultbridge node add --cluster {key.cluster} --node {key.node} --group GROUP")


def _queued(
    state: NodeState, case: Case, config: ClusterConfig, now: datetime, control: Control
) -> RequiredOrder | None:
    if config.mode is Mode.DRY_RUN and config.opens_cases and state.status is not None and state.status.in_service:
        return None  # the next dispatch ends the case
    blocked = permission_order(config) or inclusion_order(state, config, now)
    if blocked is not None:
        return blocked
    request = case.pending_approval
    if request is not None:
        action = request.repair_action.value
        reason = f"{action} requires approval by {request.answer_by:%Y-%m-%dT%H:%MZ}"
        return RequiredOrder(reason, f"faultbridge case approve {case.id} --repair-action {action}")
    if control.paused:
        return RequiredOrder("repairs of the cluster are paused", f"faultbridge resume --cluster {config.cluster}")
    breaker = control.breaker(state.placement.domain)
    if breaker is not None and breaker.stays_open and case.repair_action.needs_slot:
        reason = f"the breaker opened {len(breaker.opened)} times within a day and stays open"
        return RequiredOrder(reason, f"faultbridge breaker --cluster {config.cluster} --close")
    return None


def _without_case(state: NodeState, config: ClusterConfig, now: datetime) -> RequiredOrder | None:
    if state.status is NodeStatus.PROVISIONING:
        return _on_node("retire", state, "no instance backs the node, unless its group launches another one")
    if state.status is not None and state.status.in_service:
        closed = state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED}  # only an acting cluster withdraws it
        return (permission_order(config) or inclusion_order(state, config, now)) if closed else None
    return _on_node("retire", state, "the node is out of service without a case")


def permission_order(config: ClusterConfig) -> RequiredOrder | None:
    """Return the command that permits Faultbridge to repair the cluster, or None if repairs are permitted."""
    if config.opens_cases and config.mode is Mode.ACT:
        return None
    owner = "" if config.opens_cases or config.mode is not Mode.ACT else " --repair-owner faultbridge"
    reason = f"the cluster's mode is {config.mode.value} and its repair owner {config.repair_owner.value}"
    return RequiredOrder(reason, f"faultbridge cluster set {config.cluster} --mode act{owner}")


def inclusion_order(state: NodeState, config: ClusterConfig, now: datetime) -> RequiredOrder | None:
    """Return the command that ends an unlimited exclusion of the node from repairs, or None."""
    if opted_out_until(state, config, now) != FOREVER or state.ignored is None:
        return None
    if state.ignored.by != LABEL:
        command = f"faultbridge node ignore {state.key.node} --cluster {state.key.cluster} --end"
        return RequiredOrder(f"the node is ignored: {state.ignored.reason}", command)
    reason = "the node is excluded from repair by a"
    if state.ignored.kubernetes_node is not None:
        command = f"kubectl label node {state.ignored.kubernetes_node} faultbridge/opt-out-"
        return RequiredOrder(f"{reason} label of its Kubernetes node", command)
    instance = state.incarnation.instance_id if state.incarnation else None
    command = f"aws ec2 delete-tags --resources {instance} --tags Key=faultbridge:opt-out"
    return RequiredOrder(f"{reason} tag of its instance", command)


def _on_node(verb: str, state: NodeState, reason: str) -> RequiredOrder:
    return RequiredOrder(reason, f"faultbridge node {verb} {state.key.node} --cluster {state.key.cluster}")


class NoRepair(Struct, frozen=True):
    """The reason why no repair of a node with faults starts, and what would change that."""

    reason: str
    change: str
    command: Annotated[str | None, doc("The command in `change`; null if no command changes it.")] = None


def no_repair(state: NodeState, config: ClusterConfig, now: datetime) -> NoRepair | None:
    """Return why a node in service has faults but no case, or None."""
    faults = tuple(state.active())
    if not faults or state.live_case is not None or state.status is None or not state.status.in_service:
        return None
    instance = state.incarnation.instance_id if state.incarnation else None
    named = f" --instance {instance}" if instance else ""
    command = f"faultbridge node replace {state.key.node} --cluster {state.key.cluster}{named}"
    orders = f"`{command}` orders a repair"
    needing_repair = [one for one in faults if one.action.opens_case]
    if not needing_repair:
        listed = ", ".join(sorted({f"{one.code} (action {one.action.value})" for one in faults}))
        change = "the fault ends, a worse one joins it, or a policy rule sets another action (docs/policy.md); "
        return NoRepair(f"no fault of the node needs a repair: {listed}", f"{change}{orders}", command)
    order = permission_order(config) or inclusion_order(state, config, now)
    if order is not None:
        return NoRepair(order.reason, f"`{order.command}` permits the repair", order.command)
    excluded = _excluded(state, config, now)
    if excluded is not None:
        return excluded
    if not any(one.known_incarnation for one in needing_repair):
        reason = "it is not certain that the faults are those of the current instance and boot"
        return NoRepair(reason, f"a report that names its instance opens a case; {orders}", command)
    reason = "no report was recent enough to act on since the fault began or the last case ended"
    return NoRepair(reason, f"the next report opens a case; {orders}", command)


def _excluded(state: NodeState, config: ClusterConfig, now: datetime) -> NoRepair | None:
    until = opted_out_until(state, config, now)
    if until is not None and until != FOREVER:
        end = f"{until:%Y-%m-%dT%H:%MZ}"
        return NoRepair(f"the node or its cluster is excluded from repairs until {end}", "a repair is considered then")
    hold = config.update_hold(state.placement.group, now)
    if hold is None or not all(is_absence(one) for one in state.active() if one.action.opens_case):
        return None
    reason = f"the owner of group {hold.group} updates it, which explains that the node is absent"
    return NoRepair(reason, f"a repair is considered after the update, at {hold.until:%Y-%m-%dT%H:%MZ} at the latest")
