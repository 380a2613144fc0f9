"""Frame of Loki: streams with labels, each with rows of a time in nanoseconds and a line (query and push API)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.collector import host_in
from faultbridge.decode.frames.line import Line, lines_in


def _stream(stream: Mapping[str, Any]) -> Iterator[Line]:
    labels, rows = stream["stream"], stream.get("values")
    node = host_in(labels) if isinstance(labels, Mapping) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) > 1:
            metadata = row[2] if len(row) > 2 and isinstance(row[2], Mapping) else {}  # noqa: PLR2004 - structured metadata is third
            at = instant(row[0]) if isinstance(row[0], str) else None
            yield from lines_in(row[1], at, host_in(metadata) or node)


READERS = {"stream": _stream}
