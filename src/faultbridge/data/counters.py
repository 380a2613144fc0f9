"""Packaged thresholds: from which rise on a counter is a fault, in which time, and who says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "thresholds" / "counters.json"


@dataclass(frozen=True, slots=True)
class Threshold:
    """One counter of one source: more than `limit` of them, in `seconds` or at all, mean `code`.

    `bits` is the width at which a counter stays when it is full. `remote` marks what a healthy port counts when the
    other side of the wire fails.
    """

    counter: str
    code: str
    limit: int
    unit: str
    seconds: int | None = None
    bits: int | None = None
    remote: bool = False
    says: Mapping[str, str] = field(default_factory=dict)

    @property
    def full(self) -> int | None:
        """Return the value at which the counter stays, or None where it is wide enough."""
        return None if self.bits is None else 2**self.bits - 1


@cache
def thresholds() -> Mapping[tuple[str, str], Threshold]:
    """Return every threshold by source and counter."""
    found: dict[tuple[str, str], Threshold] = {}
    for row in json.loads(_FILE.read_bytes()):
        told = {name: value for name, value in row.items() if name not in {"sources", "counters"}}
        found |= {(source, one): Threshold(one, **told) for source in row["sources"] for one in row["counters"]}
    return found


@cache
def counters_of(source: str) -> frozenset[str]:
    """Return the counters of a source for which there is a threshold."""
    return frozenset(counter for of, counter in thresholds() if of == source)
