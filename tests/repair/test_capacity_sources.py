"""Answers of capacity sources: what an answer decides about the release, and the reason that an entry records."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.provider_conditions import ENDS_WITHIN
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.repair.successor.sources import Decision, SourceAnswer
from tests.builders import NOON

RESERVATION = CapacityEvidence.RESERVATION


def answer(found: Capacity) -> SourceAnswer:
    return SourceAnswer(CapacitySource.OPEN_RESERVATION, found, NOON)


@pytest.mark.parametrize(
    ("left", "decision"), [(ENDS_WITHIN, Decision.USED), (ENDS_WITHIN - timedelta(seconds=1), Decision.NONE_FREE)]
)
def test_a_source_counts_if_at_least_an_hour_is_left(left: timedelta, decision: Decision) -> None:
    assert answer(Capacity(RESERVATION, ends_at=NOON + left)).decision is decision


def test_a_reservation_without_a_free_instance_does_not_count_although_no_other_replacement_waits() -> None:
    assert answer(Capacity(RESERVATION, count=0)).decision is Decision.NONE_FREE


def test_a_group_that_launches_nothing_refuses_the_release_and_unknown_capacity_does_not() -> None:
    assert answer(Capacity()).decision is Decision.UNKNOWN
    refused = answer(Capacity(free=False, reason="Launch is suspended"))
    assert (refused.decision, refused.reason) == (Decision.NONE_FREE, "Launch is suspended")


def test_the_end_of_a_source_is_no_reason_while_more_than_an_hour_is_left() -> None:
    found = Capacity(RESERVATION, reason="cr-1: 2 free", ends_at=NOON + timedelta(days=1))
    assert answer(found).reason == "cr-1: 2 free"


@pytest.mark.parametrize(("free", "reason"), [(True, ""), (False, "reservation has no free capacity")])
def test_only_a_full_source_that_gives_no_reason_gets_one(free: bool, reason: str) -> None:
    assert answer(Capacity(RESERVATION, free=free)).reason == reason
