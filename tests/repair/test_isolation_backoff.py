"""Isolation backoff: page and next call, just before and just after each deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.policy import Limits
from faultbridge.repair.isolation_backoff import MAX_CALL_DELAY, OVERDUE_AFTER, is_overdue, schedule_call
from tests.builders import NOON, node

LIMITS = Limits()
MILLISECOND = timedelta(milliseconds=1)
TRIED = {"isolation_since": NOON, "isolation_tries": 8}


@pytest.mark.parametrize(("at", "paged"), [(OVERDUE_AFTER - MILLISECOND, False), (OVERDUE_AFTER, True)])
def test_an_operator_is_paged_once_after_five_minutes(at: timedelta, paged: bool) -> None:
    assert is_overdue(node(**TRIED), NOON + at) is paged
    assert not is_overdue(node(**TRIED, isolation_overdue=True), NOON + at)


@pytest.mark.parametrize(
    ("at", "again"),
    [
        (OVERDUE_AFTER - MILLISECOND, OVERDUE_AFTER),
        (OVERDUE_AFTER, OVERDUE_AFTER + MAX_CALL_DELAY),
        (LIMITS.orchestrator_timeout - MILLISECOND, LIMITS.orchestrator_timeout),
        (LIMITS.orchestrator_timeout, LIMITS.orchestrator_timeout + MAX_CALL_DELAY),
    ],
)
def test_the_next_call_waits_for_its_delay_but_no_later_than_the_next_deadline(at: timedelta, again: timedelta) -> None:
    state = node(**TRIED, isolation_overdue=at > OVERDUE_AFTER, orchestrator_lost_at=NOON)
    assert schedule_call(state, NOON + at, LIMITS).isolation_again_at == NOON + again
