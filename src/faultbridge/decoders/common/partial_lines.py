"""Joins the parts of a line that a Kubernetes container runtime (CRI) cut, because it was longer than 16 KiB.

Grammar: `TIME STREAM P TEXT` for each part but the last, then `TIME STREAM F TEXT`. The joined line has the time of its
first part. Source: Kubernetes `kuberuntime/logs`, containerd's `max_container_log_line_size`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PARTIAL = b" P "
"""In every text with a part of a line."""
_HEAD = rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) "
_PAIR = re.compile(rb"^(" + _HEAD + rb"(std(?:out|err)) )P ([^\n]*)\n" + _HEAD + rb"\2 ([FP])(?: |$)", re.MULTILINE)
_OPEN = re.compile(_HEAD + rb"std(?:out|err) P ")
_CRI = re.compile(_HEAD + rb"std(?:out|err) [FP] ")
_MAX_HELD = 1024 * 1024


def is_of_container(body: bytes) -> bool:
    """Return whether a body starts with a line of a container runtime (CRI)."""
    return _CRI.match(body) is not None


def joined_text(text: bytes) -> bytes:
    """Return a text of whole lines with the parts of each line joined; other text unchanged."""
    found = 1 if PARTIAL in text else 0
    while found:
        # Each pass joins every second part to the part before it.
        text, found = _PAIR.subn(rb"\1\4 \3", text)
    return text


def joined_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a log. In a CRI log, the parts of each line are joined, also parts in different pieces."""
    pieces = iter(pieces)
    held = next(pieces, b"")
    if not is_of_container(held):
        yield held
        yield from pieces
        return
    for piece in pieces:
        held += piece
        end = _end_of_lines(held)
        if end or len(held) > _MAX_HELD:
            end = end or len(held)
            yield joined_text(held[:end])
            held = held[end:]
    yield joined_text(held)


def _end_of_lines(text: bytes) -> int:
    """Return the position after the last line that is whole and is no part that the next line continues."""
    end = text.rfind(b"\n") + 1
    while end:
        start = text.rfind(b"\n", 0, end - 1) + 1
        if _OPEN.match(text, start) is None:
            break
        end = start
    return end
