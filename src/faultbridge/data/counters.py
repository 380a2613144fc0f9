"""Packaged thresholds: the increase of a counter that is a fault, its time window and its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "thresholds" / "counters.json"


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of one counter: a rise above `limit` is a fault with the code `code`.

    With `seconds`, only the rise within that time counts. `bits` is the width of a counter that stops at its maximum.
    `remote` marks a counter that a healthy port increases when the other end of the link fails.
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
        """Return the maximum at which the counter stops; None if it does not."""
        return None if self.bits is None else 2**self.bits - 1


@cache
def thresholds() -> Mapping[tuple[str, str], Threshold]:
    """Return every threshold by source and counter."""
    found: dict[tuple[str, str], Threshold] = {}
    for row in json.loads(_FILE.read_bytes()):
        fields = {name: value for name, value in row.items() if name not in {"sources", "counters"}}
        found |= {
            (source, counter): Threshold(counter, **fields) for source in row["sources"] for counter in row["counters"]
        }
    return found


@cache
def counters_of(source: str) -> frozenset[str]:
    """Return the counters of a source that have a threshold."""
    return frozenset(counter for counter_source, counter in thresholds() if counter_source == source)
