"""Onsets of independent faults are counted once, and a lost race overwrites nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.incidents import Hold
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.incidents.onsets import Onsets
from faultbridge.pipeline.correlate.snapshot import AffectedNode
from faultbridge.simulation.fakes import FakeTable, ManualClock, Seam
from faultbridge.storage import incidents as stored_incidents
from tests.builders import NOON
from tests.races import run_before_write, writes_to
from tests.scenarios.world import CLUSTER

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


@pytest.mark.parametrize("before", [[], [onset("old", minutes=60)]], ids=["first count", "later count"])
def test_the_slower_of_two_counts_overwrites_nothing(onsets: Onsets, seam: Seam, before: list[AffectedNode]) -> None:
    if before:
        onsets.count(CLUSTER, before, (), timedelta(minutes=50))
    known = sum(counted(onsets).values())
    both = [onset("a"), onset("b")]
    run_before_write(seam, writes_to(stored_incidents.onsets(CLUSTER)), lambda: onsets.count(CLUSTER, both, (), WINDOW))
    onsets.count(CLUSTER, both[:1], (), WINDOW)
    assert sum(counted(onsets).values()) == pytest.approx(known + 2 * ONE, abs=10)
