"""The transition tables contain no transition that the design forbids."""

from __future__ import annotations

from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, allowed
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus

OUT_OF_SERVICE = [status for status in NodeStatus if not status.in_service and status is not NodeStatus.RETIRED]


def test_a_node_enters_service_only_by_validation_or_by_an_import() -> None:
    transitions = {
        (edge.source, edge.target)
        for edge in NODE_EDGES
        if edge.target in {"healthy", "degraded"} and edge.source not in {"healthy", "degraded"}
    }
    assert transitions == {("validating", "healthy"), ("validating", "degraded"), (None, "healthy")}


def test_only_admission_starts_an_attempt() -> None:
    actors = {actor for edge in CASE_EDGES if edge.target == "in_progress" for actor in edge.actors}
    assert actors == {Actor.DISPATCH}


def test_a_closed_case_stays_closed() -> None:
    assert not [edge for edge in CASE_EDGES if edge.source in {"resolved", "expired"}]


def test_ingest_neither_creates_nor_drains_a_node() -> None:
    assert not [edge for edge in NODE_EDGES if edge.source is None and Actor.INGEST in edge.actors]
    assert not allowed(NODE_EDGES, "quarantined", "draining", Actor.INGEST)


def test_every_status_can_be_left_or_is_final() -> None:
    sources = {edge.source for edge in NODE_EDGES}
    assert {status.value for status in NodeStatus} <= sources
    assert {status.value for status in CaseStatus if status.live} <= {edge.source for edge in CASE_EDGES}


def test_a_case_in_progress_is_never_absorbed() -> None:
    assert not any(allowed(CASE_EDGES, "in_progress", "absorbed", actor) for actor in Actor)


def test_a_case_is_live_until_it_is_resolved_or_expired() -> None:
    assert {status for status in CaseStatus if not status.live} == {CaseStatus.RESOLVED, CaseStatus.EXPIRED}
