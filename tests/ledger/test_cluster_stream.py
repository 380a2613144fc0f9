"""Cluster stream: what a commit writes, and how often a conflict is retried, each with a logged cause."""

from __future__ import annotations

import logging

import pytest

from faultbridge.decide import entry_builder
from faultbridge.model.cluster.state import ClusterState
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Conflict
from faultbridge.model.storage.writes import Put
from faultbridge.record.append import MAX_TRIES, Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes, event_ids
from tests.builders import KEY, NOON, STACK_ID

STACK = Stack(STACK_ID, "faultbridge")


def two_notes(before: ClusterState) -> tuple[ClusterState, list[str]]:
    """Return a cluster's state after a commit of two notes, and the event ids that it recorded."""
    drafts = tuple(entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=NOON) for text in ("first", "second"))
    after, writes = cluster_writes(STACK, before, before, drafts, actor=Actor.CLI, severity=None, now=NOON)
    return after, [str(one.item["event_id"]) for one in writes if isinstance(one, Put) and "event_id" in one.item]


def test_the_event_ids_of_a_cluster_are_known_before_its_entries_are_recorded() -> None:
    state = ClusterState(KEY.cluster)
    for _ in range(2):
        known = event_ids(STACK, state, 2)
        state, recorded = two_notes(state)
        assert list(known) == recorded


def test_each_commit_of_a_cluster_raises_its_version_by_one() -> None:
    first, _ = two_notes(ClusterState(KEY.cluster))
    assert (first.head.version, two_notes(first)[0].head.version) == (1, 2)


def test_a_conflict_is_retried_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    conflicts = [Conflict("the version changed")]

    def read_and_write() -> str:
        if conflicts:
            raise conflicts.pop()
        return "committed"

    assert append_to_cluster(read_and_write) == "committed"
    (retried,) = [vars(record) for record in caplog.records if record.message == "cluster_commit_conflict"]
    assert (retried["reason"], retried["attempt"]) == ("the version changed", 1)


def test_after_twenty_conflicts_the_conflict_is_raised() -> None:
    calls: list[int] = []

    def read_and_write() -> None:
        calls.append(1)
        raise Conflict("the version changed")

    with pytest.raises(Conflict):
        append_to_cluster(read_and_write)
    assert len(calls) == MAX_TRIES
