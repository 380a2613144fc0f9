"""Counts replacements in progress that will use free instances of a shared capacity reservation."""

from __future__ import annotations

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.nodes import NodeKey
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.storage import items, keys


def count_pending(context: StepContext, control: Control | None = None) -> int:
    """Return how many other replacements in the node's group wait for their successors.

    Such a replacement has passed its point of no return, but no instance is attached to its node yet. `control` has the
    repair slots of the cluster if the caller has just read the slots; with None, this function reads them.
    """
    cluster, group, table = context.state.key.cluster, context.state.placement.group, context.tools.table
    if control is None:
        control = items.read_control(cluster, table.get(keys.cluster_control(cluster)))
    rows = table.get_many(keys.case(name) for name in control.holders if name != context.case.id)
    waiting = [NodeKey(cluster, str(row["node"])) for row in rows.values() if _awaits_successor(items.read_case(row))]
    return sum(state.placement.group == group for state in context.tools.append.read_many(waiting))


def _awaits_successor(case: Case) -> bool:
    attempt = case.attempt
    intent = attempt.intent if attempt else None
    if attempt is None or intent is None or intent.repair_action is not RepairAction.REPLACE_NODE:
        return False
    return attempt.successor is None
