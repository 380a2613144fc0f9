"""A finding is proved right only by a later hard fault of the same component on the same instance."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.peers import main_part
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.counters import detectors
from faultbridge.model.cluster.config import Mode
from faultbridge.model.conditions import is_another
from faultbridge.model.enums import CaseStatus
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component
from faultbridge.model.findings import Baseline, Detector
from faultbridge.model.nodes import NodeKey
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_node_orders, wire_registration
from tests.builders import KEY, NOON
from tests.cli.desk import OPERATOR, Desk
from tests.findings.builders import BAD, NODES, Fleet
from tests.registry.world import instance, replace_externally
from tests.sim.fakes import FakeInventory
from tests.world import XID_79

NODE = NodeKey(KEY.cluster, BAD)
LINK_DOWN = json.dumps(
    {"code": "net.link_down", "component": {"type": "nic", "name": "ib0"}, "kind": "fault", "message": "link is down"}
)


@pytest.fixture
def fleet(desk: Desk) -> Fleet:
    fleet = Fleet(desk.world)
    fleet.pass_hours(5)
    return fleet


def report(fleet: Fleet, *nodes: str) -> None:
    world = fleet.world
    wire_ingest(world.app).ingest([world.message(LINK_DOWN, source="faultbridge", node=node) for node in nodes])


def marks(fleet: Fleet) -> list[str | None]:
    fleet.pass_hours(1)
    assert fleet.world.node(NODE).case is not None
    return [one.mark for one in fleet.findings(ended=True) if one.node == BAD]


def test_a_later_hard_fault_of_the_same_component_proves_a_finding_right(fleet: Fleet) -> None:
    wire_ingest(fleet.world.app).ingest([fleet.world.message(node=BAD)])
    assert marks(fleet) == ["right"]


def test_a_hard_fault_of_another_gpu_proves_nothing(fleet: Fleet) -> None:
    (found,) = fleet.findings()
    assert found.component is not None
    assert found.component.pci == "0000:c1:00"
    wire_ingest(fleet.world.app).ingest([fleet.world.message(XID_79.replace("c1:00", "53:00"), node=BAD)])
    assert marks(fleet) == [None]


def test_a_hard_fault_of_a_new_instance_proves_nothing_about_a_finding_of_the_old_one(fleet: Fleet) -> None:
    world = fleet.world
    set_cluster = wire_registration(world.app).set_cluster
    set_cluster(KEY.cluster, {"mode": Mode.OBSERVE})  # so that the replacement itself opens no case
    world.ports.inventories["ec2-auto-scaling"] = FakeInventory(world.ports.fleet)
    _, successor = replace_externally(world, BAD)
    wire_inventory(world.app).sync_all()
    assert (instance(world, BAD), world.node(NODE).case) == (successor, None)
    set_cluster(KEY.cluster, {"mode": Mode.ACT})
    wire_ingest(world.app).ingest([world.message(node=BAD, instance_id=successor)])
    assert marks(fleet) == [None]


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_finding_names_the_component_with_more_than_half_of_the_rise(first: int, second: int) -> None:
    before = Baseline(NOON, "1/1", 30, parts={"gpu/index=0": 10, "gpu/index=1": 20})
    later = Baseline(NOON, "1/1", 30 + first + second, parts={"gpu/index=0": 10 + first, "gpu/index=1": 20 + second})
    expected = None if first == second else f"gpu/index={int(second > first)}"
    assert main_part(before, later) == expected
    assert main_part(replace(before, parts={}), later) is None


def test_devices_are_compared_by_what_both_components_name_and_by_the_devices_of_the_node() -> None:
    by_index, by_pci = Component(ComponentType.GPU, index=3), Component(ComponentType.GPU, pci="0000:53:00")
    same, other = replace(by_pci, index=3), replace(by_pci, index=5)
    assert not is_another(by_index, by_pci, ())
    assert not is_another(by_index, by_pci, (same,))
    assert is_another(by_index, by_pci, (other,))
    assert not is_another(by_index, Component(ComponentType.NIC, index=5), ())
    assert not is_another(by_index, NODE_COMPONENT, ())


def test_a_lost_link_proves_no_finding_about_pcie(fleet: Fleet) -> None:
    report(fleet, BAD)
    assert marks(fleet) == [None]


def test_a_quarantine_for_another_reason_proves_nothing(fleet: Fleet) -> None:
    wire_node_orders(fleet.world.app).quarantine(NODE, OperatorOrder(OPERATOR, "rack move"))
    assert marks(fleet) == [None]


def test_an_ordered_replacement_proves_nothing(fleet: Fleet) -> None:
    wire_node_orders(fleet.world.app).replace(NODE, OperatorOrder(OPERATOR, "lease ends"))
    assert marks(fleet) == [None]


def test_a_case_that_waits_for_an_incident_proves_nothing(fleet: Fleet) -> None:
    wire_ingest(fleet.world.app).ingest([fleet.world.message(node=BAD)])
    report(fleet, *NODES)
    wire_sweep(fleet.world.app).run()
    case = fleet.world.node(NODE).case
    assert case is not None
    assert (case.code, case.status) == ("xid.79", CaseStatus.ABSORBED)
    assert marks(fleet) == [None]


@pytest.mark.parametrize("detector", detectors(), ids=lambda one: one.name)
def test_each_proof_of_a_detector_is_a_code_of_the_catalog_and_no_order(detector: Detector) -> None:
    codes = load_catalog().rows
    assert detector.proved_by
    assert all(any(fnmatchcase(code, one) for code in codes) for one in detector.proved_by)
    assert not detector.is_proved_by("operator.quarantine")
    assert not detector.is_proved_by(f"gray.{detector.name}")
