"""A clock that advances only when a test or the simulation advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


class ManualClock:
    """Implements `Clock` (fake) with a time that changes only when the caller advances it."""

    def __init__(self, at: datetime = START) -> None:
        self._now = at

    def now(self) -> datetime:
        """Return the current simulated time."""
        return self._now

    def advance(self, by: timedelta | float) -> datetime:
        """Advance the clock by a timedelta or a number of seconds; returns the new time.

        A negative value raises `AssertionError`.
        """
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        assert span >= timedelta(0), f"the clock cannot go back: {span}"
        self._now += span
        return self._now

    def advance_to(self, at: datetime) -> datetime:
        """Advance the clock to the time `at`, and return this time.

        A time in the past raises `AssertionError`.
        """
        return self.advance(at - self._now)
