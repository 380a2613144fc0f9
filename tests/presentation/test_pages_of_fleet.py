"""Pages of nodes, clusters and the fleet."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import NodeStatus, RepairAction
from faultbridge.model.errors import Misconfigured
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.presentation.case_page import case_mark
from faultbridge.serve.presentation.cluster_page import ClusterPage, cluster_page
from faultbridge.serve.presentation.fleet_page import FleetFacts, fleet_page
from faultbridge.serve.presentation.grid import GridNode, gpu_share, node_groups
from faultbridge.serve.presentation.history import MAX_ROWS, Span, node_timeline
from faultbridge.serve.presentation.node_page import node_page
from faultbridge.serve.presentation.tones import Tone
from tests.builders import NOON
from tests.presentation.histories import facts_of, replaced
from tests.scenarios.world import CLUSTER, World

NODES = st.lists(
    st.builds(
        GridNode,
        node=st.text("abc", min_size=1),
        status=st.sampled_from([status.value for status in NodeStatus]),
        group=st.sampled_from([None, "g-1", "g-2"]),
        domain=st.sampled_from([None, "rack-1"]),
    )
)


def page_of(world: World) -> ClusterPage:
    now = world.clock.now()
    return cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), Span(now - timedelta(days=1), now))


@given(NODES)
def test_every_node_is_counted_in_exactly_one_group(nodes: list[GridNode]) -> None:
    groups = node_groups(nodes)
    assert sum(len(group.nodes) + len(group.healthy) for group in groups) == len(nodes)
    for group in groups:
        assert all(one.status != "healthy" for one in group.nodes)


def test_healthy_nodes_are_folded_into_a_count() -> None:
    nodes = [GridNode(f"n-{number}") for number in range(500)] + [GridNode("bad", "failed")]
    (group,) = node_groups(nodes)
    assert ([one.node for one in group.nodes], len(group.healthy)) == (["bad"], 500)


def test_the_share_counts_only_nodes_of_known_types() -> None:
    nodes = [GridNode("a", instance_type="ml.p5.48xlarge"), GridNode("b", "failed", instance_type="p5.48xlarge")]
    share = gpu_share([*nodes, GridNode("c")], {"p5.48xlarge": 8})
    assert (share.gpus, share.in_service, share.percent) == (16, 8, 50)
    assert gpu_share([], {}).percent is None


def test_a_node_page_shows_both_instances_and_the_status_over_time() -> None:
    world = replaced()
    found = facts_of(world).node(CLUSTER, "node-1", (None, None))
    page = node_page(found.document, found.entries, Span(NOON - timedelta(days=1), world.clock.now()), older=False)
    lanes = {lane.name: lane for lane in page.chart.lanes}
    assert [bar.text for bar in lanes["status"].bars][-1] == "healthy"
    assert len(lanes["instance"].bars) == 2
    assert "attempt 1" in lanes
    assert (page.status.text, page.live, page.node.conditions) == ("healthy", False, ())


@pytest.mark.slow
def test_no_step_of_an_attempt_begins_in_an_earlier_case() -> None:
    world = replaced()
    world.advance_minutes(60 * 30)
    world.fault_until_resolved()
    found = facts_of(world).node(CLUSTER, "node-1", (None, None))
    page = node_page(found.document, found.entries, Span(NOON, world.clock.now()), older=False)
    (lane,) = (one for one in page.chart.lanes if one.name == "attempt 1")
    assert max(bar.end - bar.start for bar in lane.bars) < timedelta(hours=2)
    assert lane.bars[-1].end - lane.bars[0].start > timedelta(hours=24)


def test_every_bar_leads_to_an_entry_of_the_page() -> None:
    world = replaced()
    found = facts_of(world).node(CLUSTER, "node-1", (None, None))
    page = node_page(found.document, found.entries, Span(NOON - timedelta(days=1), world.clock.now()), older=False)
    anchors = {f"#{row.anchor}" for row in page.rows}
    targets = {bar.target for lane in page.chart.lanes for bar in lane.bars if bar.target}
    assert targets
    assert targets <= anchors


def test_a_condition_that_still_exists_has_an_open_bar() -> None:
    world = World(nodes=2)
    world.pause_repairs(paused=True)
    world.fault_and_react(minutes=5)
    found = facts_of(world).node(CLUSTER, "node-1", (None, None))
    page = node_page(found.document, found.entries, Span(NOON, world.clock.now()), older=False)
    (lane,) = [one for one in page.chart.lanes if one.name.startswith("xid.79")]
    assert [(bar.running, bar.end) for bar in lane.bars] == [(True, world.clock.now())]
    assert [one.failure_mode for one in page.node.conditions] == ["xid.79"]


def test_the_timeline_shows_the_states_of_each_node_with_the_one_that_needs_an_operator_first() -> None:
    world = World(nodes=4, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react(2)
    world.orders.deny(world.case(2).id, OperatorOrder("ada", "not now"))
    world.process_entries(minutes=2)
    world.fault_and_react(1)
    world.advance_minutes(5)
    page = page_of(world)
    rows = {lane.name: lane for lane in page.timeline.lanes}
    assert [lane.name for lane in page.timeline.lanes] == ["all nodes", "node-2", "node-1"]
    (running,) = (one for one in rows["node-2"].bars if one.running)
    assert (running.text, running.tone, running.case_id) == ("needs an operator", Tone.BAD, world.case(2).id)
    assert [one.text for one in rows["node-1"].bars if one.running] == ["waits"]
    assert rows["all nodes"].bars[-1].text == "2 healthy, 2 quarantined"
    assert all(one.end <= page.timeline.end for lane in rows.values() for one in lane.bars)


def test_the_timeline_shows_at_most_thirty_nodes_and_counts_the_others() -> None:
    world = replaced()
    facts = facts_of(world).cluster(CLUSTER, (None, None))
    (case,) = facts.closed_cases
    many = [replace(case, node=f"n-{number}") for number in range(MAX_ROWS + 5)]
    span = Span(NOON, world.clock.now())
    chart, unlisted = node_timeline(many, (), (), (), span)
    assert (len(chart.lanes), unlisted) == (MAX_ROWS, 5)
    assert [bar.text for bar in chart.lanes[0].bars] == ["in repair"]


def test_a_node_without_a_case_has_a_row_with_its_status() -> None:
    world = World(nodes=2, mode=Mode.OBSERVE)
    world.fault_and_react(1)
    (lane,) = (one for one in page_of(world).timeline.lanes if one.node == "node-1")
    assert [(bar.text, bar.detail, bar.running) for bar in lane.bars] == [("degraded", "xid.79", True)]


def test_what_needs_an_operator_is_listed_with_its_first_command() -> None:
    world = World(nodes=3, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react(2)
    (need,) = page_of(world).needs
    assert (need.node, need.answer.needs_you) == ("node-2", True)
    assert need.answer.you[0].command == f"faultbridge case approve {world.case(2).id} --repair-action replace_node"


def test_a_cluster_page_lists_cases_controls_and_repair_times() -> None:
    world = replaced()
    world.pause_repairs(paused=True)
    world.fault_and_react(2)
    page = cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), Span(NOON, world.clock.now()))
    assert [case_mark(one).text for one in page.live_cases] == ["queued: pause"]
    assert [case_mark(one).text for one in page.closed_cases] == ["resolved: replaced"]
    controls = {one.name: one for one in page.controls}
    assert (controls["New repairs"].mark.text, controls["New repairs"].note) == (
        "paused",
        "By unknown. Until an operator resumes them.",
    )
    assert controls["Running repairs"].mark.text.startswith("0 of ")
    assert page.repair_times is not None
    assert page.repair_times.count == 1
    assert abs(sum(share for _, _, share in page.repair_times.phases) - 1) < 1e-9


def test_a_cluster_page_states_what_ends_each_breaker_that_holds_repairs() -> None:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20, quiet=timedelta(minutes=7)),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries(minutes=2)
    page = cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), Span(NOON, world.clock.now()))
    (row,) = (one for one in page.controls if one.name == "Breaker cluster")
    assert row.mark.text == "open"
    assert "until no further node has failed for 7 min, at least until 2026-02-03 1" in row.note
    world.controls.close_breakers(CLUSTER, "ada")
    page = cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), Span(NOON, world.clock.now()))
    assert [(one.mark.text, one.note) for one in page.controls if one.name == row.name] == [("closed", "")]


def test_a_cluster_whose_policy_cannot_be_read_still_has_a_page() -> None:
    world = replaced()
    facts = facts_of(world)

    def unreadable(_: object) -> Policy:
        raise Misconfigured("policy 7 is not stored")

    facts.policy = unreadable
    page = cluster_page(facts.cluster(CLUSTER, (None, None)), Span(NOON, world.clock.now()))
    assert [one.mark.text for one in page.controls if one.name == "Running repairs"] == ["0"]


def test_a_running_repair_in_a_list_of_cases_shows_its_phase() -> None:
    world = World(nodes=1)
    world.fault_and_react(minutes=1)
    page = cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), Span(NOON, world.clock.now()))
    (case,) = page.live_cases
    assert re.fullmatch("in progress: (drain|prepare|act|wait for the instance|diagnostics)", case_mark(case).text)


def test_the_fleet_page_sums_up_its_clusters() -> None:
    world = replaced()
    world.pause_repairs(paused=True)
    world.fault_and_react(2)
    page = fleet_page(facts_of(world).fleet(None), {"p5.48xlarge": 8}, NOON)
    (cluster,) = page.clusters
    assert (cluster.nodes, cluster.healthy, cluster.no_data, page.live_cases) == (3, 1, 1, 1)
    assert (page.gpus.gpus, page.gpus.in_service) == (24, 8)
    assert (page.needs, [one.name for one in cluster.needs]) == (1, ["Pause", "node-2"])
    assert page.live


def test_clusters_are_sorted_by_severity_and_then_by_name() -> None:
    world = replaced()
    world.pause_repairs(paused=True)
    world.fault_and_react(2)
    (found,) = facts_of(world).fleet(None)
    healthy = [GridNode("n-1")]

    def facts(name: str, **others: Any) -> FleetFacts:
        document = replace(found.cluster, cluster=name, status="healthy", paused=False, pauses=(), incidents=())
        return FleetFacts(replace(document, **others), healthy, 0, 0)

    clusters = [
        facts("a-2"),
        facts("a-10"),
        replace(facts("b"), nodes=[GridNode("n-1", "degraded")]),
        replace(facts("c"), shown=found.shown),
        facts("d", status="critical"),
    ]
    page = fleet_page(clusters, {}, NOON)
    assert [(one.cluster.cluster, one.rank) for one in page.clusters] == [
        ("d", "critical"), ("c", "needs you"), ("b", "degraded"), ("a-2", "healthy"), ("a-10", "healthy"),
    ]  # fmt: skip
