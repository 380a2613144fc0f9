"""A gray node is found by comparison with its peers, in shadow, and its finding is marked right or wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.counters import detectors
from faultbridge.decode.data.policies import version_of
from faultbridge.model.cluster.config import shard_of
from faultbridge.model.findings import Baseline, Finding, Mark
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage.counter_samples import STORED_AGAIN_AFTER
from faultbridge.model.storage.writes import Delete, Put
from faultbridge.record.policies import PolicyStore
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.findings.compare_peers import ComparePeers, read_totals
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest.mappings import MappingStore
from faultbridge.serve.wiring.services import wire_node_orders
from tests.builders import KEY, NOON
from tests.cli.desk import OPERATOR, Desk
from tests.findings.builders import BAD, GRAY, NODES, USUAL, Fleet
from tests.sim.fakes import Call
from tests.sim.fakes.item_size import MAX_ITEM_BYTES, item_bytes

SECONDS = 10**9


@pytest.fixture
def fleet(desk: Desk) -> Fleet:
    return Fleet(desk.world)


@pytest.mark.slow
def test_a_node_far_above_its_peers_for_hours_is_found_and_nothing_else_happens(fleet: Fleet, desk: Desk) -> None:
    fleet.pass_hours(4)
    assert fleet.findings() == []
    fleet.pass_hours(1)
    (found,) = fleet.findings()
    assert (found.node, found.detector, found.value, found.median, found.peers) == (BAD, "pcie-replays", 300, 2, 11)
    fleet.pass_hours(2)
    assert fleet.findings() == [found]
    state = fleet.world.node(NodeKey(KEY.cluster, BAD))
    assert (state.case, state.isolation, fleet.world.ports.pager.sent) == (None, "none", [])
    notes = [line["data"] for line in desk.json("timeline", "--cluster", KEY.cluster, "--node", BAD)]
    (begun,) = (one for one in notes if one.get("kind") == "shadow")
    assert (begun["stage"], begun["facts"]["finding_id"]) == ("begun", found.id)


@pytest.mark.parametrize(
    ("field", "usual", "gray", "detector"),
    [
        ("DCGM_FI_DEV_SYNC_BOOST_VIOLATION", 60 * SECONDS, 900 * SECONDS, "clock-limits"),
        ("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", 60 * SECONDS, 900 * SECONDS, "clock-limits"),
        ("DCGM_FI_DEV_RELIABILITY_VIOLATION", 60 * SECONDS, 900 * SECONDS, "clock-limits"),
    ],
)
def test_a_detector_finds_the_gray_node_and_none_of_the_healthy_ones(
    fleet: Fleet, field: str, usual: int, gray: int, detector: str
) -> None:
    fleet.field, fleet.usual, fleet.stated = field, usual, True
    fleet.pass_hours(5, rise=gray)
    assert [(found.node, found.detector) for found in fleet.findings()] == [(BAD, detector)]
    state = fleet.world.node(NodeKey(KEY.cluster, BAD))
    assert (state.case, state.isolation, fleet.world.ports.pager.sent) == (None, "none", [])


@pytest.mark.parametrize("name", ["RECOVERY_ERROR_COUNT_TOTAL", "COUNT_LINK_RECOVERY_EVENTS", "RECOVERY_EVENT_TOTAL"])
def test_recoveries_of_nvlink_are_compared_where_one_alone_is_no_fault(fleet: Fleet, name: str) -> None:
    field = f"DCGM_FI_DEV_NVLINK_{name}"
    limit = {"thresholds": {"dcgm-metrics": {field: {"limit": 100}}}}
    MappingStore(fleet.world.ports.table, fleet.world.ports.clock).put("v-1", limit)
    fleet.field, fleet.usual, fleet.stated = field, 0, True
    fleet.pass_hours(5, rise=10)
    assert [(found.node, found.detector) for found in fleet.findings()] == [(BAD, "nvlink-recovery")]


def test_peers_whose_unchanged_counters_are_not_stored_again_are_compared(fleet: Fleet) -> None:
    fleet.usual, fleet.stated = 0, True
    fleet.pass_hours(5)
    (finding,) = fleet.findings()
    assert (finding.node, finding.median, finding.peers) == (BAD, 0, len(NODES) - 1)


def test_peers_whose_counters_were_not_reported_for_hours_are_not_compared(fleet: Fleet) -> None:
    fleet.stated = True
    fleet.pass_hours(1)
    fleet.world.ports.clock.advance(STORED_AGAIN_AFTER)
    assert compared_nodes(fleet) == set()


def compared_nodes(fleet: Fleet) -> set[str]:
    """Return the nodes whose totals can be compared now."""
    states = [fleet.world.node(NodeKey(KEY.cluster, node)) for node in NODES]
    return {one.node for one in read_totals(fleet.world.ports.table, states, detectors(), fleet.world.now)}


def test_a_finding_ends_with_its_cause_and_is_recorded(fleet: Fleet, desk: Desk) -> None:
    fleet.pass_hours(5)
    fleet.pass_hours(1, rise=USUAL)
    assert fleet.findings() == []
    (found,) = desk.json("finding", "list", "--all")
    assert found["ended_at"] is not None
    assert desk("verify", "--cluster", KEY.cluster).code == 0


def test_a_short_burst_is_no_finding(fleet: Fleet) -> None:
    fleet.pass_hours(3)
    fleet.pass_hours(1, rise=USUAL)
    fleet.pass_hours(3)
    assert fleet.findings(ended=True) == []


def test_answers_of_operators_are_the_recorded_precision_of_a_detector(fleet: Fleet, desk: Desk) -> None:
    fleet.pass_hours(5)
    (found,) = desk.json("finding", "list")
    marked = desk.json("finding", "mark", found["finding_id"], "wrong", "--reason", "test load")
    assert (marked["mark"], marked["marked_by"], marked["reason"]) == ("wrong", OPERATOR, "test load")
    assert desk.json("finding", "mark", found["finding_id"], "right") == desk.json(
        "finding", "show", found["finding_id"]
    )
    (precision,) = (one for one in desk.json("finding", "precision") if one["findings"])
    assert precision == {
        "detector": "pcie-replays", "findings": 1, "right": 1, "wrong": 0, "precision_percent": 100
    }  # fmt: skip
    notes = desk("timeline", "--cluster", KEY.cluster, "--node", BAD).out
    assert "marked wrong" in notes


def test_a_case_soon_after_a_finding_proves_it_right(fleet: Fleet) -> None:
    fleet.pass_hours(5)
    wire_ingest(fleet.world.app).ingest([fleet.world.message(node=BAD)])
    (found,) = fleet.findings()
    assert found.mark is None
    fleet.pass_hours(1)
    case = fleet.world.node(NodeKey(KEY.cluster, BAD)).case
    assert case is not None
    assert [(one.mark, one.marked_by) for one in fleet.findings(ended=True)] == [("right", case.id)]


def test_a_finding_that_an_operator_marks_at_the_same_time_keeps_this_mark_and_stops_no_comparison(
    fleet: Fleet,
) -> None:
    fleet.pass_hours(5)
    wire_ingest(fleet.world.app).ingest([fleet.world.message(node=BAD)])
    (found,) = fleet.findings()
    seam = fleet.world.ports.seam

    def mark_first(call: Call) -> None:
        if call.name == "table.write" and "soon after" in str(call.argument):
            seam.before = lambda _: None
            fleet.world.ports.clock.advance(timedelta(milliseconds=1))
            Judgments(fleet.world.app.append).mark(found.id, Mark.WRONG, OPERATOR)

    seam.before = mark_first
    fleet.pass_hours(1)
    assert [(one.mark, one.marked_by) for one in fleet.findings(ended=True)] == [("wrong", OPERATOR)]
    assert wire_sweep(fleet.world.app).run().failures == []


def test_a_second_comparison_within_the_hour_changes_nothing(fleet: Fleet) -> None:
    fleet.pass_hours(5)
    app = fleet.world.app
    assert wire_sweep(app).run().failures == []
    before = list(fleet.world.ports.table.items())
    fleet.world.ports.clock.advance(timedelta(minutes=59))
    assert ComparePeers(app.append, app.rulebook, detectors()).compare(KEY.cluster) == 0
    assert list(fleet.world.ports.table.items()) == before


def test_a_finding_whose_baseline_is_lost_stays_open_until_its_node_is_compared_again(fleet: Fleet) -> None:
    fleet.pass_hours(5)
    (found,) = fleet.findings()
    fleet.world.ports.table.write(Delete(stored.baselines_key(KEY.cluster, shard_of(BAD, stored.PARTS))))
    fleet.pass_hours(2)
    assert fleet.findings() == [found]
    fleet.pass_hours(1, rise=USUAL)
    assert fleet.findings() == []


def test_the_baselines_of_a_large_cluster_fit_into_their_items() -> None:
    totals = {one.name: Baseline(NOON, "100/100", 10**15, 9) for one in detectors()}
    parts: dict[int, dict[str, Any]] = {part: {} for part in range(stored.PARTS)}
    for number in range(12_500):
        node = f"ip-10-100-{number}.eu-central-1.compute.internal"
        parts[shard_of(node, stored.PARTS)][node] = totals
    for part, nodes in parts.items():
        put = stored.baselines_put(KEY.cluster, part, stored.Baselines(NOON, nodes), NOON)
        assert item_bytes(put.item) < MAX_ITEM_BYTES / 2


def test_a_finding_of_a_node_that_left_service_ends(fleet: Fleet) -> None:
    fleet.pass_hours(5)
    app = fleet.world.app
    order = OperatorOrder(OPERATOR, "look at it")
    wire_node_orders(app).quarantine(NodeKey(KEY.cluster, BAD), order)
    wire_sweep(app).run()
    fleet.pass_hours(1)
    assert [one.ended_at is None for one in fleet.findings(ended=True)] == [False]


def test_an_unknown_finding_is_named(desk: Desk) -> None:
    assert "unknown finding: f-aaaaaaaaaaaaaaaa" in desk("finding", "mark", "f-aaaaaaaaaaaaaaaa", "right").err


def mark_earlier(fleet: Fleet, right: int, wrong: int) -> None:
    """Store earlier findings of the detector that were marked right and wrong."""
    for number in range(right + wrong):
        at = NOON - timedelta(days=30 + number)
        mark = Mark.RIGHT if number < right else Mark.WRONG
        earlier = Finding(f"f-{number:016d}", KEY.cluster, BAD, "pcie-replays", at, 9, 1, 900, 11, at, mark)
        fleet.world.ports.table.write(Put(stored.finding_item(earlier, at)))


def let_act(fleet: Fleet, bar: int, response: str = "isolate: true") -> None:
    """Let detectors act from a recorded precision in percent."""
    rule = f"{{name: gray, match: {{codes: ['gray.*']}}, {response}}}"
    document = read_policy(f"rules: [{rule}]\nlimits: {{finding_precision: {bar}}}\n")
    PolicyStore(fleet.world.ports.table, fleet.world.ports.clock).put({**document, "version": version_of(document)})


@pytest.mark.parametrize(("right", "wrong", "bar"), [(8, 2, 90), (9, 0, 80)])
def test_a_detector_below_the_bar_or_with_few_marks_stays_in_shadow(
    fleet: Fleet, right: int, wrong: int, bar: int
) -> None:
    mark_earlier(fleet, right, wrong)
    let_act(fleet, bar)
    fleet.pass_hours(6)
    assert len(fleet.findings()) == 1
    assert list(fleet.world.node(NodeKey(KEY.cluster, BAD)).active()) == []


def test_without_a_bar_in_the_policy_even_a_precise_detector_stays_in_shadow(fleet: Fleet) -> None:
    mark_earlier(fleet, 20, 0)
    fleet.pass_hours(6)
    assert len(fleet.findings()) == 1
    assert list(fleet.world.node(NodeKey(KEY.cluster, BAD)).active()) == []


def test_a_finding_of_a_precise_detector_is_a_fault_until_the_node_is_like_its_peers(fleet: Fleet, desk: Desk) -> None:
    mark_earlier(fleet, 9, 1)
    let_act(fleet, 90, response="isolate: false, wait_seconds: 43200")
    fleet.pass_hours(5)
    state = fleet.world.node(NodeKey(KEY.cluster, BAD))
    assert [(one.code, one.severity.value) for one in state.active()] == [("gray.pcie-replays", "warning")]
    assert state.live_case is not None
    fleet.pass_hours(1)
    (found,) = fleet.findings()
    assert found.mark is None, "a case that the finding opened itself proves nothing"
    fleet.pass_hours(2, rise=USUAL)
    assert list(fleet.world.node(NodeKey(KEY.cluster, BAD)).active()) == []
    assert desk("verify", "--cluster", KEY.cluster).code == 0


def test_the_fault_of_an_isolated_node_needs_a_verification_to_end(fleet: Fleet) -> None:
    mark_earlier(fleet, 9, 1)
    let_act(fleet, 90)
    fleet.pass_hours(7, rise=GRAY)
    assert fleet.findings() == []
    assert [one.code for one in fleet.world.node(NodeKey(KEY.cluster, BAD)).active()] == ["gray.pcie-replays"]
