"""Decodes one record, also if it is wrapped, and counts what the decoder did not understand.

A record can be a CloudWatch Logs record, or lines that a container runtime or a collector wrapped. Each wrapped line
then has its own time. An observation gets this time if the line itself contains none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from faultbridge.decode.frames.decoder import LINE_SOURCES, Decoded, Decoder, Hints
from faultbridge.decode.frames.journal import text_fields, text_of_fields
from faultbridge.decode.frames.partial_lines import PART_MARKS, is_of_container, joined_parts, joined_text
from faultbridge.decode.frames.wrapped_lines import LogEvent, log_events, wrapped_events
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import ELLIPSIS, Clear, CounterSample, Fault, Observation, Snapshot
from faultbridge.model.values import replace

# Decodes several log events. An observation without a time or node gets that of its log event.
#
# The events come from a CloudWatch Logs record, or from lines that a collector wrapped.

Read = Callable[[bytes, Hints], Decoded]
# After this many faults whose evidence no event contains, evidence is not searched for: the decoder does not quote.
_MAX_MISSES = 64


def of_events(read: Read, recognize: Callable[[bytes], bool], events: Sequence[LogEvent], hints: Hints) -> Decoded:
    """Decode log events: each event separately, or all of them as one text.

    `read` decodes one text. `recognize` returns whether a text is a complete record.

    - If every event is a complete record, each event is decoded separately.
    - Otherwise, the events are joined and decoded as one text.
    - If `read` rejects the joined text, and at least one event is a complete record, each event is decoded separately.
      If no event is a complete record, `Rejected` is raised.
    """
    filled = [event for event in events if event.message.strip()]
    if not filled:
        return Decoded(())
    whole = [recognize(_body(event)) for event in filled]
    if not all(whole):
        try:
            found = read(b"\n".join(map(_body, filled)), hints)
        except Rejected:
            if not any(whole):
                raise
        else:
            places = _EventFinder(read, hints, filled, whole)
            return replace(found, observations=tuple(_filled(one, places.of(one)) for one in found.observations))
    parts = [_of_event(read, event, hints) for event in filled]
    return Decoded(
        tuple(observation for part in parts for observation in part.observations), sum(part.unparsed for part in parts)
    )


def _body(event: LogEvent) -> bytes:
    return event.message.encode("utf-8", "replace")


def _of_event(read: Read, event: LogEvent, hints: Hints) -> Decoded:
    try:
        found = read(_body(event), replace(hints, received_at=event.at or hints.received_at))
    except Rejected:
        return Decoded((), 1)
    return replace(found, observations=tuple(_filled(one, event) for one in found.observations))


class _EventFinder:
    """Finds the log event that an observation comes from, after several events were decoded as one text.

    The finder searches the events for the evidence of a fault or clear. If this finds no event, the finder decodes each
    event that is a complete record separately, and searches the results for an observation with the same `_key`.
    """

    def __init__(self, read: Read, hints: Hints, events: Sequence[LogEvent], whole: Sequence[bool]) -> None:
        self._read, self._hints = read, hints
        self._events, self._whole = events, whole
        self._text = "\n".join(event.message for event in events)
        self._ends = list(accumulate(len(event.message) + 1 for event in events))
        self._next: dict[str, int] = {}
        self._misses = 0

    def of(self, one: Observation) -> LogEvent:
        """Return the event that an observation comes from.

        If no event is found, the last event is returned for a counter sample, and the first event for any other
        observation.
        """
        default = self._events[-1 if isinstance(one, CounterSample) else 0]
        return self._by_evidence(one) or self._by_decoding(one) or default

    def _by_evidence(self, one: Observation) -> LogEvent | None:
        mark = one.evidence.partition("\n")[0].removesuffix(ELLIPSIS) if isinstance(one, Fault | Clear) else ""
        if not mark or self._misses >= _MAX_MISSES:
            return None
        # A repeated text belongs to a later event.
        place = self._text.find(mark, self._next.get(mark, 0))
        place = place if place >= 0 else self._text.find(mark)
        if place < 0:
            self._misses += 1
            return None
        self._next[mark] = place + len(mark)
        return self._events[bisect_right(self._ends, place)]

    def _by_decoding(self, one: Observation) -> LogEvent | None:
        events = self._alone.get(_key(one), [])
        # A repeated observation belongs to a later event.
        return events.pop(0) if len(events) > 1 else next(iter(events), None)

    @cached_property
    def _alone(self) -> dict[str, list[LogEvent]]:
        found: dict[str, list[LogEvent]] = {}
        for event, is_whole in zip(self._events, self._whole, strict=True):
            for one in _of_event(self._read, event, self._hints).observations if is_whole else ():
                found.setdefault(_key(one), []).append(event)
        return found


def _key(one: Observation) -> str:
    """Return a key that is equal for two observations of the same type, component, code and message.

    Time and node are not part of the key: an observation of the joined text may get them from its log event later.
    """
    if isinstance(one, Snapshot):
        return repr((one.part, sorted(one.covers), one.devices, [_key(fault) for fault in one.present]))
    said = one.values if isinstance(one, CounterSample) else (one.code, one.message)
    return repr((type(one), one.component, said))


def _filled(one: Observation, event: LogEvent) -> Observation:
    return _with(one, event.at, event.node)


def _with(one: Observation, at: datetime | None, node: str | None) -> Observation:
    if isinstance(one, Snapshot):
        present = tuple(
            replace(fault, observed_at=fault.observed_at or at, node=fault.node or node) for fault in one.present
        )
        one = replace(one, present=present)
    return replace(one, observed_at=one.observed_at or at, node=one.node or node)


# These read envelopes themselves: a log across several events, and the instance in the name of a log stream.
_READ_ENVELOPES = frozenset({"kernel-log", "hyperpod-agent-log"})
# The records that no log may lose; a text that contains one and yields no fault was not understood.
_RECORD = re.compile(rb"Xid {0,16}\((?:PCI:)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")
_NULS = re.compile(rb"\0+")
_TEXT_BYTES = bytes(set(range(0x20, 0x100)) | {0x09, 0x0A, 0x0D, 0x1B})
_UTF_16 = frozenset({b"\xff\xfe", b"\xfe\xff"})
_SAMPLE = 4096
_MAX_CONTROL_SHARE = 20


def read(decoder: Decoder, body: bytes, hints: Hints) -> Decoded:
    """Decode the body of a raw record into faults, clears, health snapshots and counter samples.

    If the body is an envelope of CloudWatch Logs or of a log collector, the log lines in it are decoded. Kernel lines
    in a body of another source are decoded or counted too (`lines_of_kernel`).
    """
    if decoder.name in _READ_ENVELOPES:
        return _of_body(decoder, body, hints)
    from faultbridge.decode.lines_of_kernel import with_kernel_lines

    events = log_events(body)
    found = _of_body(decoder, body, hints) if events is None else _of_envelope(decoder, events, hints)
    return with_kernel_lines(decoder.name, found, body, events or (), hints)


def _of_body(decoder: Decoder, body: bytes, hints: Hints) -> Decoded:
    if decoder.name not in LINE_SOURCES and is_of_container(body):
        # Many decoders find a document behind any prefix, but only the container runtime states its time.
        for events in wrapped_events(body):
            with suppress(Rejected):
                found = _of_events(decoder, events, hints)
                if found.observations:
                    return found
    try:
        return checked(decoder, body, _decoded(decoder, body, hints))
    except Rejected as rejected:
        for events in wrapped_events(body):
            with suppress(Rejected):
                return _of_events(decoder, events, hints)
        # No unwrapped version can be decoded either, so the first rejection is the useful reason.
        raise rejected from None


def _of_envelope(decoder: Decoder, events: Sequence[LogEvent], hints: Hints) -> Decoded:
    """Decode the log events of an envelope, which is a CloudWatch Logs record.

    If the decoder understands nothing, the lines that a collector wrapped in the events are decoded instead.
    """
    found, rejected = Decoded(()), None
    try:
        found = _of_events(decoder, events, hints)
    except Rejected as error:
        rejected = error
    if rejected is None and (found.observations or not found.unparsed):
        return found
    for lines in wrapped_events(_joined(events)):
        received = [event.at for event in events] if len(lines) == len(events) else [events[0].at] * len(lines)
        timed = [replace(line, at=line.at or at) for line, at in zip(lines, received, strict=True)]
        with suppress(Rejected):
            inner = _of_events(decoder, timed, hints)
            if inner.observations:
                return inner
    if rejected is not None:
        raise rejected
    return found


def inner_texts(body: bytes) -> Iterator[bytes]:
    """Yield the texts inside an envelope: events of a CloudWatch Logs record, lines of a log shipper.

    A log shipper puts each log line into a JSON object. Such objects may be in the body itself or in the events.
    """
    events = log_events(body)
    if events is not None:
        body = _joined(events)
        yield body
    yield from map(_joined, wrapped_events(body))


def _joined(events: Sequence[LogEvent]) -> bytes:
    return "\n".join(event.message for event in events).encode("utf-8", "replace")


def checked(decoder: Decoder, body: bytes, decoded: Decoded) -> Decoded:
    """Return the result of a decoder, with `unparsed` set if the decoder may have missed a fault.

    The first case that applies determines `unparsed`:

    - A result that has a fault, or in which the decoder itself set `unparsed`, is unchanged.
    - If the decoder reads envelopes (`_READ_ENVELOPES`) and the body has Xid records, `unparsed` is their number.
    - If the result is empty, although healthy input of this format always gives observations, `unparsed` is 1.
    - Otherwise `unparsed` is 0.
    """
    if decoded.unparsed or any(map(_holds_fault, decoded.observations)):
        return decoded
    # The records of the kernel in other sources are counted when the whole body has been read.
    records = len(_RECORD.findall(body)) if decoder.name in _READ_ENVELOPES and b"Xid" in body else 0
    is_empty = not decoded.observations and not decoder.can_be_silent
    return replace(decoded, unparsed=records or int(is_empty))


def _holds_fault(observation: Observation) -> bool:
    return isinstance(observation, Fault) or (isinstance(observation, Snapshot) and bool(observation.present))


def _decoded(decoder: Decoder, body: bytes, hints: Hints) -> Decoded:
    found = decoder.decode(body, hints)
    return found if isinstance(found, Decoded) else Decoded(found)


def _of_events(decoder: Decoder, events: Sequence[LogEvent], hints: Hints) -> Decoded:
    def read_one(body: bytes, hints: Hints) -> Decoded:
        return checked(decoder, body, _decoded(decoder, body, hints))

    return of_events(read_one, decoder.recognize, events, hints)


def is_binary(body: bytes) -> bool:
    """Return True if a body has too many control characters to be text; NUL bytes do not count."""
    if body[:2] in _UTF_16:
        return False
    sample = body[:_SAMPLE].replace(b"\0", b"") or body.replace(b"\0", b"")[:_SAMPLE]
    return len(sample.translate(None, _TEXT_BYTES)) * _MAX_CONTROL_SHARE >= len(sample)


class TextCleaner:
    """Prepares the text of a body: joins parts of split lines, and removes binary fields and NUL bytes.

    A crash of the host leaves runs of NUL bytes in a log. Each run is replaced by a line end, and the bytes are
    counted. A body in UTF-16 is converted to UTF-8.
    """

    def __init__(self) -> None:
        self._skipped = 0

    def clean(self, body: bytes) -> bytes:
        """Return a body as text without NUL bytes.

        Raises `Rejected` for a body with NUL bytes that is not text.
        """
        text = text_of_fields(body)
        return self._without_nuls(joined_text(text) if any(map(text.__contains__, PART_MARKS)) else text)

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield each piece of a body as text without NUL bytes.

        Raises `Rejected` for a piece with NUL bytes that is not text.
        """
        return map(self._without_nuls, joined_parts(text_fields(pieces)))

    def _without_nuls(self, body: bytes) -> bytes:
        if body[:2] in _UTF_16:
            body = body.decode("utf-16", "replace").encode()
        if b"\0" not in body:
            return body
        if is_binary(body):
            raise Rejected("binary", "the input is not text; decompress or convert it first")
        self._skipped += body.count(b"\0")
        return _NULS.sub(b"\n", body)

    def noted(self, decoded: Decoded) -> Decoded:
        """Return a result with a note about the number of NUL bytes that were skipped, if there were any."""
        if not self._skipped:
            return decoded
        return replace(decoded, notes=(*decoded.notes, f"{self._skipped} NUL bytes were skipped"))
