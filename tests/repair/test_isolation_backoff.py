"""Patience with an orchestrator that does not do what it was asked, at both sides of each moment that matters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.policy import Limits
from faultbridge.repair.isolation_backoff import MAX_PAUSE, OVERDUE, is_overdue, postponed
from tests.builders import NOON, node

LIMITS = Limits()
MILLISECOND = timedelta(milliseconds=1)
TRIED = {"isolation_since": NOON, "isolation_tries": 8}


@pytest.mark.parametrize(("at", "told"), [(OVERDUE - MILLISECOND, False), (OVERDUE, True)])
def test_a_person_is_told_once_from_the_fifth_minute_on(at: timedelta, told: bool) -> None:
    assert is_overdue(node(**TRIED), NOON + at) is told
    assert not is_overdue(node(**TRIED, isolation_overdue=True), NOON + at)


@pytest.mark.parametrize(
    ("at", "again"),
    [
        (OVERDUE - MILLISECOND, OVERDUE),
        (OVERDUE, OVERDUE + MAX_PAUSE),
        (LIMITS.orchestrator_timeout - MILLISECOND, LIMITS.orchestrator_timeout),
        (LIMITS.orchestrator_timeout, LIMITS.orchestrator_timeout + MAX_PAUSE),
    ],
)
def test_the_next_call_waits_for_its_pause_and_not_beyond_what_the_time_brings(at: timedelta, again: timedelta) -> None:
    state = node(**TRIED, isolation_overdue=at > OVERDUE, orchestrator_lost_at=NOON)
    assert postponed(state, NOON + at, LIMITS).isolation_again_at == NOON + again
