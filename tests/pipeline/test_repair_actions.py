"""The repair action of an attempt, and the conditions that end with a passed verification after it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.catalog import Scope
from faultbridge.domain.conditions import Condition, Reporter
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline.decide.repair_actions import choose_repair_action, next_higher
from faultbridge.pipeline.fold.expire import end_verified
from tests.builders import GPU, NOON, after, node


def condition(action: Action = Action.REPLACE_NODE, scope: Scope = Scope.DEVICE, ends_on: tuple[str, ...] = ()):
    reporters = {"kernel-log": Reporter(True, NOON)}
    return Condition("xid.1", GPU, Severity.FATAL, action, scope, ends_on, NOON, NOON, "a fault", reporters=reporters)


def case(repair_action: RepairAction, **others) -> Case:
    return Case(
        "c-1",
        CaseStatus.QUEUED,
        NOON,
        "xid.1",
        GPU,
        Severity.FATAL,
        Action.REPLACE_NODE,
        repair_action,
        "rule",
        "p",
        **others,
    )


def policy(*repair_actions: RepairAction) -> Policy:
    return Policy("p", (Rule("rule", repair_actions=repair_actions),))


FAULTY = node(conditions={"xid.1@gpu": condition()})


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


@pytest.mark.parametrize(
    ("repair_action", "given", "ended"),
    [
        (RepairAction.REPLACE_NODE, condition(), True),
        (RepairAction.REPLACE_NODE, condition(scope=Scope.INSTANCE), True),
        (RepairAction.VERIFY, condition(), False),
        (RepairAction.VERIFY, condition(scope=Scope.PROCESS), True),
        (RepairAction.VERIFY, condition(ends_on=("verified",)), True),
        (RepairAction.VERIFY, condition(Action.RUN_DIAGNOSTICS), True),
        (RepairAction.REBOOT_NODE, condition(scope=Scope.BOOT), True),
        (RepairAction.REBOOT_NODE, condition(scope=Scope.DEVICE), False),
        (RepairAction.REPLACE_NODE, condition(Action.CONTACT_SUPPORT, scope=Scope.INSTANCE), True),
    ],
)
def test_a_passed_verification_ends_the_conditions_that_the_repair_action_fixes(repair_action, given, ended):
    folded = end_verified(node(conditions={"one": given}), repair_action, at=after(hours=1), covers=lambda _: True)
    assert bool(folded.changes) is ended
    assert ("one" not in folded.state.conditions) is ended
    assert not ended or folded.changes[0].at == NOON + timedelta(hours=1)


@pytest.mark.parametrize(
    ("repair_action", "given", "ended"),
    [
        (RepairAction.VERIFY, condition(Action.RUN_DIAGNOSTICS), False),
        (RepairAction.VERIFY, condition(ends_on=("verified",)), False),
        (RepairAction.RESET_GPU, condition(Action.RUN_DIAGNOSTICS, scope=Scope.DEVICE), False),
        (RepairAction.REBOOT_NODE, condition(scope=Scope.BOOT), True),
        (RepairAction.RESET_GPU, condition(ends_on=("reset_gpu",)), True),
        (RepairAction.REPLACE_NODE, condition(scope=Scope.INSTANCE), True),
    ],
)
def test_without_coverage_only_what_the_repair_action_itself_fixes_ends(repair_action, given, ended):
    folded = end_verified(node(conditions={"one": given}), repair_action, at=after(hours=1), covers=lambda _: False)
    assert bool(folded.changes) is ended
