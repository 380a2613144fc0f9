"""Nodes that never report are found, counted and shown, and a group that stays unseen is paged once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from faultbridge.model.cluster.coverage import Coverage
from faultbridge.model.cluster.state import ClusterState, Control
from faultbridge.model.enums import ClusterStatus
from faultbridge.model.storage import heartbeats, keys
from faultbridge.model.values import replace
from faultbridge.repair.registry.documents import cluster_document, node_document, shown_node_document
from faultbridge.repair.registry.views import ClusterView, Views
from faultbridge.serve.ops.coverage import UpdateCoverage
from faultbridge.serve.pager.deliver import Paging
from tests.builders import NOON, config, fault
from tests.ingest.world import LedgerFixture
from tests.sim.fakes import FakePager

CLUSTER = "train-a"


def beat(world: LedgerFixture, *nodes: str) -> None:
    """Store a heartbeat of each of these nodes."""
    now = world.clock.now()
    world.table.write(heartbeats.batch_put(CLUSTER, dict.fromkeys(nodes, now), now))


def update(world: LedgerFixture, minutes: int = 6) -> Coverage:
    """Compute the coverage some minutes later."""
    world.clock.advance(60 * minutes)
    return UpdateCoverage(world.append, world.rulebook).update(CLUSTER)


def notes(world: LedgerFixture) -> Iterator[dict[str, Any]]:
    """Yield the entries of the cluster's stream."""
    for record in world.table.stream:
        if record.key.pk == keys.cluster_partition(CLUSTER) and record.key.sk.startswith(keys.ENTRY) and record.new:
            yield json.loads(str(record.new["body"]))


def test_a_node_that_never_reported_is_not_counted_as_reporting() -> None:
    world = LedgerFixture()
    nodes = [world.register_node(f"n-{number}") for number in (1, 2, 3)]
    beat(world, "n-1")
    world.observe_faults(nodes[1], fault("xid.79"))
    found = update(world)
    assert (found.nodes, found.reporting, found.never, found.no_data) == (3, 2, ("n-3",), ())
    for _ in range(10):
        world.observe_faults(nodes[1], fault("xid.79"))
        beat(world, "n-1")
        found = update(world)
    assert found.no_data == ("n-3",)
    views = Views(world.table)
    now, reports = world.clock.now(), views.reports(views.cluster(CLUSTER), world.clock.now())
    shown = {key.node: node_document(views.node(key), reports=reports) for key in nodes}
    assert {name: one.no_data for name, one in shown.items()} == {"n-1": False, "n-2": False, "n-3": True}
    sources = {name: one.last_report.source if one.last_report else None for name, one in shown.items()}
    assert sources == {"n-1": "heartbeat", "n-2": "kernel-log", "n-3": None}
    document = cluster_document(views.cluster(CLUSTER))
    assert (document.reporting, document.never_reported, document.no_data) == (2, 1, 1)
    answer = shown_node_document(views.node(nodes[2]), views.cluster(CLUSTER), now, reports).answer
    assert answer.row == "node.no_data"


def test_a_node_whose_reports_stopped_long_ago_without_heartbeats_has_no_data() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault("xid.79"))
    assert update(world).no_data == ()
    found = update(world, minutes=60)
    assert (found.no_data, found.reporting, found.never) == (("n-1",), 0, ())


def test_a_group_that_stays_unseen_for_an_hour_is_paged_once_and_resolved_by_its_first_report() -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    for _ in range(15):
        update(world)
    beat(world, "n-1")
    update(world)
    pager = FakePager()
    for body in notes(world):
        Paging(world.table, pager, world.clock).deliver(body)
    assert [page.attributes["state"] for page in pager.sent] == ["triggered", "resolved"]
    assert "faultbridge node list --cluster train-a --never-reported" in pager.sent[0].bodies["email"]


def test_a_cluster_without_nodes_or_without_a_report_is_not_shown_as_healthy() -> None:
    state, control = ClusterState(CLUSTER, status=ClusterStatus.HEALTHY), Control(CLUSTER)
    silent = Coverage(NOON, nodes=2, reporting=0, never=("n-1", "n-2"), no_data=("n-1", "n-2"))
    views = (
        ClusterView(config(expected=0), state, control),
        ClusterView(config(expected=2), state, control, coverage=silent),
        ClusterView(
            config(expected=2), state, control, coverage=replace(silent, reporting=1, never=("n-2",), no_data=("n-2",))
        ),
        ClusterView(config(expected=2), state, control),
    )
    assert [cluster_document(view).status for view in views] == ["no_nodes", "no_data", "healthy", "healthy"]


def test_the_coverage_is_computed_at_most_every_five_minutes() -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    first = update(world)
    assert update(world, minutes=4) == first
    assert update(world, minutes=1).at > first.at
