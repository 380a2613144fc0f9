"""A verification proves only what it covers: GPU diagnostics never end a network fault."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from faultbridge.decode import data
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.fault_enums import Action, ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.policy import Match, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import CATALOG
from tests.scenarios.world import World, limits

NIC = Component(ComponentType.NIC, name="rdma0")
LINK_DOWN, LINK_STATE = "net.link_down", "link-state"


def verified() -> World:
    """Return a world in which a node with a lost link has passed its GPU diagnostics."""
    world = World()
    world.fault_and_react(code=LINK_DOWN, source=LINK_STATE, component=NIC)
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.advance_minutes(15)
    return world


def test_diagnostics_of_the_gpus_do_not_end_a_lost_link() -> None:
    world = verified()
    assert [condition.code for condition in world.node().active()] == [LINK_DOWN]
    assert world.status() is NodeStatus.VALIDATING
    assert world.case().status is CaseStatus.IN_PROGRESS


def test_a_report_that_the_link_is_up_ends_the_fault_and_the_case() -> None:
    world = verified()
    world.clear(code=LINK_DOWN, source=LINK_STATE, component=NIC)
    world.advance_minutes(15)
    assert (world.case().status, world.case().resolution) == (CaseStatus.RESOLVED, Resolution.RECOVERED)
    assert (world.status(), list(world.node().active())) == (NodeStatus.HEALTHY, [])


def test_without_any_report_an_operator_is_asked_and_nothing_is_released() -> None:
    world = verified()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert "net.link_down is still reported and level 3 of ssm-dcgm does not cover it" in world.case().reason
    assert "cleared net.link_down" not in world.record_history()
    assert (world.released_instances(), world.restarter.restarted) == ([], [])


def test_an_order_to_return_the_node_ends_a_fault_that_the_diagnostics_do_not_cover() -> None:
    world = verified()
    world.orders.cancel(world.case().id, OperatorOrder("arn:aws:iam::123456789012:user/ada", "the switch was replaced"))
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=30)
    assert (world.case().resolution, list(world.node().active())) == (Resolution.CANCELLED, [])


def test_diagnostics_do_not_show_that_the_agent_of_a_silent_node_reports_again() -> None:
    world = World()
    world.fault_until(CaseStatus.ESCALATED, code="host.silent", source="heartbeat")
    assert "diagnostics passed, but host.silent is still reported" in world.case().reason
    assert [condition.code for condition in world.node().active()] == ["host.silent"]
    assert (world.released_instances(), world.restarter.restarted) == ([], [])


def test_a_fault_that_the_level_covers_ends() -> None:
    world = World()
    world.fault(code="cloud.ebs_impaired", source="ec2-status")
    world.fault_until_resolved(code="xid.48")
    assert list(world.node().active()) == []


@pytest.mark.parametrize("family", ["net", "cloud.ebs", "host.disk", "host.storage"])
def test_no_level_of_the_gpu_diagnostics_covers_another_family(family: str) -> None:
    catalog = data.load_catalog()
    codes = [code for code in catalog.rows if code.startswith(family)]
    assert codes
    assert not [code for code in codes for level in range(5) if catalog.covers("ssm-dcgm", level, code)]


def test_a_higher_level_covers_what_a_lower_one_does() -> None:
    catalog = data.load_catalog()
    assert [catalog.covers("ssm-dcgm", level, "xid.79") for level in range(5)] == [False, False, True, True, True]
    assert [catalog.covers("ssm-dcgm", level, "smi.driver_mismatch") for level in range(3)] == [False, True, True]
    assert not catalog.covers("another", 4, "xid.79")


def test_every_covered_code_family_or_failure_mode_exists() -> None:
    rows = {*data.load_catalog().rows, *data.failure_modes()}
    for levels in data.verification_coverage().values():
        for pattern in (one for covered in levels.values() for one in covered):
            assert any(fnmatchcase(code, pattern) for code in rows), pattern


@pytest.mark.parametrize(
    ("action", "limit", "level"),
    [
        (Action.RUN_DIAGNOSTICS, None, 2),
        (Action.RUN_DIAGNOSTICS, 1, 2),
        (Action.RUN_DIAGNOSTICS, 3, 3),
        (Action.REPLACE_NODE, None, 1),
    ],
    ids=["a fault to test", "a lower limit", "a higher limit", "a fault that the replacement ends"],
)
def test_the_level_of_a_verification_is_raised_only_for_a_fault_that_the_repair_does_not_end(
    action: Action, limit: int | None, level: int
) -> None:
    catalog = replace(CATALOG, by_fault=frozenset({"ssm-dcgm"}))
    world = World(
        rules=(Rule("one", Match(codes=("xid.48",)), action=action),),
        limits=limits(verify_level=limit),
        catalog=catalog,
    )
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    world.fault_until_resolved(code="xid.48")
    assert [begun.argument[2] for begun in world.seam.named("verifier.start")] == [level]
