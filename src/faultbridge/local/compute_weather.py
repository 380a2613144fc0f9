"""What befalls the launches of the fake compute plane, drawn from a seed: some are slow, some fail, some arrive bad.

The same seed and the same order of launches give the same fates. Calm unless told otherwise.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fate:
    """What befalls one launch."""

    fails: bool = False
    slow: bool = False
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Climate:
    """How often each thing happens (0 to 1), and how long it takes, in seconds."""

    failing: float = 0.0
    slow: float = 0.0
    bad: float = 0.0
    slow_seconds: float = 5.0
    again_seconds: float = 2.0


@dataclass(slots=True)
class Weather:
    """Draws a fate for each launch."""

    climate: Climate = Climate()
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - reproducible, no secret
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def change(self, seed: int, climate: Climate) -> None:
        """Begin again with a seed."""
        with self._lock:
            self.climate, self._random = climate, random.Random(seed)  # noqa: S311 - as above

    def next(self) -> Fate:
        """Draw the fate of the next launch; a launch that fails is neither slow nor bad."""
        with self._lock:
            fails, slow, bad = (self._random.random() < share for share in self._shares())
        return Fate(fails=True) if fails else Fate(slow=slow, bad=bad)

    def _shares(self) -> tuple[float, float, float]:
        return self.climate.failing, self.climate.slow, self.climate.bad


WEATHER = Weather()
