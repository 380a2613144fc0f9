"""Publish: entries from the table to the bus, at least once each; an event's id tells a repetition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.errors import Conflict, Transient
from faultbridge.events.hyperpod import Home, mirror
from faultbridge.events.wire import detail_of, stub_of
from faultbridge.ports import BusEvent, EventBus, FailedEvent, Table
from faultbridge.storage.writes import Key, Present, Update

STACK_ARN_PARTS = 6
MARKS_AT_ONCE = 100
_DONE = (("gsi4pk",), ("gsi4sk",))


@dataclass(frozen=True, slots=True)
class Publish:
    """Sends entries and takes away the marks that say they wait; a mark that stays is found by the sweep.

    Of the clusters in `mirrored` copies are sent in the shape of SageMaker HyperPod's events.
    """

    table: Table
    bus: EventBus
    stack_id: str
    mirrored: frozenset[str] = frozenset()

    def __call__(self, entries: Sequence[Mapping[str, Any]]) -> int:
        """Publish entry items; returns how many the bus took, raises Transient when some must be tried again."""
        waiting = {str(entry["event_id"]): entry for entry in entries}
        refused = self._put(waiting, stub=False)
        hopeless = {refusal.event_id: waiting[refusal.event_id] for refusal in refused if refusal.permanent}
        refused = [refusal for refusal in refused if not refusal.permanent]
        if hopeless:
            # Nobody who counts a stream may miss a number: what the bus never takes keeps its place as a stub.
            refused += self._put(hopeless, stub=True)
        refused += self._mirror(waiting)
        left = {refusal.event_id for refusal in refused}
        self._mark_done([_place(entry) for event_id, entry in waiting.items() if event_id not in left])
        if left:
            first = refused[0]
            raise Transient(f"{len(left)} of {len(waiting)} events were not taken by the bus: {first.reason}")
        return len(waiting)

    def from_table(self, found: Iterable[Key]) -> int:
        """Publish entries that the stream did not bring, by their keys."""
        items = self.table.get_many(found)
        waiting = [item for item in items.values() if "gsi4pk" in item]
        return self(waiting) if waiting else 0

    def _put(self, entries: Mapping[str, Mapping[str, Any]], *, stub: bool) -> list[FailedEvent]:
        return list(self.bus.put([self._event(entry, stub=stub) for entry in entries.values()]))

    def _mirror(self, entries: Mapping[str, Mapping[str, Any]]) -> list[FailedEvent]:
        """Send the copies; what the bus never takes is left out, for the original is there."""
        if not self.mirrored:
            return []
        home = Home.of(self.stack_id)
        copies = [
            BusEvent(event_id, copy.detail_type, copy.detail, copy.resources)
            for event_id, entry in entries.items()
            if entry.get("cluster") in self.mirrored
            for copy in mirror(json.loads(str(entry["body"])), home)
        ]
        return [refusal for refusal in (self.bus.put(copies) if copies else ()) if not refusal.permanent]

    def _mark_done(self, published: Sequence[Key]) -> None:
        """Take the marks away, many with one call; one by one where that fails."""
        for start in range(0, len(published), MARKS_AT_ONCE):
            marks = [Update(key, remove=_DONE, when=Present()) for key in published[start : start + MARKS_AT_ONCE]]
            try:
                self.table.transact(marks)
            except Conflict:
                for mark in marks:
                    self._mark_one_done(mark)

    def _mark_one_done(self, mark: Update) -> None:
        try:
            self.table.write(mark)
        except Conflict:
            return  # the entry is archived and gone: nothing waits there any more

    def _event(self, entry: Mapping[str, Any], *, stub: bool) -> BusEvent:
        body = str(entry["body"])
        return BusEvent(
            event_id=str(entry["event_id"]),
            detail_type=str(entry["type"]),
            detail=stub_of(body) if stub else detail_of(body, str(entry.get("evidence") or "")),
            resources=resources(self.stack_id, entry.get("instance_id")),
        )


def _place(entry: Mapping[str, Any]) -> Key:
    return Key(str(entry["pk"]), str(entry["sk"]))


def resources(stack_id: str, instance_id: object) -> tuple[str, ...]:
    """Name the instance that an event is about as AWS does, in the account and region of the stack."""
    parts = stack_id.split(":")
    if not instance_id or len(parts) < STACK_ARN_PARTS or parts[0] != "arn":
        return ()
    _, partition, _, region, account, *_ = parts
    return (f"arn:{partition}:ec2:{region}:{account}:instance/{instance_id}",)
