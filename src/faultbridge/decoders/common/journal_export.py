"""Rewrites the binary fields of `journalctl -o export` as lines of text, before NUL bytes are replaced.

Grammar: a field whose value has a line end or a control character is `NAME`, a line end, the length of the value as 8
bytes, little-endian, the value, and a line end. Source: systemd's journal export format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_VALUE = 16 * 1024 * 1024
_MAX_TEXT = 64 * 1024
_LENGTH = 8
_EXPORT = re.compile(rb"\s{0,16}__[A-Z_]{1,40}=")
_HEAD = 64
_NAME = re.compile(rb"^([A-Z_][A-Z0-9_]{0,63})\n", re.MULTILINE)
_KEPT = b"MESSAGE"
_CONTROL = bytes(set(range(32)) - set(b"\t\x1b"))
_TEXT = bytes.maketrans(_CONTROL, b" " * len(_CONTROL))
# A field that no reader uses, one for each line end of a value, so that the lines after it keep their numbers.
_FILLER = b"_=\n"


def text_fields(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a journal with each binary `MESSAGE` on one line and no other binary value; other input unchanged.

    After a value whose length is not that of the data, the input is unchanged: a reader must not trust what follows.
    """
    rest = _Buffer(pieces)
    rest.fill(_HEAD)
    is_aligned = _EXPORT.match(rest.data) is not None
    while is_aligned:
        found = _NAME.search(rest.data, rest.at)
        if found is None:
            yield rest.taken(rest.data.rfind(b"\n") + 1)
            if not rest.read_more():
                break
            continue
        value = _value(rest, found)
        is_aligned = value is not None
        if value is not None:
            yield rest.taken(found.start())
            rest.at = found.end() + _LENGTH + len(value) + 1
            text = value[:_MAX_TEXT].translate(_TEXT) if found[1] == _KEPT else b""
            yield found[1] + b"=" + text + b"\n" + _FILLER * (rest.data.count(b"\n", found.end(), rest.at))
    yield rest.taken(len(rest.data))
    yield from rest.pieces


def _value(rest: _Buffer, name: re.Match[bytes]) -> bytes | None:
    """Return the value after the name of a field; None if the data does not have the form of a binary field."""
    start = name.end() + _LENGTH
    rest.fill(start)
    size = int.from_bytes(rest.data[name.end() : start], "little")
    if size > MAX_VALUE or not rest.fill(start + size + 1) or rest.data[start + size] != ord("\n"):
        return None
    return rest.data[start : start + size]


class _Buffer:
    """The part of the input that is read but not yet yielded; `at` is the position of the next byte to yield."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)
        # A body that is one piece is not copied.
        self.data = bytes(next(self.pieces, b""))
        self.at = 0

    def fill(self, size: int) -> bool:
        """Read until `data` has a size; return whether the input has that much."""
        parts, length = [self.data], len(self.data)
        while length < size and (piece := next(self.pieces, None)) is not None:
            parts.append(bytes(piece))
            length += len(piece)
        self.data = b"".join(parts) if len(parts) > 1 else self.data
        return length >= size

    def read_more(self) -> bool:
        """Drop what was yielded and read another piece; return whether there is one."""
        self.data, self.at = self.data[self.at :], 0
        return self.fill(len(self.data) + 1)

    def taken(self, end: int) -> bytes:
        """Return the data from `at` to `end`, and continue there."""
        start, self.at = self.at, max(end, self.at)
        return self.data[start : self.at]
