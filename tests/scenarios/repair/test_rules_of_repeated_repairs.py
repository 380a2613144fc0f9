"""A repair that is repeated keeps the rule of its case; only a stronger repair action brings another rule."""

from __future__ import annotations

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from tests.scenarios.world import World

FIRST = Rule("of-the-case", Match(codes=("xid.79", "xid.62")), release_without_capacity=True)
SECOND = Rule("of-the-new-fault", Match(codes=("xid.48",)), release_without_capacity=True)


def failed_verification(code: str, **fault: object) -> World:
    """Repair a fault of this code, let a new fault fail the verification, and pause all further repairs."""
    world = World(rules=(FIRST, SECOND))
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    world.fault_and_react(code=code, **fault)
    world.until(lambda: "verify begun" in world.record_history())
    assert world.status() is NodeStatus.VALIDATING
    world.advance_minutes(2)
    world.fault(code="xid.48", severity=Severity.FATAL)
    world.pause_repairs(paused=True)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    return world


def test_a_replacement_that_is_repeated_for_a_new_fault_stays_under_the_rule_of_its_case() -> None:
    world = failed_verification("xid.79", severity=Severity.ERROR)
    assert (world.case().repair_action, world.case().rule) == (RepairAction.REPLACE_NODE, "of-the-case")
    assert world.case().severity is Severity.ERROR


def test_a_replacement_after_a_reboot_takes_the_rule_of_the_new_fault_that_requires_it() -> None:
    world = failed_verification("xid.62", severity=Severity.ERROR, action=Action.REBOOT_NODE)
    assert (world.case().repair_action, world.case().rule) == (RepairAction.REPLACE_NODE, "of-the-new-fault")
    assert world.case().severity is Severity.FATAL
