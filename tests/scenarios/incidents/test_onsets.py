"""Onsets of independent faults are counted once, a lost race overwrites nothing, and whom a failed intake affects."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.correlate.shared_causes import AffectedNode
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Hold
from faultbridge.model.enums import DomainKind
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.repair.incidents import Intake, Onsets
from tests.builders import NOON
from tests.races import run_before_write, writes_to
from tests.scenarios.world import CLUSTER
from tests.sim.fakes import FakeTable, ManualClock, Seam

RACK = FailureDomain(DomainKind.RACK, "r-1")
WINDOW = timedelta(minutes=10)
ONE = 1_000
"""One onset, in the thousandths that the history holds."""


def onset(node: str, minutes: int = 20) -> AffectedNode:
    return AffectedNode(node, Family.NETWORK, NOON - timedelta(minutes=minutes), "net.link_down", (RACK,), None)


@pytest.fixture
def seam() -> Seam:
    return Seam()


@pytest.fixture
def onsets(seam: Seam) -> Onsets:
    clock = ManualClock(NOON)
    return Onsets(FakeTable(clock, seam=seam), clock)


def counted(onsets: Onsets) -> dict[str, int]:
    return {domain: count.thousandths for domain, count in onsets.read(CLUSTER).counts.items()}


def test_an_onset_is_counted_once_when_it_is_older_than_the_window(onsets: Onsets) -> None:
    for _ in range(2):
        onsets.count(CLUSTER, [onset("a"), onset("b", minutes=5)], (), WINDOW)
    assert counted(onsets) == {"network/rack/r-1": ONE}


def test_an_onset_that_belongs_to_an_incident_is_not_counted(onsets: Onsets) -> None:
    onsets.count(CLUSTER, [onset("a")], (Hold(Family.NETWORK, RACK),), WINDOW)
    assert counted(onsets) == {}


@pytest.mark.parametrize(
    "hold", [Hold(Family.POWER, RACK), Hold(Family.NETWORK, FailureDomain(DomainKind.RACK, "r-2"))]
)
def test_an_onset_of_another_family_or_failure_domain_than_the_incident_is_counted(onsets: Onsets, hold: Hold) -> None:
    onsets.count(CLUSTER, [onset("a")], (hold,), WINDOW)
    assert counted(onsets) == {"network/rack/r-1": ONE}


def test_a_count_that_changes_nothing_is_not_written(onsets: Onsets, seam: Seam) -> None:
    onsets.count(CLUSTER, [onset("a")], (), WINDOW)
    seam.calls.clear()
    onsets.count(CLUSTER, [onset("b", minutes=5)], (), WINDOW)
    assert [call.name for call in seam.calls] == ["table.get"]
    seam.calls.clear()
    onsets.count(CLUSTER, [onset("b", minutes=5)], (), WINDOW, onsets.read(CLUSTER))
    assert [call.name for call in seam.calls] == ["table.get"]


@pytest.mark.parametrize(
    ("failed", "overdue", "silent"),
    [
        (False, ("n-1",), ()),
        (True, ("n-1",), ("n-1",)),
        (True, (), ("n-1", "n-2")),
    ],
)
def test_a_failed_intake_affects_the_nodes_with_overdue_heartbeats_or_else_all(
    failed: bool, overdue: tuple[str, ...], silent: tuple[str, ...]
) -> None:
    late = (*(NodeKey(CLUSTER, node) for node in overdue), NodeKey("another", "n-9"))
    assert Intake(failed, late).silent_nodes(CLUSTER, ("n-1", "n-2")) == silent


@pytest.mark.parametrize("before", [[], [onset("old", minutes=60)]], ids=["first count", "later count"])
def test_the_slower_of_two_counts_overwrites_nothing(onsets: Onsets, seam: Seam, before: list[AffectedNode]) -> None:
    if before:
        onsets.count(CLUSTER, before, (), timedelta(minutes=50))
    known = sum(counted(onsets).values())
    both = [onset("a"), onset("b")]
    run_before_write(seam, writes_to(stored_incidents.onsets(CLUSTER)), lambda: onsets.count(CLUSTER, both, (), WINDOW))
    onsets.count(CLUSTER, both[:1], (), WINDOW)
    assert sum(counted(onsets).values()) == pytest.approx(known + 2 * ONE, abs=10)
