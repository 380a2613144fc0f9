"""The agent's clocks: one that people set, and one that only runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class AgentClock(Protocol):
    """Tells the time; `uptime` counts as the kernel's log does."""

    def now(self) -> datetime:
        """Return the wall clock's time, UTC; it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        ...

    def sleep(self, seconds: float) -> None:
        """Rest."""
        ...


class SystemClock:
    """The clocks of this machine; CLOCK_MONOTONIC is the one that printk's times follow."""

    def now(self) -> datetime:
        """Return the wall clock's time, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since boot, without those that the machine slept."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Rest."""
        time.sleep(seconds)
