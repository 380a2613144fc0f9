"""The system clock of the host that runs this process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SystemClock:
    """A Clock of the system time; `offset_seconds` is only for tests of the embedded stack."""

    def __init__(self, offset_seconds: int = 0) -> None:
        self._offset = timedelta(seconds=offset_seconds)

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        return datetime.now(UTC) + self._offset
