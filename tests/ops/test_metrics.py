"""Metrics: counts, durations and gauges of each cluster."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.decide.entry_builder import gpu_time_lost
from faultbridge.model.cases import OUT_OF_SERVICE
from faultbridge.model.enums import NodeStatus
from faultbridge.model.values import replace
from faultbridge.serve.ops.metrics import NODE_GAUGES, count_entries, node_gauges
from tests.architecture.builders import entry
from tests.ingest.world import LedgerFixture
from tests.pages import CLOSED, event
from tests.sim.fakes import START


def test_every_node_status_except_retired_is_in_exactly_one_gauge() -> None:
    counted = [status for statuses in NODE_GAUGES.values() for status in statuses]
    assert sorted(counted) == sorted(set(NodeStatus) - {NodeStatus.RETIRED})


def test_a_gauge_without_nodes_is_zero() -> None:
    assert node_gauges({"healthy": 62, "draining": 1, "replacing": 1}) == {
        "NodesHealthy": 62,
        "NodesDegraded": 0,
        "NodesQuarantined": 0,
        "NodesInRepair": 2,
        "NodesFailed": 0,
    }


def test_a_closed_case_gives_the_duration_of_each_phase_and_of_the_case() -> None:
    found = count_entries([entry(CLOSED)], START + timedelta(seconds=3))["train-a"]
    assert found.durations["PhaseQueued"] == [400]
    assert found.durations["CaseTotal"] == [188_300], "measured from its opening; the time before is detection"
    assert found.durations["PublishLag"] == [3000]
    assert found.counts == {"CasesEnded": 1}


def test_faults_are_counted_by_code() -> None:
    faults = [entry(event("Node Fault Detected", code=code)) for code in ("xid.79", "xid.31", "xid.79")]
    codes = count_entries(faults, START)["train-a"].codes
    assert {code: counts["FaultsDetected"] for code, counts in codes.items()} == {"xid.79": 2, "xid.31": 1}


def test_an_entry_from_a_clock_that_is_ahead_has_no_lag() -> None:
    assert count_entries([entry(CLOSED)], START - timedelta(seconds=3))["train-a"].durations["PublishLag"] == [0]


def test_the_gpu_time_lost_counts_all_gpus_of_the_node_while_it_waits_out_of_service() -> None:
    world = LedgerFixture()
    world.rulebook = replace(world.rulebook, gpus=lambda: {"p5.48xlarge": 8})
    case = world.observe_faults(world.register_node("n-1", instance_type="ml.p5.48xlarge")).case
    assert case is not None
    later = case.opened_at + timedelta(minutes=10)
    assert (case.gpus, gpu_time_lost(case, later)) == (8, 0), "the node is in service"
    out = replace(case, marks={**case.marks, OUT_OF_SERVICE: case.opened_at})
    assert gpu_time_lost(out, later) == 8 * 600_000


def test_the_gpu_time_lost_of_an_unknown_instance_type_is_unknown() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).case
    assert case is not None
    assert gpu_time_lost(case, case.opened_at) is None
