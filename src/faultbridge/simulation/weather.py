"""The weather of one history: how often what goes wrong, drawn once from the seed. Some histories are calm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class FaultKind(StrEnum):
    """How one call of a worker to the world goes wrong."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    TRANSIENT = "no answer, no effect"
    LOST_ANSWER = "no answer, but effect"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Weather:
    """Probabilities, a call or a delivery; spans are in seconds.

    `race` is the probability that other handlers run in the midst of a call, for up to `slow` seconds.
    """

    faults: Mapping[FaultKind, float] = field(default_factory=dict)
    race: float = 0.0
    slow: float = 2.0
    double: float = 0.0
    spread: float = 0.5
    index_lag: float = 0.0
    batch: int = 10
    retries: int = 10
    visibility: float = 180.0
    gap: float = 60.0


CALM = Weather()


def weather_of(random: Random) -> Weather:
    """Draw the weather of a history."""
    rough = random.choice((0.0, 0.002, 0.01, 0.03))
    wanted = {kind: random.choice((0.0, 1.0, 1.0, 2.0)) for kind in FaultKind}
    return Weather(
        faults={kind: rough * weight for kind, weight in wanted.items() if rough * weight},
        race=random.choice((0.0, 0.02, 0.05)),
        slow=random.choice((0.5, 5.0, 45.0)),
        double=random.choice((0.0, 0.02, 0.1)),
        spread=random.choice((0.1, 2.0, 60.0)),
        index_lag=random.choice((0.0, 1.0, 30.0)),
        batch=random.choice((1, 3, 10, 100)),
        retries=random.choice((0, 2, 10)),
        visibility=random.choice((30.0, 180.0)),
        gap=random.choice((5.0, 60.0, 300.0)),
    )
