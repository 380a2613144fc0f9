"""Checks streams: no gap, no fork, no broken hash chain, correct heads, and publication of entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy

from faultbridge.model.events.wire import body_of
from faultbridge.model.nodes import Head
from faultbridge.model.storage import items
from faultbridge.record.verify import Verify
from tests.sim.fakes.seam import Seam
from tests.sim.invariants.arithmetic import event_id, genesis, sha256
from tests.sim.invariants.view import Invariant, SystemView
from tests.sim.workers import STACK


def _gaps(view: SystemView) -> Iterator[str]:
    for pk, entries in view.streams.items():
        found = [int(str(item["sequence"])) for item in entries]
        if found != list(range(1, len(found) + 1)):
            yield f"{pk}: {found}"


def _broken_chains(view: SystemView) -> Iterator[str]:
    for pk, entries in view.streams.items():
        cluster, node = str(entries[0]["cluster"]), entries[0]["node"]
        name = cluster if node is None else f"{cluster}/{node}"
        previous_hash, previous_id = genesis(STACK.id, 1, cluster, None if node is None else str(node)), None
        for number, (item, body) in enumerate(zip(entries, view.bodies[pk], strict=True), start=1):
            if sha256(previous_hash + str(item["body"])) != item["hash"]:
                yield f"{pk} {item['sk']}: wrong hash"
            if body["metadata"]["previous_event_id"] != previous_id:
                yield f"{pk} {item['sk']}: wrong previous event"
            if item["event_id"] != event_id(STACK.id, name, 1, number):
                yield f"{pk} {item['sk']}: wrong event id"
            previous_hash, previous_id = str(item["hash"]), str(item["event_id"])


def _wrong_evidence(view: SystemView) -> Iterator[str]:
    for pk, entries in view.streams.items():
        for item, body in zip(entries, view.bodies[pk], strict=True):
            stored, claimed = item.get("evidence"), body["data"].get("evidence_sha256")
            if (sha256(str(stored)) if stored else None) != claimed:
                yield f"{item['pk']} {item['sk']}: {claimed}"


def _wrong_heads(view: SystemView) -> Iterator[str]:
    heads = {f"NODE#{state.key.cluster}#{state.key.node}": state.head for state in view.nodes}
    for item in view.items:
        if item["sk"] == "STATE" and str(item["pk"]).startswith("CLUSTER#"):
            heads[str(item["pk"])] = items.read_cluster(str(item["pk"]).split("#")[1], item).head
    for pk, head in heads.items():
        last = view.streams.get(pk, [])[-1:]
        if last and _identity(head) != (last[0]["sequence"], last[0]["hash"], last[0]["event_id"]):
            yield f"{pk}: {head.sequence}, the last entry is {last[0]['sequence']}"


def _identity(head: Head) -> tuple[object, ...]:
    return head.sequence, head.hash, head.event_id


def _repeated_ids(view: SystemView) -> Iterator[str]:
    counts = Counter(str(item["event_id"]) for entries in view.streams.values() for item in entries)
    yield from (event for event, count in counts.items() if count > 1)


def _unpublished(view: SystemView) -> Iterator[str]:
    published = {event.event_id for event in view.ports.bus.accepted}
    for entries in view.streams.values():
        for item in entries:
            if item["event_id"] not in published:
                yield f"{item['pk']} {item['sk']}"
            elif "gsi4pk" in item:
                yield f"{item['pk']} {item['sk']} is published but still marked as unpublished"


def _different_events(view: SystemView) -> Iterator[str]:
    bodies = {str(item["event_id"]): str(item["body"]) for entries in view.streams.values() for item in entries}
    for event in view.ports.bus.accepted:
        if body_of(event.detail) != bodies.get(event.event_id):
            yield event.event_id


def _breaks(view: SystemView) -> Iterator[str]:
    table = copy(view.ports.table)
    table.seam = Seam()  # this check is not a call of the product
    for cluster in sorted({state.key.cluster for state in view.nodes}):
        for found in Verify(table, STACK)(cluster).breaks:
            yield f"{found.stream} {found.sequence}: {found.detail}"


INVARIANTS = (
    Invariant("a stream has no gap and no fork", _gaps),
    Invariant("each entry contains the hash and the id of the entry before it", _broken_chains),
    Invariant("an entry contains the hash of its evidence", _wrong_evidence),
    Invariant("the head of a stream is its last entry", _wrong_heads),
    Invariant("event ids are unique", _repeated_ids),
    Invariant("every entry is published and no longer marked as unpublished", _unpublished),
    Invariant("a published event equals its entry", _different_events),
    Invariant("`faultbridge verify` finds no break", _breaks),
)
