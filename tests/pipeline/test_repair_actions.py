"""The repair action of an attempt."""

from __future__ import annotations

import pytest

from faultbridge.decide.governing_rules import choose_repair_action, next_higher
from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Policy, Rule
from tests.builders import case, node
from tests.pipeline.builders import FAULTY


def policy(*repair_actions: RepairAction) -> Policy:
    return Policy("p", (Rule("rule", repair_actions=repair_actions),))


@pytest.mark.parametrize(
    ("requested", "permitted", "chosen"),
    [
        (RepairAction.REPLACE_NODE, tuple(RepairAction), RepairAction.REPLACE_NODE),
        (RepairAction.VERIFY, tuple(RepairAction), RepairAction.VERIFY),
        (RepairAction.RESET_GPU, tuple(RepairAction), RepairAction.RESET_GPU),
        (RepairAction.RESET_GPU, (RepairAction.VERIFY, RepairAction.REPLACE_NODE), RepairAction.REPLACE_NODE),
        (RepairAction.REBOOT_NODE, (RepairAction.RESET_GPU,), None),
    ],
)
def test_a_forbidden_repair_action_is_replaced_by_the_next_permitted_one(requested, permitted, chosen):
    choice = choose_repair_action(FAULTY, case(requested), policy(*permitted))
    assert choice.repair_action is chosen
    assert (choice.reason == "") is (chosen is requested)


def test_a_recovered_node_is_only_verified_in_its_first_attempt():
    recovered = node(conditions={})
    assert (
        choose_repair_action(recovered, case(RepairAction.REPLACE_NODE), policy(*RepairAction)).repair_action
        is RepairAction.VERIFY
    )
    assert (
        choose_repair_action(
            recovered, case(RepairAction.REPLACE_NODE, attempts=1), policy(*RepairAction)
        ).repair_action
        is RepairAction.REPLACE_NODE
    )


def test_no_repair_action_follows_the_replacement():
    assert [next_higher(repair_action) for repair_action in RepairAction] == [
        RepairAction.RESET_GPU,
        RepairAction.REBOOT_NODE,
        RepairAction.REPLACE_NODE,
        None,
    ]
