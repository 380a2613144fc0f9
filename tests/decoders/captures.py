"""Loads captured inputs with the faults that they are expected to contain."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.model.conditions import component_key
from faultbridge.model.faults import Clear, Fault, Observation, Snapshot

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
PLATFORM_SAMPLES = HERE / "samples_platform"
"""Samples of agents, clouds, networks and jobs; those of the node itself are in `SAMPLES`."""


@dataclass(frozen=True)
class Capture:
    """One file, its source, and the expected number of each (code, component, action)."""

    file: str
    source: str
    held: Counter[tuple[str, str, str]]


def expected(listing: Path) -> list[Capture]:
    written = tomllib.loads(listing.read_text(encoding="utf-8"))["capture"]
    return [
        Capture(one["file"], one["source"], Counter({(c, p, a): n for c, p, a, n in one["faults"]})) for one in written
    ]


def faults_and_clears(observations: Iterable[Observation]) -> Iterator[Fault | Clear]:
    """Yield the faults and clears among observations, with the faults inside health snapshots."""
    for observation in observations:
        if isinstance(observation, Snapshot):
            yield from observation.present
        elif isinstance(observation, Fault | Clear):
            yield observation


def held(observations: tuple[Observation, ...]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for one in faults_and_clears(observations):
        fault = load_catalog().classify(one) if isinstance(one, Fault) else None
        action = fault.action.value if fault and fault.action else "clear"
        found[one.code, component_key(one.component), action] += fault.count if fault else 1
    return found


def decoded(source: str, name: str) -> tuple[Observation, ...]:
    return registry.decode(source, (SAMPLES / name).read_bytes())
