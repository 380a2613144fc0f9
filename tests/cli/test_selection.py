"""Lists of all clusters: filters by fact, counts by fact, and times in the zone of the reader."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.cli.render import times
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.cli.builders import Terminal
from tests.cli.desk import Desk

CLUSTER = ("--cluster", KEY.cluster)


@pytest.fixture
def fleet(desk: Desk) -> Desk:
    """Two clusters with a node each; that of the first has Xid 79 and is in the declared rack r-1."""
    desk("cluster", "set", KEY.cluster, "--domain", f"rack/r-1={KEY.node}")
    desk("cluster", "add", "train-b", "--mode", "act", "--repair-owner", "faultbridge")
    desk("node", "add", "--cluster", "train-b", "--node", "b-1", "--group", "blue", "--domain", "r-2")
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    wire_react(desk.world.app).run([(KEY.cluster, KEY.node)])
    return desk


def names(rows: list[dict[str, str]]) -> list[str]:
    return [one["node"] for one in rows]


def test_nodes_of_all_clusters_are_listed_and_filtered_by_what_is_known_about_them(fleet: Desk) -> None:
    assert names(fleet.json("node", "list")) == [KEY.node, "b-1"]
    assert "CLUSTER" in fleet("node", "list").out.splitlines()[0]
    for option, value, expected in (
        ("--code", "xid.79", [KEY.node]),
        ("--code", "xid.4*", []),
        ("--mode", "gpu.*", [KEY.node]),
        ("--group", "blue", ["b-1"]),
        ("--rack", "r-1", [KEY.node]),
        ("--rack", "r-2", ["b-1"]),
        ("--since", "1h", [KEY.node]),
        ("--status", "healthy", []),
    ):
        assert names(fleet.json("node", "list", option, value)) == expected, (option, value)
    assert KEY.node in names(fleet.json("node", "list", "--not-healthy"))


def test_a_declared_rack_is_shown_with_the_node(fleet: Desk) -> None:
    assert fleet.json("node", "show", KEY.node, *CLUSTER)["domains"]["rack"] == "r-1"
    assert "rack r-1" in fleet("node", "show", KEY.node, *CLUSTER).out


def test_a_declared_rack_is_in_the_events_of_the_node(fleet: Desk) -> None:
    for kind in ("node-fault-detected", "node-status-change"):
        (*_, entry) = fleet.json("timeline", *CLUSTER, "--type", kind, "--node", KEY.node)
        assert entry["data"]["placement"]["domains"] == {"rack": "r-1"}, kind


def test_cases_of_a_node_include_the_closed_ones(fleet: Desk) -> None:
    (case,) = fleet.json("case", "list", "--node", KEY.node)
    fleet("case", "cancel", case["case_id"])
    assert [one["case_id"] for one in fleet.json("case", "list", "--node", KEY.node)] == [case["case_id"]]
    assert fleet.json("case", "list", "--node", "b-1") == []
    assert fleet.json("case", "list", "--since", "1h", "--rack", "r-2") == []
    assert names(fleet.json("case", "list", "--since", "1h", "--rack", "r-1")) == [KEY.node]


@pytest.mark.parametrize("noun", [("node", "list"), ("case", "list", "--all")])
def test_counts_name_each_value_of_a_fact(fleet: Desk, noun: tuple[str, ...]) -> None:
    assert {"code": "xid.79", "count": 1} in fleet.json(*noun, "--by", "code")
    assert {"rack": "r-1", "count": 1} in fleet.json(*noun, "--by", "rack")
    assert fleet(*noun, "--by", "moon").code == 2
    assert {"group": "blue", "count": 1} in fleet.json("node", "list", "--by", "group")


def test_faults_of_a_week_are_counted_by_rack_in_all_clusters(fleet: Desk) -> None:
    counted = fleet.json("timeline", "--code", "xid.79", "--since", "7d", "--by", "rack")
    assert [one["rack"] for one in counted] == ["r-1"]
    every = fleet.json("timeline")
    assert {one["metadata"]["cluster"] for one in every} == {KEY.cluster, "train-b"}
    assert f"{KEY.cluster}/{KEY.node}" in fleet("timeline").out
    only = fleet.json("timeline", "--rack", "r-2")
    assert {one["metadata"]["node"] for one in only} == {"b-1"}
    assert len(fleet.json("timeline", "--rack", "r-1", "--limit", "2")) == 2


def test_tail_prints_entries_of_all_clusters_as_they_are_recorded(fleet: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    fleet.world.ports.clock.advance(timedelta(seconds=1))
    assert fleet("tail").code == 130
    assert fleet("tail", "--json").code == 2
    assert fleet("tail", "--by", "code").code == 2


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_times_are_local_on_a_terminal_and_utc_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    at, now = datetime(2026, 2, 3, 12, tzinfo=UTC), datetime(2026, 2, 4, tzinfo=UTC)
    assert times.stated_time(at) == "2026-02-03 12:00:00 UTC"
    assert times.parse_time("2026-02-03 12:00", now) == at
    monkeypatch.setattr(sys, "stdout", Terminal(""))
    assert times.stated_time(at) == "2026-02-03 13:00:00 CET"
    assert times.short_time("2026-02-03T12:00:00Z") == "2026-02-03 13:00:00"
    assert times.parse_time("2026-02-03 13:00", now) == at, "a time is typed as it is printed"
