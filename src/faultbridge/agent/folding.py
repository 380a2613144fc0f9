"""Folding: equal lines within five seconds become one line that says how often it came."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

WINDOW = 5.0
"""Seconds in which an equal line is only counted."""

LINGER = 0.25
"""Seconds that a new line waits for the ones that mostly follow it."""

STORM_LINGER = 2.0
"""Seconds that it waits while batches leave one after the other."""

MAX_BYTES = 128 * 1024
MAX_KNOWN = 2000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log: what makes it equal to another, how it is written, how far the log is followed with it.

    `head` and `text` are the line's two parts; a fold keeps the head of the last one. `mark` is None where the log
    cannot say where it stands.
    """

    head: str
    text: str
    mark: Mapping[str, Any] | None = None

    @property
    def key(self) -> Hashable:
        """Return what equal lines share."""
        return self.text


class LineBatch:
    """Collects lines until it is time to send them; the times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._repeats: dict[Hashable, tuple[int, Line]] = {}
        self._known: dict[Hashable, float] = {}
        self._fresh_since: float | None = None
        self._repeats_since: float | None = None
        self._taken_at = float("-inf")
        self.mark: Mapping[str, Any] | None = None

    @property
    def full(self) -> bool:
        """Tell whether no more should be read before this is sent."""
        return self._size >= MAX_BYTES

    def add(self, line: Line, now: float) -> None:
        """Take a line: written out when it is new, counted when it was there less than five seconds ago."""
        if line.mark is not None:
            self.mark = line.mark
        key = line.key
        if now - self._known.get(key, float("-inf")) < WINDOW:
            count, _ = self._repeats.get(key, (0, line))
            self._repeats[key] = (count + 1, line)
            self._repeats_since = now if self._repeats_since is None else self._repeats_since
            return
        if len(self._known) >= MAX_KNOWN:
            self._known = {one: at for one, at in self._known.items() if now - at < WINDOW and one in self._repeats}
        self._known[key] = now
        self._write(line.head + line.text)
        self._fresh_since = now if self._fresh_since is None else self._fresh_since

    def due(self, now: float) -> bool:
        """Tell whether what is collected should leave now."""
        linger = STORM_LINGER if now - self._taken_at < WINDOW else LINGER
        waited = self._fresh_since is not None and now - self._fresh_since >= linger
        counted = self._repeats_since is not None and now - self._repeats_since >= WINDOW
        return self.full or waited or counted

    def take(self, now: float) -> bytes:
        """Hand over everything as text, repeats last; every mark up to `mark` is then in it."""
        for key, (count, line) in self._repeats.items():
            text = line.text if count == 1 else f"message repeated {count} times: [ {line.text} ]"
            self._write(line.head + text)
            self._known[key] = now
        body = ("\n".join(self._lines) + "\n").encode("utf-8", "replace") if self._lines else b""
        self._lines, self._size, self._repeats = [], 0, {}
        self._fresh_since = self._repeats_since = None
        self._taken_at = now
        return body

    def _write(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text) + 1
