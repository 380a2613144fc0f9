"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from typing import Any

from faultbridge.model.cases import Case, Reason
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import NodeState
from tests.builders import GPU, NOON, node


def queued(status: NodeStatus = NodeStatus.QUARANTINED, **others: Any) -> NodeState:
    """Return a node with a queued case of a lost GPU."""
    given = {
        "repair_action": RepairAction.REPLACE_NODE,
        "rule": "r",
        "policy": "p",
        "because": Reason("first"),
    } | others
    case = Case("c-1", CaseStatus.QUEUED, NOON, "xid.79", GPU, Severity.FATAL, Action.REPLACE_NODE, **given)
    return node(status, case=case)


CASE = Case(
    "c-1",
    CaseStatus.IN_PROGRESS,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    RepairAction.VERIFY,
    "r",
    "p",
)
