"""The repair action of a waiting case when another fault joins it."""

from __future__ import annotations

import pytest

from faultbridge.decide.decide import raise_repair_action
from faultbridge.model.cases import Approval
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import CaseStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.values import replace
from tests.builders import ESCALATED, NOON, POLICY, after, arrival, data_of, fault, folded, node

WAITING = replace(ESCALATED, status=CaseStatus.QUEUED, repair_action=RepairAction.REBOOT_NODE, relapse_of="c-0")


def joined(action: Action, *, known: bool = True) -> Condition:
    """Return a condition that needs this action; `known` if its report surely came from the current instance."""
    (condition,) = folded(node(), arrival(fault("xid.48"))).state.active()
    return replace(condition, action=action, known_incarnation=known)


def test_a_worse_fault_raises_the_repair_action_and_ends_the_approval_of_the_former_one() -> None:
    request = Approval(1, RepairAction.REBOOT_NODE, NOON, after(hours=1))
    state = node(case=replace(WAITING, waiting_for=WaitingFor.APPROVAL, approval=request))
    conditions = [joined(action) for action in (Action.RESET_GPU, Action.REPLACE_NODE, Action.REBOOT_NODE)]
    raised, (note, over) = raise_repair_action(state, conditions, POLICY, NOON)
    case = raised.case
    assert case is not None
    assert (case.repair_action, case.approval, case.relapse_of) == (RepairAction.REPLACE_NODE, None, "c-0")
    assert data_of(note)["text"] == "xid.48 joined the case: replace_node replaces reboot_node"
    assert (data_of(over)["kind"], data_of(over)["stage"]) == ("approval", "over")


def test_a_milder_fault_that_needs_a_stronger_repair_leaves_the_severity() -> None:
    milder = replace(joined(Action.REPLACE_NODE), severity=Severity.WARNING)
    raised, _ = raise_repair_action(node(case=WAITING), [milder], POLICY, NOON)
    case = raised.case
    assert case is not None
    assert (case.repair_action, case.severity) == (RepairAction.REPLACE_NODE, Severity.FATAL)


@pytest.mark.parametrize(
    "condition",
    [
        joined(Action.RESET_GPU),
        joined(Action.REBOOT_NODE),
        joined(Action.REPLACE_NODE, known=False),
        joined(Action.NONE),
    ],
    ids=["a weaker repair", "the same repair", "another instance", "no repair"],
)
def test_no_other_fault_changes_the_case(condition: Condition) -> None:
    state = node(case=WAITING)
    assert raise_repair_action(state, [condition], POLICY, NOON) == (state, ())


@pytest.mark.parametrize(
    "case",
    [
        None,
        replace(WAITING, status=CaseStatus.IN_PROGRESS),
        replace(WAITING, status=CaseStatus.ESCALATED),
        replace(WAITING, cancelled=True),
    ],
    ids=["none", "in progress", "escalated", "canceled"],
)
def test_a_case_that_does_not_wait_is_left_as_it_is(case) -> None:
    state = node(case=case)
    assert raise_repair_action(state, [joined(Action.REPLACE_NODE)], POLICY, NOON) == (state, ())
