"""Reads or counts the kernel lines in a log of another source, such as a journal or joined files.

If jobs can write to that log, its kernel lines could be forged. They are then only counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.line import Item, Line
from faultbridge.decode.frames.prefix import unprefixed
from faultbridge.decode.frames.pretty_json import document_lines
from faultbridge.model.faults import Fault, Observation, faults_of
from faultbridge.model.values import replace

# The service writes to the same journal as the kernel, and no job writes to its log.
_READ = frozenset({"fabric-manager-log"})
# The records that no log may lose; a text that contains one and yields no fault was not understood.
RECORD = re.compile(r"Xid {0,16}\((?:PCI:)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")
_MARKS = (b"kernel: ", b"kernel[", b"_TRANSPORT", b",-;")
_MARK_PATTERN = re.compile(rb"\[ {0,6}\d{1,10}\.\d{1,9}\]|" + RECORD.pattern.encode())


def with_kernel_lines(source: str, decoded: Decoded, body: bytes, events: Sequence[Line], hints: Hints) -> Decoded:
    """Add to `decoded` the kernel lines of the input, which the decoder of `source` skipped.

    If no job can write to a log of this source, the observations in the kernel lines are added. Otherwise, the faults
    in these lines are only counted as not understood (`unparsed`), because a job may have forged them. Xid records that
    were not understood are counted too. The input is `events`, or `body` if there are no events.
    """
    if not _may_matter(body):
        return decoded
    items: Sequence[Item] = events or [*((document_lines(body) if source in _READ else None) or (text_of(body),))]
    texts = [item if isinstance(item, str) else item.text for item in items]
    has_records = any(RECORD.search(text) for text in texts)
    lines = [
        (line, None if isinstance(item, str) else item)
        for text, item in zip(texts, items, strict=True)
        for line in _kernel_lines(text)
    ]
    found = _decoded(lines, hints)
    unread = found.unparsed
    if source in _READ:
        decoded = replace(decoded, observations=(*decoded.observations, *found.observations))
    else:
        unread += sum(isinstance(one, Fault) for one in found.observations)
    if has_records:
        unread += len(_unread(texts, [line for line, _ in lines], decoded.observations))
    has_faults = any(faults_of(one) for one in decoded.observations)
    return replace(decoded, unparsed=decoded.unparsed + unread if has_faults else max(decoded.unparsed, unread))


def from_first_line(body: bytes, size: int) -> bytes:
    """Return up to `size` bytes of a body, starting at the first kernel line that may report a fault.

    Such a line has a phrase that the kernel decoder searches for. Without such a line, the result is empty. The caller
    determines the source of the body from the result, if other text comes before the kernel lines.
    """
    from faultbridge.decode.kernel.line_filter import pieces_of, whole_lines

    at = 0
    for piece in whole_lines(pieces_of(body)):
        line = next(_kernel_lines(text_of(piece)), None)
        if line is not None:
            start = at + max(piece.find(line.encode("utf-8", "replace")), 0)
            return body[start : start + size]
        at += len(piece)
    return b""


def _may_matter(body: bytes) -> bool:
    """Return whether a body may have Xid records or kernel lines; it is much faster than a search in the text."""
    return any(map(body.__contains__, _MARKS)) or _MARK_PATTERN.search(body) is not None


def _kernel_lines(text: str) -> Iterator[str]:
    from faultbridge.decode.kernel.line_filter import matching_lines

    for line in matching_lines(text):
        message = unprefixed(line)
        # A document can quote a line with the seconds since boot.
        is_bare = message.facility is None and message.uptime is not None and line.lstrip()[:1] != "{"
        if is_bare or message.facility == "kern":
            yield line


def _decoded(lines: Sequence[tuple[str, Line | None]], hints: Hints) -> Decoded:
    if not lines:
        return Decoded(())
    from faultbridge.decode.kernel import kernel_log

    items = (line if frame is None else replace(frame, text=line, at_of_store=False) for line, frame in lines)
    return kernel_log.decode_items(items, hints)


def _unread(texts: Sequence[str], lines: Sequence[str], observations: Sequence[Observation]) -> list[str]:
    """Return the Xid records of the input that were not understood.

    These are the Xid records in `texts` that are neither in `lines`, which the kernel decoder reads, nor in the
    evidence of an observed fault.
    """
    read = "\n".join(lines)
    known = "\n".join(fault.evidence for one in observations for fault in faults_of(one))
    records = [found for text in texts for found in RECORD.findall(text)]
    left = len(records) - len(RECORD.findall(read))
    return [record for record in records if record not in known][:left] if left > 0 else []
