"""Node clocks: the clock errors of instances, and the true times of the observations of their agents."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import NamedTuple

_HOUR, _DAY = 3600.0, 86400.0
_OFFSETS = (0.0, 0.0, -100.0, -300.0, -2700.0, -3 * _HOUR, -26 * _HOUR, -5 * _DAY, 600.0, 2 * _HOUR, 3 * _DAY)
"""Possible clock errors in seconds, negative if the clock is behind. All are less than 14 days."""


class TrueTime(NamedTuple):
    """When a record's observations were made, how far ahead its sender's clock was, and the instance that sent it.

    `ahead` is in seconds, and negative if the clock was behind.
    """

    at: datetime
    ahead: float
    instance_id: str


class NodeClocks:
    """The clock error of each instance in one run.

    If `wrong` is True, each instance has a constant error, drawn from the seed, which may be zero. If `wrong` is False,
    no instance has a constant error.

    `jumps` has, for each instance whose clock jumped, the sum of its jumps in seconds.

    `observed` maps the id of a record to its true time. The value None means that the times of the record are not
    checked.
    """

    def __init__(self, seed: int) -> None:
        self.wrong = False
        self.observed: dict[str, TrueTime | None] = {}
        self.jumps: dict[str, float] = {}
        self._seed = seed

    def offset(self, instance: str) -> float | None:
        """Return the number of seconds by which an instance's clock is ahead, negative if it is behind.

        Returns None if the instance has no constant error; each of its records then has an error of its own.
        """
        if not self.wrong:
            return None
        return Random(f"clock {self._seed} {instance}").choice(_OFFSETS) + self.jumps.get(instance, 0.0)

    def jump(self, instance: str, seconds: float) -> None:
        """Let the clock of an instance jump; afterwards, the times of its records are not checked."""
        self.jumps[instance] = self.jumps.get(instance, 0.0) + seconds
