"""Converts journalctl output with one field per line (`-o export`, `-o verbose`) for the decoders.

`text_fields` rewrites binary fields as lines of text. It runs before NUL bytes are replaced. `journal_lines` then
converts each entry to a line with one JSON object.

Grammar: `FIELD=value` lines. An entry ends at an empty line, or at the first line of the next entry, such as `Tue
2026-02-03 04:05:06.123456 UTC [s=...]`. Other lines are unchanged. A field whose value has a line end or a control
character is binary: `NAME`, a line end, the length of the value (8 bytes, little-endian), the value, and a line end.
Source: systemd's journal export format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from faultbridge.decode.frames.values import lazy_pattern

MAX_VALUE = 16 * 1024 * 1024
_MAX_TEXT = 64 * 1024
_LENGTH = 8
_EXPORT = lazy_pattern(rb"\s{0,16}__[A-Z_]{1,40}=")
_START_BYTES = 64
_NAME = lazy_pattern(rb"^([A-Z_][A-Z0-9_]{0,63})\n", re.MULTILINE)
_KEPT_BINARY = b"MESSAGE"
_CONTROL = bytes(set(range(32)) - set(b"\t\x1b"))
_TEXT = bytes.maketrans(_CONTROL, b" " * len(_CONTROL))
# A field that no reader uses, one for each line end of a value, so that the lines after it keep their numbers.
_FILLER = b"_=\n"

_HEAD = lazy_pattern(
    rb"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?) (UTC|[+-]\d\d:?\d\d|\w{1,5}) \[s=[0-9a-f]"
)
_FIRST = lazy_pattern(rb"\s{0,16}(?:__[A-Z_]{1,40}=|" + _HEAD.pattern + rb")")
_FIELD = lazy_pattern(rb"(?: {4})?([A-Z_][A-Z0-9_]{0,63})=(.*)$")
_BINARY = lazy_pattern(rb"[A-Z_][A-Z0-9_]{1,63}")
"""A line with only a field name: its binary value was not converted, so later lines may be forged."""
_KEPT = frozenset(
    b"MESSAGE _TRANSPORT SYSLOG_IDENTIFIER SYSLOG_FACILITY _HOSTNAME _BOOT_ID __REALTIME_TIMESTAMP".split()
)


def text_fields(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a journal with each binary `MESSAGE` as one line of text, without other binary values.

    A message is cut to 64 KiB. Input of another format is unchanged. If the stated length of a value does not match the
    data, the rest of the input is also unchanged. A program may have forged fields in that rest, so `journal_lines`
    marks none of its lines as lines of the kernel.
    """
    rest = _Buffer(pieces)
    rest.fill(_START_BYTES)
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
            text = value[:_MAX_TEXT].translate(_TEXT) if found[1] == _KEPT_BINARY else b""
            yield found[1] + b"=" + text + b"\n" + _FILLER * (rest.data.count(b"\n", found.end(), rest.at))
    yield rest.taken(len(rest.data))
    yield from rest.pieces


def _value(rest: _Buffer, name: re.Match[bytes]) -> bytes | None:
    start = name.end() + _LENGTH
    rest.fill(start)
    size = int.from_bytes(rest.data[name.end() : start], "little")
    if size > MAX_VALUE or not rest.fill(start + size + 1) or rest.data[start + size] != ord("\n"):
        return None
    return rest.data[start : start + size]


class _Buffer:
    """Buffers the input between reading and yielding."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)
        # A body that is one piece is not copied.
        self.data = bytes(next(self.pieces, b""))
        self.at = 0

    def fill(self, size: int) -> bool:
        """Read until `data` has `size` bytes. Returns False if the input is shorter."""
        parts, length = [self.data], len(self.data)
        while length < size and (piece := next(self.pieces, None)) is not None:
            parts.append(bytes(piece))
            length += len(piece)
        self.data = b"".join(parts) if len(parts) > 1 else self.data
        return length >= size

    def read_more(self) -> bool:
        """Drop the bytes before `at`, and read the next piece. Returns False at the end of the input."""
        self.data, self.at = self.data[self.at :], 0
        return self.fill(len(self.data) + 1)

    def taken(self, end: int) -> bytes:
        start, self.at = self.at, max(end, self.at)
        return self.data[start : self.at]


def is_journal(body: bytes) -> bool:
    """Return whether a body starts as a systemd journal with one field per line."""
    return _FIRST.match(body) is not None


def journal_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Convert each entry of a systemd journal that has a `MESSAGE` to one line with a JSON object.

    Input of another format is yielded unchanged. Each piece must end at the end of a line. The other lines of an entry
    become empty lines, so that line numbers stay valid. An indented line that continues a value becomes a JSON object
    of its own.
    """
    pieces = iter(pieces)
    first = next(pieces, b"")
    if not is_journal(first):
        yield from chain([first], pieces)
        return
    entry: dict[str, str] = {}
    is_proven = True
    for piece in chain([first], pieces):
        lines: list[bytes] = []
        for line in piece.removesuffix(b"\n").split(b"\n"):
            is_proven = is_proven and _BINARY.fullmatch(line) is None
            lines.append(b"".join(_converted(line.rstrip(b"\r"), entry, is_proven=is_proven)))
        yield b"\n".join(lines) + b"\n"
    yield _taken(entry)


def _converted(line: bytes, entry: dict[str, str], *, is_proven: bool) -> Iterator[bytes]:
    """Convert one line of a journal, and yield the output lines that are complete. `entry` is updated.

    `is_proven` is False after a binary field that `text_fields` did not convert: any program may have written the lines
    after it. Then no line is marked as a line of the kernel, and each line without a field counts as the continuation
    of a value.
    """
    field, head = _FIELD.match(line), _HEAD.match(line)
    is_next = not line.strip() or head is not None or (field is not None and field[1].decode() in entry)
    if is_next and entry:
        yield _taken(entry)
    if head is not None:
        day, clock, zone = (part.decode() for part in head.groups())
        # The abbreviation of any other time zone is ambiguous.
        entry |= {"timestamp": f"{day}T{clock}{zone.replace('UTC', 'Z')}"} if zone == "UTC" or zone[0] in "+-" else {}
    elif field is not None and field[1] == b"_TRANSPORT" and not is_proven:
        entry |= {"_TRANSPORT": "stdout"}
    elif field is not None:
        entry |= {field[1].decode(): field[2].decode("utf-8", "replace")} if field[1] in _KEPT else {}
    elif line.strip() and (not is_proven or (entry and line.startswith(b" " * 5))):
        # The line is a part of a value, which any program may have written.
        text = line.decode("utf-8", "replace").strip()
        yield json.dumps({**entry, "_TRANSPORT": "stdout", "MESSAGE": text}).encode()
    elif line.strip():
        yield line


def _taken(entry: dict[str, str]) -> bytes:
    taken = json.dumps(entry).encode() if "MESSAGE" in entry else b""
    entry.clear()
    return taken
