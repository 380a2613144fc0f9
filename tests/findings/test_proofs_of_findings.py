"""A finding is proved right only by a later hard fault of the same component on the same instance."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import pytest

from faultbridge.data import load_catalog
from faultbridge.data.detectors import detectors
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.findings import Detector
from faultbridge.domain.nodes import NodeKey
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk
from tests.findings.test_findings import BAD, NODES, Fleet

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
    world.app.ingestion.ingest([world.message(LINK_DOWN, source="faultbridge", node=node) for node in nodes])


def marks(fleet: Fleet) -> list[str | None]:
    fleet.pass_hours(1)
    assert fleet.world.node(NODE).case is not None
    return [one.mark for one in fleet.findings(ended=True) if one.node == BAD]


def test_a_later_hard_fault_of_the_same_component_proves_a_finding_right(fleet: Fleet) -> None:
    fleet.world.app.ingestion.ingest([fleet.world.message(node=BAD)])
    assert marks(fleet) == ["right"]


def test_a_lost_link_proves_no_finding_about_pcie(fleet: Fleet) -> None:
    report(fleet, BAD)
    assert marks(fleet) == [None]


def test_a_quarantine_for_another_reason_proves_nothing(fleet: Fleet) -> None:
    fleet.world.app.repair.node_orders.quarantine(NODE, OperatorOrder(OPERATOR, "rack move"))
    assert marks(fleet) == [None]


def test_an_ordered_replacement_proves_nothing(fleet: Fleet) -> None:
    fleet.world.app.repair.node_orders.replace(NODE, OperatorOrder(OPERATOR, "lease ends"))
    assert marks(fleet) == [None]


def test_a_case_that_waits_for_an_incident_proves_nothing(fleet: Fleet) -> None:
    fleet.world.app.ingestion.ingest([fleet.world.message(node=BAD)])
    report(fleet, *NODES)
    fleet.world.app.ops.sweep()
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
