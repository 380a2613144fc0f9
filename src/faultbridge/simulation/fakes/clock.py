"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


class ManualClock:
    """A Clock (fake) that a test moves."""

    def __init__(self, at: datetime = START) -> None:
        self._at = at

    def now(self) -> datetime:
        """Return the instant at which it stands."""
        return self._at

    def advance(self, by: timedelta | float) -> datetime:
        """Move on by a span or by seconds; it never goes back."""
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        assert span >= timedelta(0), "this clock does not go back"
        self._at += span
        return self._at

    def advance_to(self, at: datetime) -> datetime:
        """Move on to an instant."""
        return self.advance(at - self._at)
