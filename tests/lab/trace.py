"""Traces: reads published lists of the faults of a group of servers.

The format is that of the InfiniteHBD paper.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from faultbridge.model.errors import Rejected
from faultbridge.model.values import replace

HOUR, DAY = 3_600.0, 86_400.0
MAX_EVENTS = 200_000
MAX_PARTS = 100
START, END = "fault_start", "fault_end"


@dataclass(frozen=True, slots=True)
class TraceFault:
    """One fault of one server: its start and its duration until the repair, in seconds.

    `kind` is the class and the description of the fault in the trace.
    """

    server: str
    start: float
    repair: float
    kind: str


@dataclass(frozen=True, slots=True)
class Trace:
    """All faults of `servers` servers in `seconds` seconds, in the order of their starts.

    `servers` also counts the servers without a fault.
    """

    faults: tuple[TraceFault, ...]
    servers: int
    seconds: float

    def part(self, number: int, of: int) -> Trace:
        """Return one of `of` parts of equal duration; `number` counts the parts from 0.

        A fault belongs to the part in which it starts, and its start then counts from the start of the part. A number
        out of range raises `Rejected` (`no_such_part`).
        """
        if not 0 <= number < of:
            raise Rejected("no_such_part", f"part {number} of {of} does not exist; parts are 0 to {of - 1}")
        span = self.seconds / of
        begin = number * span
        inside = (
            one for one in self.faults if begin <= one.start < begin + span or (one.start == self.seconds == span)
        )
        return Trace(tuple(replace(one, start=one.start - begin) for one in inside), self.servers, span)

    def by_server(self) -> list[tuple[TraceFault, ...]]:
        """Return a tuple of faults for each server; it is empty for a server without a fault."""
        found: dict[str, list[TraceFault]] = defaultdict(list)
        for fault in self.faults:
            found[fault.server].append(fault)
        return [tuple(faults) for faults in found.values()] + [()] * (self.servers - len(found))

    def return_gaps(self, within: float) -> list[float]:
        """Return the times between the end of a fault and the next fault of the same server, in seconds.

        The gaps are sorted. Only gaps that are greater than 0 and at most `within` are returned.
        """
        gaps = (
            later.start - earlier.start - earlier.repair
            for faults in self.by_server()
            for earlier, later in pairwise(faults)
        )
        return sorted(gap for gap in gaps if 0 < gap <= within)


def read_trace(text: str, servers: int | None = None) -> Trace:
    """Parse a trace of faults, which is a JSON list of events.

    An event has `node_id`, `event_time` in days, `event_type` and `fault_type`. `servers` is the number of servers that
    were observed; by default, the number of servers with a fault. A fault without an end event lasts until the last
    event of the trace. An invalid trace raises `Rejected` with reason `bad_trace`.
    """
    try:
        events = json.loads(text)
        if not isinstance(events, list) or not events or len(events) > MAX_EVENTS:
            raise Rejected("bad_trace", f"a JSON list of 1 to {MAX_EVENTS} events is expected")
        last = max(_seconds(event) for event in events)
        faults = _pair_events(events, last)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Rejected("bad_trace", f"not a trace of faults: {type(error).__name__}: {error}") from error
    named = len({fault.server for fault in faults})
    if servers is not None and servers < named:
        raise Rejected("bad_trace", f"the trace names {named} servers, more than {servers}")
    return Trace(faults, servers or named, math.ceil(last / DAY) * DAY or DAY)


def read_part(text: str, servers: int | None, part: str | None) -> Trace:
    """Parse a trace and return one part of it, or the whole trace if `part` is None.

    `part` is a text such as `2/4`: the second of four parts of equal duration. A part that does not exist, or more than
    100 parts, raises `Rejected` (`no_such_part`). `servers` is the number of servers that were observed; by default,
    the number of servers with a fault.
    """
    trace = read_trace(text, servers)
    if part is None:
        return trace
    number, _, of = part.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 0 < int(number) <= int(of) <= MAX_PARTS):
        raise Rejected("no_such_part", f"not a part of a trace: {part}; write 1/4 for the first of four parts")
    return trace.part(int(number) - 1, int(of))


def _pair_events(events: Iterable[Mapping[str, Any]], last: float) -> tuple[TraceFault, ...]:
    """Match each start event with the next end event of the same fault on the same server.

    `last` is the time of the last event in seconds. A fault without an end event lasts until `last`. An end event
    without a start event, or an event of another type, raises `Rejected` (`bad_trace`).
    """
    waiting: dict[tuple[str, str], list[float]] = defaultdict(list)
    faults: list[TraceFault] = []
    for event in sorted(events, key=_seconds):
        fault_type = event["fault_type"]
        key = str(event["node_id"]), f"{fault_type['Class']}: {fault_type['Desc']}"
        if event["event_type"] == START:
            waiting[key].append(_seconds(event))
        elif event["event_type"] == END and waiting[key]:
            begun = waiting[key].pop(0)
            faults.append(TraceFault(key[0], begun, _seconds(event) - begun, key[1]))
        else:
            raise Rejected(
                "bad_trace", f"event without a start: {event['event_type']} of {key[0]} at {event['event_time']}"
            )
    faults += [TraceFault(server, at, last - at, kind) for (server, kind), open_ in waiting.items() for at in open_]
    return tuple(sorted(faults, key=lambda one: (one.start, one.server, one.kind)))


def _seconds(event: Mapping[str, Any]) -> float:
    at = float(event["event_time"]) * DAY
    if not 0 <= at < math.inf:
        raise ValueError(f"event_time: {event['event_time']}")
    return at
