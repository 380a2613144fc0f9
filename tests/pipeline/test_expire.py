"""Expire: which conditions end with a passed verification or an operator's order, and which stay active."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.fold.expire import end_claims, end_former, end_orders, end_verified
from faultbridge.model.cases import Phase
from faultbridge.model.catalog import Scope
from faultbridge.model.conditions import Condition, Reporter
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.nodes import Incarnation, NodeState
from faultbridge.model.values import replace
from tests.builders import NOON, after, case, node
from tests.builders import condition as active

KEY = "xid.1@gpu/pci=0000:c1:00"
AT = after(minutes=5)


def faulty(condition: Condition, **others: object) -> NodeState:
    return node(conditions={KEY: condition}, **others)


@pytest.mark.parametrize(
    ("repair_action", "condition", "covered", "ended"),
    [
        (RepairAction.REBOOT_NODE, active(Action.RESET_GPU), True, True),
        (RepairAction.REBOOT_NODE, active(Action.REBOOT_NODE), True, True),
        (RepairAction.REBOOT_NODE, active(Action.REPLACE_NODE), True, False),
        (RepairAction.REBOOT_NODE, active(Action.REBOOT_NODE), False, False),
        (RepairAction.REBOOT_NODE, active(Action.NONE), True, False),
        (RepairAction.REBOOT_NODE, active(Action.NONE, ends_on=("verified",)), True, True),
        (RepairAction.REBOOT_NODE, active(Action.NONE, ends_on=("verified",)), False, False),
        (RepairAction.REBOOT_NODE, active(Action.NONE, ends_on=("reboot_node",)), False, True),
        (RepairAction.REBOOT_NODE, active(Action.NONE, ends_on=("replace_node",)), False, False),
        (RepairAction.REBOOT_NODE, active(Action.NONE, Scope.BOOT), False, True),
        (RepairAction.RESET_GPU, active(Action.NONE, Scope.BOOT), False, False),
        (RepairAction.REPLACE_NODE, active(Action.NONE), False, True),
        (RepairAction.REPLACE_NODE, active(), True, True),
        (RepairAction.REPLACE_NODE, active(Action.CONTACT_SUPPORT, Scope.INSTANCE), True, True),
        (RepairAction.REPLACE_NODE, active(scope=Scope.INSTANCE), False, True),
        (RepairAction.VERIFY, active(), True, False),
        (RepairAction.VERIFY, active(scope=Scope.PROCESS), True, True),
        (RepairAction.VERIFY, active(Action.RUN_DIAGNOSTICS), True, True),
        (RepairAction.VERIFY, active(Action.RUN_DIAGNOSTICS), False, False),
        (RepairAction.VERIFY, active(ends_on=("verified",)), True, True),
        (RepairAction.VERIFY, active(ends_on=("verified",)), False, False),
        (RepairAction.REBOOT_NODE, active(scope=Scope.DEVICE), True, False),
        (RepairAction.RESET_GPU, active(Action.RUN_DIAGNOSTICS), False, False),
        (RepairAction.RESET_GPU, active(ends_on=("reset_gpu",)), False, True),
    ],
)
def test_a_passed_verification_ends_what_the_action_fixed_and_what_the_verification_proves(
    repair_action: RepairAction, condition: Condition, covered: bool, ended: bool
) -> None:
    result = end_verified(faulty(condition), repair_action, at=AT, covers=lambda code: covered and code == "xid.1")
    assert (KEY not in result.state.conditions) is ended
    expected = [("verification passed after " + repair_action.value, AT)] if ended else []
    assert [(change.reason, change.at) for change in result.changes] == expected


def test_the_end_of_a_condition_has_the_reason_that_the_caller_gives() -> None:
    result = end_verified(
        faulty(active()), RepairAction.REPLACE_NODE, at=AT, covers=lambda _: False, reason="an operator confirmed it"
    )
    assert [change.reason for change in result.changes] == ["an operator confirmed it"]


@pytest.mark.parametrize(
    ("claimed", "covered", "ended"), [(True, True, True), (True, False, False), (None, True, False)]
)
def test_a_passed_verification_ends_the_claims_that_it_covers(claimed: bool | None, covered: bool, ended: bool) -> None:
    condition = replace(active(), reporters={"kernel-log": Reporter(True, NOON, claimed=claimed)})
    result = end_claims(faulty(condition), at=AT, covers=lambda _: covered)
    assert (KEY not in result.state.conditions) is ended


@pytest.mark.parametrize(("code", "ended"), [("operator.quarantine", True), ("xid.1", False)])
def test_a_later_order_ends_only_conditions_that_orders_opened(code: str, ended: bool) -> None:
    result = end_orders(faulty(replace(active(), code=code)), at=AT)
    assert [change.reason for change in result.changes] == (["withdrawn by an operator"] if ended else [])


@pytest.mark.parametrize(("later", "ended"), [(timedelta(0), True), (timedelta(milliseconds=1), False)])
def test_the_verified_successor_ends_only_conditions_of_the_former_instance(later: timedelta, ended: bool) -> None:
    replaced = case(RepairAction.REPLACE_NODE, marks={Phase.INTENT.value: NOON.isoformat()})
    successor = Incarnation(2, 1, "i-0aaaaaaaaaaaaaaa2", None, NOON)
    state = faulty(replace(active(), last_at=NOON + later), case=replaced, incarnation=successor)
    result = end_former(state, at=AT)
    assert [change.reason for change in result.changes] == (["verification passed after replace_node"] if ended else [])
