"""Captures and what they hold, as written down beside them."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from faultbridge.data import catalogue
from faultbridge.decoders import registry
from faultbridge.decoders.base import judgements
from faultbridge.domain.conditions import component_key
from faultbridge.domain.faults import Fault, Observation

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"


@dataclass(frozen=True)
class Capture:
    """One file, the source that it is of, and how often it holds each (code, component, action)."""

    file: str
    source: str
    held: Counter[tuple[str, str, str]]


def expected(listing: Path) -> list[Capture]:
    written = tomllib.loads(listing.read_text(encoding="utf-8"))["capture"]
    return [
        Capture(one["file"], one["source"], Counter({(c, p, a): n for c, p, a, n in one["faults"]})) for one in written
    ]


def held(observations: tuple[Observation, ...]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for told in judgements(observations):
        fault = catalogue().classify(told) if isinstance(told, Fault) else None
        action = fault.action.value if fault and fault.action else "clear"
        found[told.code, component_key(told.component), action] += fault.count if fault else 1
    return found


def decoded(source: str, name: str) -> tuple[Observation, ...]:
    return registry.decode(source, (SAMPLES / name).read_bytes())
