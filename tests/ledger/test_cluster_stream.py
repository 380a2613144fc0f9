"""Cluster stream: conflicts are retried a limited number of times, each with a logged cause."""

from __future__ import annotations

import logging

import pytest

from faultbridge.errors import Conflict
from faultbridge.ledger.append import MAX_TRIES
from faultbridge.ledger.cluster_stream import append_to_cluster


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
