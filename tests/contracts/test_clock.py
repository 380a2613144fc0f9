"""The Clock port: the same tests for the fake and the system clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.adapters.clock import SystemClock
from faultbridge.record.ports.table import Clock
from tests.sim.fakes import ManualClock


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock(), SystemClock(offset_seconds=-60)])
def test_the_time_is_in_utc_and_never_decreases(clock: Clock) -> None:
    first, second = clock.now(), clock.now()
    assert first.utcoffset() == timedelta(0)
    assert first <= second


def test_an_offset_is_added_to_the_system_time() -> None:
    ahead = SystemClock(offset_seconds=86_400).now() - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < ahead <= timedelta(days=1)


def test_a_manual_clock_advances_only_forward() -> None:
    clock = ManualClock()
    assert clock.advance(1.5) - clock.advance(timedelta(seconds=1)) == timedelta(seconds=-1)
    with pytest.raises(AssertionError):
        clock.advance(-1)
