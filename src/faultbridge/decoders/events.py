"""Decodes several log events. An observation without a time or node gets that of its log event.

The events come from a CloudWatch Logs record, or from lines that a collector wrapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from faultbridge.decoders.common.decoder import Decoded, Hints
from faultbridge.decoders.common.spread_documents import LogEvent
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import ELLIPSIS, Clear, CounterSample, Fault, Observation, Snapshot
from faultbridge.errors import Rejected

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
