"""No repair: explains to operators why a node with faults has no case, and what would change that.

`decide` opens cases, and `required_order` names the operator command without which a case cannot continue.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.opt_out import FOREVER, is_absence, opted_out_until
from faultbridge.pipeline.decide.required_order import inclusion_order, permission_order


@dataclass(frozen=True, slots=True)
class NoRepair:
    """Why no repair of a node starts, and what would change that."""

    reason: str
    change: str


def no_repair(state: NodeState, config: ClusterConfig, now: datetime) -> NoRepair | None:
    """Return why a node in service has faults but no case.

    Returns None if the node has no faults, has a live case, or is not in service.
    """
    faults = tuple(state.active())
    if not faults or state.live_case is not None or state.status is None or not state.status.in_service:
        return None
    instance = state.incarnation.instance_id if state.incarnation else None
    named = f" --instance {instance}" if instance else ""
    replace_node = f"`faultbridge node replace {state.key.node} --cluster {state.key.cluster}{named}`"
    needing_repair = [one for one in faults if one.action.opens_case]
    if not needing_repair:
        listed = ", ".join(sorted({f"{one.code} (action {one.action.value})" for one in faults}))
        change = "the fault ends, a worse one joins it, or a policy rule sets another action (docs/policy.md); "
        return NoRepair(f"no fault of the node needs a repair: {listed}", f"{change}{replace_node} orders a repair")
    order = permission_order(config) or inclusion_order(state, config, now)
    if order is not None:
        return NoRepair(order.reason, f"`{order.command}` permits the repair")
    excluded = _excluded(state, config, now)
    if excluded is not None:
        return excluded
    if not any(one.known_incarnation for one in needing_repair):
        reason = "it is not certain that the faults are those of the current instance and boot"
        return NoRepair(reason, f"a report that names its instance opens a case; {replace_node} orders a repair")
    reason = "no report was recent enough to act on since the fault began or the last case ended"
    return NoRepair(reason, f"the next report opens a case; {replace_node} orders a repair")


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
