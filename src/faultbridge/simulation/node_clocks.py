"""The clocks of instances that are wrong all the time, and when their agents truly observed what they reported."""

from __future__ import annotations

from datetime import datetime
from random import Random

_HOUR, _DAY = 3600.0, 86400.0
_OFFSETS = (0.0, 0.0, -100.0, -300.0, -2700.0, -3 * _HOUR, -26 * _HOUR, -5 * _DAY, 600.0, 2 * _HOUR, 3 * _DAY)
"""By how many seconds a clock is ahead; negative if it is behind. All are within the 14 days that a record may wait."""


class NodeClocks:
    """The clock of each instance in one run. With `wrong`, drawn for some runs, the clocks of the instances are wrong.

    `observed` holds, by record, the true time of its observations and by how many seconds its sender's clock is ahead.
    """

    def __init__(self, seed: int) -> None:
        self.wrong = False
        self.observed: dict[str, tuple[datetime, float]] = {}
        self._seed = seed

    def offset(self, instance: str) -> float | None:
        """Return by how many seconds an instance's clock is ahead; None if each of its records has another offset."""
        return Random(f"clock {self._seed} {instance}").choice(_OFFSETS) if self.wrong else None
