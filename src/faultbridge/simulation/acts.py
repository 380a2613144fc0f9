"""What happens in a history from outside: a plan of acts, drawn from the seed before anything runs.

Acts carry numbers, not names: which instance "the third one that runs" is, shows when the act's time has come. A
shorter plan of the same seed is the beginning of a longer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from faultbridge.simulation.samples import SAMPLES


@dataclass(frozen=True, slots=True)
class Act:
    """One act: so many seconds after the one before it, of a kind, about things chosen by numbers."""

    gap: float
    kind: str
    what: str = ""
    which: int = 0
    amount: float = 0.0


_KINDS: Mapping[str, int] = {
    "report": 46,
    "repeat": 6,
    "tail": 3,
    "unknown": 3,
    "noise": 3,
    "redrive": 4,
    "register": 2,
    "pause": 2,
    "resume": 2,
    "policy": 1,
    "provider": 5,
    "restarter": 3,
    "rival": 2,
    "verifier": 4,
    "orchestrator": 4,
    "capacity": 2,
    "lemon": 3,
    "busy": 2,
    "abort": 3,
    "outage": 3,
    "days": 1,
    "retry": 1,
}
"""Kinds of acts and how often each comes; `Actors` has a method for each."""

_SAMPLES: Mapping[str, int] = {
    "xid 79": 10,
    "xid 48": 5,
    "xid 119": 3,
    "xid 31": 10,
    "xid 92": 4,
    "unknown xid": 2,
    "healthy health snapshot": 10,
    "health snapshot: GPU lost": 4,
    "health snapshot: remap pending": 5,
    "health snapshot: hot": 3,
    "healthy watches": 4,
    "watches: memory failed": 3,
    "links up": 4,
    "link down": 4,
    "garbage": 2,
    "nothing known": 2,
}
_PORTS = (
    "table",
    "bus",
    "queue",
    "objects",
    "workflow",
    "pager",
    "provider",
    "restarter",
    "collector",
    "orchestrator",
    "verifier",
    "receipts",
)


def plan(seed: int, steps: int, gap: float) -> tuple[Act, ...]:
    """Draw so many acts; `gap` is the mean time between two of them, in seconds."""
    random = Random(f"plan {seed}")
    kinds, samples = _weighted(_KINDS), _weighted(_SAMPLES)
    return tuple(_act(random, kinds, samples, gap) for _ in range(steps))


def _act(random: Random, kinds: list[str], samples: list[str], gap: float) -> Act:
    kind = random.choice(kinds)
    wait = random.expovariate(1 / gap) if random.random() < 0.8 else 0.0  # noqa: PLR2004 - the rest comes in bursts
    what = random.choice(_PORTS) if kind == "outage" else random.choice(samples)
    return Act(round(wait, 3), kind, what, random.randrange(1000), round(random.random(), 4))


def _weighted(weights: Mapping[str, int]) -> list[str]:
    assert set(_SAMPLES) == set(SAMPLES)
    return [name for name, weight in weights.items() for _ in range(weight)]
