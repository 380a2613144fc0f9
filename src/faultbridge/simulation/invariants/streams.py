"""Streams: without gap, fork or break, and all of them on the bus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from faultbridge.domain.entries import chain
from faultbridge.domain.nodes import Head
from faultbridge.events.wire import body_of
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.simulation.workers import STACK
from faultbridge.storage import items


def _gaps(view: View) -> Iterator[str]:
    for pk, entries in view.streams.items():
        found = [int(str(item["sequence"])) for item in entries]
        if found != list(range(1, len(found) + 1)):
            yield f"{pk}: {found}"


def _breaks(view: View) -> Iterator[str]:
    for pk, entries in view.streams.items():
        node = entries[0]["node"]
        stream = STACK.stream(str(entries[0]["cluster"]), str(node) if node is not None else None)
        before, last = stream.genesis(1), None
        for item in entries:
            if chain(before, str(item["body"])) != item["hash"]:
                yield f"{pk} {item['sk']}: the hash"
            if json.loads(str(item["body"]))["metadata"]["previous_event_id"] != last:
                yield f"{pk} {item['sk']}: the previous event"
            before, last = str(item["hash"]), str(item["event_id"])


def _heads(view: View) -> Iterator[str]:
    heads = {f"NODE#{state.key.cluster}#{state.key.node}": state.head for state in view.nodes}
    for item in view.items:
        if item["sk"] == "STATE" and str(item["pk"]).startswith("CLUSTER#"):
            heads[str(item["pk"])] = items.read_cluster(str(item["pk"]).split("#")[1], item).head
    for pk, head in heads.items():
        last = view.streams.get(pk, [])[-1:]
        if last and _place(head) != (last[0]["sequence"], last[0]["hash"], last[0]["event_id"]):
            yield f"{pk}: {head.sequence}, the last entry is {last[0]['sequence']}"


def _place(head: Head) -> tuple[object, ...]:
    return head.sequence, head.hash, head.event_id


def _ids(view: View) -> Iterator[str]:
    counted = Counter(str(item["event_id"]) for entries in view.streams.values() for item in entries)
    yield from (event for event, number in counted.items() if number > 1)


def _unpublished(view: View) -> Iterator[str]:
    published = {event.event_id for event in view.ports.bus.taken}
    for entries in view.streams.values():
        for item in entries:
            if item["event_id"] not in published:
                yield f"{item['pk']} {item['sk']}"
            elif "gsi4pk" in item:
                yield f"{item['pk']} {item['sk']} is published and still marked as waiting"


def _invented(view: View) -> Iterator[str]:
    bodies = {str(item["event_id"]): str(item["body"]) for entries in view.streams.values() for item in entries}
    for event in view.ports.bus.taken:
        if body_of(event.detail) != bodies.get(event.event_id):
            yield event.event_id


INVARIANTS = (
    Invariant("a stream has no gap and no fork", _gaps),
    Invariant("each entry hashes and names the one before it", _breaks),
    Invariant("a head is the last entry of its stream", _heads),
    Invariant("event ids are unique", _ids),
    Invariant("every entry is on the bus, and none waits any more", _unpublished),
    Invariant("an event is exactly its entry", _invented),
)
