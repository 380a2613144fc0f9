"""The command that a node waits for leads on: a node that nothing can replace is not only returned."""

from __future__ import annotations

import pytest

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.nodes import Placement
from faultbridge.pipeline.decide.required_order import required_order
from tests.builders import GPU, KEY, after, config, node


def command(group: str | None, action: RepairAction, attempts: int) -> str:
    """The command for a failed node with an escalated case."""
    case = Case(
        id="c-1", status=CaseStatus.ESCALATED, opened_at=after(), code="xid.79", component=GPU, severity=Severity.FATAL,
        action=Action.REPLACE_NODE, repair_action=action, rule="catalog", policy="packaged", attempts=attempts,
        reason="NOT_FOUND: the node has no group to replace it from",
    )  # fmt: skip
    state = node(NodeStatus.FAILED, case=case, placement=Placement(group=group))
    order = required_order(state, config(), after(), Control(KEY.cluster))
    assert order is not None
    return order.command


def test_a_node_without_a_group_needs_its_group_before_it_is_replaced() -> None:
    expected = f"faultbridge node add --cluster {KEY.cluster} --node {KEY.node} --group GROUP"
    assert command(None, RepairAction.REPLACE_NODE, 1) == expected


@pytest.mark.parametrize(
    ("group", "action", "attempts"),
    [
        ("gpu-workers", RepairAction.REPLACE_NODE, 1),
        (None, RepairAction.VERIFY, 2),
        (None, RepairAction.REPLACE_NODE, 0),
    ],
)
def test_every_other_escalated_node_is_returned_through_its_verification(
    group: str | None, action: RepairAction, attempts: int
) -> None:
    assert command(group, action, attempts) == f"faultbridge node return {KEY.node} --cluster {KEY.cluster}"
