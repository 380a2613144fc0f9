"""Keeps the signals of one file in limited memory: equal signals are stored once and counted."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime

from faultbridge.explain.signals.signal import Signal

MAX_SIGNALS = 4096
_BUCKET_SECONDS = 600


class EvidenceStore:
    """The last 4,096 different signals that were added, for example from one file.

    A signal that occurs again in the same ten-minute interval is not stored again; its count increases.
    """

    def __init__(self) -> None:
        """Start with no stored signals."""
        self._found: dict[Hashable, Signal] = {}
        self._counts: dict[Hashable, int] = {}
        self._last: dict[Hashable, tuple[datetime | None, int | None]] = {}

    def is_new(
        self, name: str, at: datetime | None, *, rank: int | None = None, part: str = "", line: int | None = None
    ) -> bool:
        """Return True if the store has no equal signal yet; the caller must then `add` the signal.

        If the store has an equal signal, count the repetition, store `at` and `line` as the time and line of the last
        repetition, and return False.

        Two signals are equal if they have the same name, rank and part, and times in the same ten-minute interval or no
        times. `part` separates signals with the same name, for example by node and device.
        """
        key = _key(name, at, rank, part)
        if key not in self._found:
            return True
        self._counts[key] += 1
        self._last[key] = at, line
        return False

    def add(self, signal: Signal, part: str = "") -> None:
        """Add a signal. If the store is full, the signal that was added first is dropped.

        The last signals are kept, because the end of a job is near the end of its log.
        """
        if len(self._found) >= MAX_SIGNALS:
            oldest = next(iter(self._found))
            del self._found[oldest], self._counts[oldest]
            self._last.pop(oldest, None)
        key = _key(signal.name, signal.at, signal.rank, part)
        self._found[key], self._counts[key] = signal, signal.count

    def signals(self) -> list[Signal]:
        """Return the stored signals in the order of `add`.

        Each signal has its count, and the time and the line of its last repetition.
        """
        found: list[Signal] = []
        for key, one in self._found.items():
            last_at, last_line = self._last.get(key, (one.at, one.line))
            found.append(replace(one, count=self._counts[key], last_at=last_at, last_line=last_line))
        return found


def _key(name: str, at: datetime | None, rank: int | None, part: str) -> Hashable:
    return name, rank, part, int(at.timestamp()) // _BUCKET_SECONDS if at else None
