"""The clock of the machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SystemClock:
    """Tells the machine's time, moved by an offset that only tests of the embedded stack set."""

    def __init__(self, offset_seconds: int = 0) -> None:
        self._offset = timedelta(seconds=offset_seconds)

    def now(self) -> datetime:
        """Return the present instant, aware, UTC."""
        return datetime.now(UTC) + self._offset
