"""Converts journal entries with one field a line (`journalctl -o export`, `-o verbose`) to one JSON object a line.

Grammar: `FIELD=value` lines; an entry ends at an empty line, or at the head of the next one, `Tue 2026-02-03
04:05:06.123456 UTC [s=...]`. Other lines are unchanged. Source: systemd's journal export format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

_HEAD = re.compile(
    rb"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?) (UTC|[+-]\d\d:?\d\d|\w{1,5}) \[s=[0-9a-f]"
)
_FIRST = re.compile(rb"\s{0,16}(?:__[A-Z_]{1,40}=|" + _HEAD.pattern + rb")")
_FIELD = re.compile(rb"(?: {4})?([A-Z_][A-Z0-9_]{0,63})=(.*)$")
_BINARY = re.compile(rb"[A-Z_][A-Z0-9_]{1,63}")
"""A name alone: `text_fields` found no value of that length, so a program may have written the lines that follow."""
_KEPT = frozenset(
    b"MESSAGE _TRANSPORT SYSLOG_IDENTIFIER SYSLOG_FACILITY _HOSTNAME _BOOT_ID __REALTIME_TIMESTAMP".split()
)


def journal_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of whole lines unchanged, or with each entry of a journal as one object.

    Every other line of an entry is replaced by an empty one, so that the lines keep their numbers.
    """
    pieces = iter(pieces)
    first = next(pieces, b"")
    if _FIRST.match(first) is None:
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
    """Collect a field in `entry`; yield the entry before this line if it is complete, and any other line."""
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
