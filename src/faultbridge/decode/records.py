"""Decodes one record, also if its lines are in frames, and counts what the decoder did not understand.

A record can be a CloudWatch Logs record, or lines that a container runtime or a collector wrapped. An observation gets
the time and the node of its line if the text itself states none. A decoder of lines gets each line with these facts
(`Decoder.decode_lines`). Any other decoder gets documents: each wrapped line separately, or all of them as one text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, compress

from faultbridge.decode.frames.chain import lines_of, versions
from faultbridge.decode.frames.container import is_of_container
from faultbridge.decode.frames.decoder import Decoded, Decoder, Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.line import Item, Line
from faultbridge.decode.frames.prefix import unprefixed
from faultbridge.decode.frames.pretty_json import document_lines
from faultbridge.decode.frames.stores import events_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import ELLIPSIS, Clear, CounterSample, Fault, Observation, Snapshot, faults_of
from faultbridge.model.values import replace

# These read envelopes themselves: a log across several events, and a document within one event.
_READ_ENVELOPES = frozenset({"kernel-log", "hyperpod-agent-log"})
# After this many faults whose evidence no line contains, evidence is not searched for: the decoder does not quote.
_MAX_MISSES = 64


def read(decoder: Decoder, body: bytes, hints: Hints) -> Decoded:
    """Decode the body of a raw record into faults, clears, health snapshots and counter samples.

    Kernel lines in a body of another source are decoded or counted too.
    """
    if decoder.name in _READ_ENVELOPES:
        return _of_body(decoder, body, hints)
    events = events_of(body)
    if decoder.decode_lines is not None:
        found = checked(decoder, body, decoder.decode_lines(lines_of(body), hints))
    else:
        found = _of_body(decoder, body, hints, events)
    return with_kernel_lines(decoder.name, found, body, events or (), hints)


def _of_body(decoder: Decoder, body: bytes, hints: Hints, events: Sequence[Line] | None = None) -> Decoded:
    """Decode a body or the events of its envelope; if that gives nothing, the lines in the frames of the body."""
    if is_of_container(body) and decoder.name not in _READ_ENVELOPES:
        # Many decoders find a document behind any prefix, but only the container runtime states its time.
        found = next((found for found in _of_versions(decoder, body, hints) if found.observations), None)
        if found is not None:
            return found
    try:
        found = _decoded(decoder, body, hints) if events is None else of_lines(decoder, events, hints)
    except Rejected as rejected:
        inner = list(_of_versions(decoder, body, hints))
        found = next((one for one in inner if one.observations), None) or (inner[0] if inner and not events else None)
        if found is None:
            # No unwrapped version can be decoded either, so the first rejection is the useful reason.
            raise rejected from None
        return found
    if events is None or found.observations or not found.unparsed:
        return found
    return next((one for one in _of_versions(decoder, body, hints) if one.observations), found)


def _of_versions(decoder: Decoder, body: bytes, hints: Hints) -> Iterator[Decoded]:
    for lines in versions(body):
        with suppress(Rejected):
            yield of_lines(decoder, lines, hints)


def of_lines(decoder: Decoder, lines: Sequence[Line], hints: Hints) -> Decoded:
    """Decode lines or events: each of them separately, or all of them as one text.

    - If every line is a complete record, each line is decoded separately.
    - Otherwise, the lines are joined and decoded as one text.
    - If the decoder rejects the joined text, and at least one line is a complete record, each line is decoded
      separately. If no line is a complete record, `Rejected` is raised.
    """
    filled = [line for line in lines if line.text.strip()]
    if not filled:
        return Decoded(())
    whole = [decoder.recognize(_body(line)) for line in filled]
    if not all(whole):
        try:
            found = _decoded(decoder, b"\n".join(map(_body, filled)), hints)
        except Rejected:
            if not any(whole):
                raise
        else:
            places = _LineFinder(filled, whole)
            return replace(found, observations=tuple(_filled(one, places.of(one)) for one in found.observations))
    parts = [_of_line(decoder, line, hints) for line in filled]
    return Decoded(
        tuple(observation for part in parts for observation in part.observations), sum(part.unparsed for part in parts)
    )


def _body(line: Line) -> bytes:
    return line.text.encode("utf-8", "replace")


def _of_line(decoder: Decoder, line: Line, hints: Hints) -> Decoded:
    try:
        found = _decoded(decoder, _body(line), replace(hints, received_at=line.at or hints.received_at))
    except Rejected:
        return Decoded((), 1)
    return replace(found, observations=tuple(_filled(one, line) for one in found.observations))


class _LineFinder:
    """Finds the line that an observation comes from by its evidence, after several lines were decoded as one text.

    Without evidence, it is the last document for a counter sample, and the first one for any other observation.
    """

    def __init__(self, lines: Sequence[Line], whole: Sequence[bool]) -> None:
        self._lines = lines
        self._documents = list(compress(lines, whole)) or lines
        self._text = "\n".join(line.text for line in lines)
        self._ends = list(accumulate(len(line.text) + 1 for line in lines))
        self._next: dict[str, int] = {}
        self._misses = 0

    def of(self, one: Observation) -> Line:
        """Return the line of an observation."""
        mark = one.evidence.partition("\n")[0].removesuffix(ELLIPSIS) if isinstance(one, Fault | Clear) else ""
        place = -1
        if mark and self._misses < _MAX_MISSES:
            # A repeated text belongs to a later line.
            place = self._text.find(mark, self._next.get(mark, 0))
            place = place if place >= 0 else self._text.find(mark)
            self._misses += place < 0
        if place < 0:
            return self._documents[-1 if isinstance(one, CounterSample) else 0]
        self._next[mark] = place + len(mark)
        return self._lines[bisect_right(self._ends, place)]


def _filled(one: Observation, line: Line) -> Observation:
    if isinstance(one, Snapshot):
        present = tuple(
            replace(fault, observed_at=fault.observed_at or line.at, node=fault.node or line.node)
            for fault in one.present
        )
        one = replace(one, present=present)
    return replace(one, observed_at=one.observed_at or line.at, node=one.node or line.node)


def checked(decoder: Decoder, body: bytes, decoded: Decoded) -> Decoded:
    """Return the result of a decoder, with `unparsed` set if the decoder may have missed a fault.

    The first case that applies determines `unparsed`:

    - A result that has a fault, or in which the decoder itself set `unparsed`, is unchanged.
    - If the decoder reads envelopes (`_READ_ENVELOPES`) and the body has Xid records, `unparsed` is their number.
    - If the result is empty, although healthy input of this format always gives observations, `unparsed` is 1.
    - Otherwise `unparsed` is 0.
    """
    if decoded.unparsed or any(map(faults_of, decoded.observations)):
        return decoded
    # The records of the kernel in other sources are counted when the whole body has been read.
    records = len(RECORD.findall(text_of(body))) if decoder.name in _READ_ENVELOPES and b"Xid" in body else 0
    is_empty = not decoded.observations and not decoder.can_be_silent
    return replace(decoded, unparsed=records or int(is_empty))


def _decoded(decoder: Decoder, body: bytes, hints: Hints) -> Decoded:
    found = decoder.decode(body, hints)
    return checked(decoder, body, found if isinstance(found, Decoded) else Decoded(found))


# Reads or counts the kernel lines in a log of another source, such as a journal or joined files.
#
# If jobs can write to that log, its kernel lines could be forged. They are then only counted.

# The service writes to the same journal as the kernel, and no job writes to its log.
_READ = frozenset({"fabric-manager-log"})
# The records that no log may lose; a text that contains one and yields no fault was not understood.
RECORD = re.compile(r"Xid {0,16}\((?:PCI:)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")
_STAMP, _RECORD = re.compile(rb"\[ {0,6}\d{1,10}\.\d{1,9}\]"), re.compile(RECORD.pattern.encode())


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
    found = _of_kernel(lines, hints)
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
    # The search for one character is much faster than that for a text, and that for a text than that for a pattern.
    return (
        (b":" in body and b"kernel: " in body)
        or (b"_" in body and b"_TRANSPORT" in body)
        or (b";" in body and b",-;" in body)
        or (b"[" in body and (b"kernel[" in body or _STAMP.search(body) is not None))
        or (b"X" in body and b"Xid" in body and _RECORD.search(body) is not None)
    )


def _kernel_lines(text: str) -> Iterator[str]:
    from faultbridge.decode.kernel.line_filter import matching_lines

    for line in matching_lines(text):
        message = unprefixed(line)
        # A document can quote a line with the seconds since boot.
        is_bare = message.facility is None and message.uptime is not None and line.lstrip()[:1] != "{"
        if is_bare or message.facility == "kern":
            yield line


def _of_kernel(lines: Sequence[tuple[str, Line | None]], hints: Hints) -> Decoded:
    if not lines:
        return Decoded(())
    from faultbridge.decode.kernel import kernel_log

    items = (line if frame is None else replace(frame, text=line, at_of_store=False) for line, frame in lines)
    return kernel_log.decode_items(items, hints)


def _unread(texts: Sequence[str], lines: Sequence[str], observations: Sequence[Observation]) -> list[str]:
    """Return the Xid records of the input that were not understood."""
    read = "\n".join(lines)
    known = "\n".join(fault.evidence for one in observations for fault in faults_of(one))
    records = [found for text in texts for found in RECORD.findall(text)]
    left = len(records) - len(RECORD.findall(read))
    return [record for record in records if record not in known][:left] if left > 0 else []
