"""What a batch of entries adds to the figures of each cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.domain.edges import NodeStatus
from faultbridge.ops.measures import FLEET, fleet, measure
from faultbridge.pipeline.decide.phase_durations import gpu_time_lost
from faultbridge.simulation.fakes import START
from tests.architecture.test_dashboards import entry
from tests.ingest.world import LedgerFixture
from tests.pages import CLOSED, event


def test_every_state_of_a_node_but_retired_is_in_one_gauge() -> None:
    counted = [status for statuses in FLEET.values() for status in statuses]
    assert sorted(counted) == sorted(set(NodeStatus) - {NodeStatus.RETIRED})


def test_a_state_without_a_node_is_shown_as_none() -> None:
    assert fleet({"healthy": 62, "draining": 1, "replacing": 1}) == {
        "NodesHealthy": 62,
        "NodesDegraded": 0,
        "NodesQuarantined": 0,
        "NodesInRepair": 2,
        "NodesFailed": 0,
    }


def test_the_end_of_a_case_gives_the_length_of_each_phase_and_of_all() -> None:
    found = measure([entry(CLOSED)], START + timedelta(seconds=3))["train-a"]
    assert found.durations["PhaseQueued"] == [400]
    assert found.durations["CaseTotal"] == [188_300], "from its opening: what was before is detection"
    assert found.durations["PublishLag"] == [3000]
    assert found.counts == {"CasesEnded": 1}


def test_faults_are_counted_by_their_code() -> None:
    faults = [entry(event("Node Fault Detected", code=code)) for code in ("xid.79", "xid.31", "xid.79")]
    codes = measure(faults, START)["train-a"].codes
    assert {code: counts["FaultsDetected"] for code, counts in codes.items()} == {"xid.79": 2, "xid.31": 1}


def test_an_entry_from_a_clock_ahead_is_not_early() -> None:
    assert measure([entry(CLOSED)], START - timedelta(seconds=3))["train-a"].durations["PublishLag"] == [0]


def test_a_case_knows_the_gpus_of_its_node_and_costs_what_its_repair_took() -> None:
    world = LedgerFixture()
    world.rulebook = replace(world.rulebook, gpus=lambda: {"p5.48xlarge": 8})
    case = world.observe_faults(world.register_node("n-1", instance_type="ml.p5.48xlarge")).case
    assert case is not None
    assert case.gpus == 8
    later = case.opened_at + timedelta(minutes=10)
    assert gpu_time_lost(case, later) == 0, "nothing was repaired"
    begun = replace(case, marks={**case.marks, "in_progress": later})
    assert gpu_time_lost(begun, later) == 8 * 600_000


def test_a_node_of_an_unknown_type_costs_nobody_knows_what() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).case
    assert case is not None
    assert gpu_time_lost(case, case.opened_at) is None
