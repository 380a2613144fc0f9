"""Keeps the signals of one file in bounded memory: equal signals within some minutes are one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime

from faultbridge.explain.signals.signal import Signal

MAX_SIGNALS = 4096
_BUCKET_SECONDS = 600


class EvidenceStore:
    """The newest signals of one file; a program that repeats one line takes the place of one signal."""

    def __init__(self) -> None:
        """Start without signals."""
        self._found: dict[Hashable, Signal] = {}

    def is_new(self, name: str, at: datetime | None, *, rank: int | None = None, part: str = "") -> bool:
        """Count a repeated signal. Return True for one that must be added."""
        key = _key(name, at, rank, part)
        known = self._found.get(key)
        if known is None:
            return True
        self._found[key] = replace(known, count=known.count + 1)
        return False

    def add(self, signal: Signal, part: str = "") -> None:
        """Add a signal. Beyond the limit the oldest is dropped: the end of a job is near the end of its log."""
        if len(self._found) >= MAX_SIGNALS:
            self._found.pop(next(iter(self._found)))
        self._found[_key(signal.name, signal.at, signal.rank, part)] = signal

    def signals(self) -> list[Signal]:
        """Return the signals in the order of the file."""
        return list(self._found.values())


def _key(name: str, at: datetime | None, rank: int | None, part: str) -> Hashable:
    return name, rank, part, int(at.timestamp()) // _BUCKET_SECONDS if at else None
