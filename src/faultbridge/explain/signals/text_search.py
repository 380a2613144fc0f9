"""Finds the fixed texts of all log patterns in a piece of a log, with few searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultbridge.explain.signals.patterns import FRAGMENTS

MAX_LINE = 8192
EACH_END = 8
"""Number of lines with one pattern text that are always read at each end of a piece."""

_KEYS = (*FRAGMENTS, b"ailed", b"emory", b"cted", b"nnec", b"vaila", b"evic", b"RROR", b"lloc", b"xceed", b"not ")
_FEW = 64


class TextSearch:
    """Finds the fixed texts of patterns in the pieces of a log.

    Many of these texts share a short text such as `rror`. The shared text is searched for once, and the texts that
    contain it are compared only at its positions. If a piece contains a shared text too often, each text is searched
    for separately.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        """Store the texts to search for, and select a shared text for each, if there is one."""
        self._keys = {text: next((key for key in _KEYS if key in text), None) for text in texts}

    def positions(self, piece: bytes) -> _KeyPositions:
        """Return the positions of the shared texts in a piece, from which the full texts are found."""
        return _KeyPositions(piece, self._keys)


class _KeyPositions:
    """The positions of each shared text (a part of several pattern texts, such as `rror`) in one piece.

    If a shared text occurs more than 64 times, its positions are not stored, and `of` searches for each full text
    instead.
    """

    def __init__(self, piece: bytes, keys: dict[bytes, bytes | None]) -> None:
        self._piece, self._keys = piece, keys
        self._few = {key: _few(piece, key) for key in {*keys.values()} if key is not None}

    def of(self, text: bytes, limit: int) -> Iterator[int]:
        """Yield the position of `text` in each line that contains it.

        If more than `limit` lines contain the text, some lines in the middle of the piece may be skipped.
        """
        key = self._keys[text]
        few = None if key is None else self._few[key]
        if key is None or few is None:
            yield from lines_with(self._piece, text, limit)
            return
        offset, read_to = text.index(key), 0
        for found in few:
            start = found - offset
            if start >= read_to and self._piece.startswith(text, start):
                yield start
                end = self._piece.find(b"\n", start)
                read_to = min(end if end >= 0 else len(self._piece), start + MAX_LINE)


def _few(piece: bytes, key: bytes) -> list[int] | None:
    found: list[int] = []
    position = piece.find(key)
    while position >= 0:
        found.append(position)
        if len(found) > _FEW:
            return None
        position = piece.find(key, position + 1)
    return found


def lines_with(piece: bytes, text: bytes, limit: int) -> Iterator[int]:
    """Yield the position of `text` in each line of `piece` that contains it.

    If more than `limit` lines contain the text, only the first `limit - EACH_END` and the last `EACH_END` of these
    lines count.
    """
    position, number = piece.find(text), 0
    while position >= 0 and number < limit - EACH_END:
        yield position
        end = piece.find(b"\n", position)
        position = piece.find(text, min(end, position + MAX_LINE)) if end >= 0 else -1
        number += 1
    if position < 0:
        return
    last, found = len(piece), 0
    while found < EACH_END and (last := piece.rfind(text, position, last)) >= 0:
        yield last
        last = max(piece.rfind(b"\n", max(0, last - MAX_LINE), last), last - MAX_LINE, 0)
        found += 1
