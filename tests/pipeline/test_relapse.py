"""Which repair action a fault gets after a repair that did not last."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faultbridge.decide.fold.condition_updates import new_condition
from faultbridge.decide.governing_rules import MAX_PROBATIONS, respond, start_probation
from faultbridge.model.cases import REPAIR_ACTION_OF
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action, Family
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.nodes import NodeState, Probation
from faultbridge.model.policy import Limits, Rule
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, OTHER_GPU, after, arrival, case, fault, node

ORDER = list(RepairAction)
UNTIL = after(hours=24)


def condition(code: str = "xid.79", **others: object) -> Condition:
    seen = CATALOG.classify(fault(code))
    return replace(new_condition(CATALOG, seen, arrival(seen), None), **others)  # type: ignore[arg-type]


def probation(action: RepairAction, code: str = "xid.79", **others: object) -> Probation:
    mode = CATALOG.row(code).mode
    return replace(Probation("c-1", code, GPU, action, 1, UNTIL, mode=mode), **others)  # type: ignore[arg-type]


@given(st.sampled_from(ORDER), st.sampled_from([*REPAIR_ACTION_OF]), st.sets(st.sampled_from(ORDER)))
def test_a_relapse_never_repeats_a_disruptive_action_and_never_weakens_the_required_one(
    before: RepairAction, action: Action, permitted: set[RepairAction]
) -> None:
    rule = Rule("r", repair_actions=tuple(sorted(permitted, key=ORDER.index)))
    found = condition(action=action)
    required = rule.repair_action(action)
    response = respond(node(probations=(probation(before),)), found, rule, NOON)
    assert response.probation is not None
    if response.repair_action is None:
        assert required is None or not any(ORDER.index(one) > ORDER.index(before) for one in permitted & {*ORDER})
        return
    assert required is not None
    assert ORDER.index(response.repair_action) >= ORDER.index(required)
    assert not before.needs_slot or ORDER.index(response.repair_action) > ORDER.index(before)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3)))
@example(timedelta(hours=24))
def test_probation_ends_at_its_time(passed: timedelta) -> None:
    state = node(probations=(probation(RepairAction.RESET_GPU),))
    response = respond(state, condition(), Rule("r"), NOON + passed)
    assert (response.probation is not None) is (NOON + passed < UNTIL)


def test_a_relapse_has_the_mode_the_family_or_the_device_of_the_repaired_fault() -> None:
    reset, replaced = probation(RepairAction.RESET_GPU, "xid.48"), probation(RepairAction.REPLACE_NODE, "xid.48")
    assert reset.is_relapse(condition("xid.48", component=OTHER_GPU))
    assert reset.is_relapse(condition("xid.79"))
    assert not reset.is_relapse(condition("xid.79", component=OTHER_GPU))
    assert not replaced.is_relapse(condition("xid.79"))
    family = replace(replaced, family=Family.NETWORK)
    assert family.is_relapse(condition("xid.79", family=Family.NETWORK))


def test_a_different_fault_of_the_node_itself_is_no_relapse() -> None:
    rebooted = probation(RepairAction.REBOOT_NODE, "host.unreachable", component=NODE_COMPONENT)
    assert rebooted.is_relapse(condition("host.unreachable", component=NODE_COMPONENT))
    assert not rebooted.is_relapse(condition("host.silent", component=NODE_COMPONENT))


def test_a_fault_that_comes_back_after_diagnostics_alone_keeps_its_own_repair_action() -> None:
    state = node(probations=(probation(RepairAction.VERIFY),))
    response = respond(state, condition(action=Action.RUN_DIAGNOSTICS), Rule("r"), NOON)
    assert response.probation is not None
    assert response.repair_action is RepairAction.VERIFY


def test_another_instance_of_the_node_is_not_on_probation() -> None:
    state = node(probations=(probation(RepairAction.RESET_GPU, instance=7),))
    assert respond(state, condition(), Rule("r"), NOON).probation is None


def test_a_node_keeps_few_probations_and_the_strongest_action_of_them_counts() -> None:
    state = node(probations=(probation(RepairAction.REBOOT_NODE), probation(RepairAction.RESET_GPU, "xid.48")))
    response = respond(state, condition(action=Action.RESET_GPU), Rule("r"), NOON)
    assert response.repair_action is RepairAction.REPLACE_NODE
    assert "relapse after reboot_node" in response.text
    assert MAX_PROBATIONS == 8


def repaired(state: NodeState, family: Family | None = None, **limits: object) -> NodeState:
    """Return the node after the verified reset of its GPU at noon."""
    return start_probation(state, case(RepairAction.RESET_GPU), family, Limits(**limits), NOON)  # type: ignore[arg-type]


def test_a_repaired_node_is_on_probation_for_the_fault_of_its_case() -> None:
    (begun,) = repaired(node(), Family.NETWORK, probation=timedelta(hours=6)).probations
    assert begun == Probation(
        "c-1", "xid.1", GPU, RepairAction.RESET_GPU, 1, after(hours=6), Family.NETWORK, mode="xid.1"
    )


@pytest.mark.parametrize(
    ("state", "probation"),
    [(node(), timedelta(0)), (node(incarnation=None), timedelta(hours=6))],
)
def test_no_probation_begins_without_its_time_or_without_an_instance(state: NodeState, probation: timedelta) -> None:
    assert repaired(state, probation=probation) == state


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ({}, True),
        ({"until": after(milliseconds=1)}, True),
        ({"until": NOON}, False),
        ({"instance": 2}, False),
        ({"mode": "xid.1"}, False),
    ],
)
def test_a_probation_ends_with_its_time_its_instance_or_a_new_one_for_its_fault(
    before: dict[str, object], kept: bool
) -> None:
    former = replace(probation(RepairAction.REBOOT_NODE), **before)  # type: ignore[arg-type]
    probations = repaired(node(probations=(former,))).probations
    assert [one.repair_action for one in probations] == [*([former.repair_action] if kept else []), "reset_gpu"]


def test_the_oldest_of_too_many_probations_is_dropped() -> None:
    many = tuple(probation(RepairAction.REBOOT_NODE, f"xid.{number}") for number in range(10, 10 + MAX_PROBATIONS))
    codes = [one.code for one in repaired(node(probations=many)).probations]
    assert codes == [*(one.code for one in many[1:]), "xid.1"]
