"""The Clock port: the fake and the machine's clock alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.adapters.clock import SystemClock
from faultbridge.ports import Clock
from faultbridge.simulation.fakes import ManualClock


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock(), SystemClock(offset_seconds=-60)])
def test_the_present_is_in_utc_and_never_goes_back(clock: Clock) -> None:
    first, second = clock.now(), clock.now()
    assert first.utcoffset() == timedelta(0)
    assert first <= second


def test_an_offset_moves_the_machines_clock() -> None:
    ahead = SystemClock(offset_seconds=86_400).now() - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < ahead <= timedelta(days=1)


def test_a_clock_by_hand_moves_only_forward() -> None:
    clock = ManualClock()
    assert clock.advance(1.5) - clock.advance(timedelta(seconds=1)) == timedelta(seconds=-1)
    with pytest.raises(AssertionError):
        clock.advance(-1)
