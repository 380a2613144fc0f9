"""Deliver: each page at least once, its repetitions under the same key, and never none because the table is down.

A mark is written before a page is sent and again after: a crash in between sends it twice, with the same key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import from_text, to_milliseconds, to_text
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.ports import Clock, Pager, Table
from faultbridge.services.pager.bodies import message_of
from faultbridge.services.pager.page import PageState
from faultbridge.services.pager.rules import PageRule, rules_for
from faultbridge.services.pager.write import Known, write_page
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Condition, Equals, Item, Key, Path, Put, Update, Value

TOO_OLD = timedelta(days=16)
MARK_KEPT = timedelta(days=30)
SENDING, SENT = "sending", "sent"
BLIND = "The table did not answer: this page may repeat an earlier one, and details may be missing."


class Fate(StrEnum):
    """What became of one page that an event asked for."""

    SENT = "sent"
    REPEATED = "repeated"
    OVERTAKEN = "overtaken"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True)
class Delivered:
    """One page of an event: its key, what became of it, and whether that could be noted."""

    key: str
    state: PageState
    fate: Fate
    noted: bool = True


@dataclass(frozen=True, slots=True)
class Paging:
    """Turns events of the bus into pages; raises only when a page could not be sent."""

    table: Table
    pager: Pager
    clock: Clock

    def __call__(self, event: Mapping[str, Any]) -> tuple[Delivered, ...]:
        """Send every page that an event's detail asks for; raises Transient when the pager does not answer."""
        recorded = from_text(event["metadata"]["recorded_at"])
        if self.clock.now() - recorded > TOO_OLD:
            return tuple(Delivered(rule.key(event), rule.state, Fate.TOO_OLD) for rule in rules_for(event))
        return tuple(self._deliver(event, rule) for rule in rules_for(event))

    def _deliver(self, event: Mapping[str, Any], rule: PageRule) -> Delivered:
        key = rule.key(event)
        try:
            fate = self._begin(event, rule)
            known = self._known(event) if fate is None else Known()
        except (Transient, Misconfigured):
            fate, known = None, Known(note=BLIND)
        if fate is not None:
            return Delivered(key, rule.state, fate)
        message_id = self.pager.send(message_of(write_page(event, rule, known)))
        return Delivered(key, rule.state, Fate.SENT, noted=not known.note and self._finish(event, rule, message_id))

    def _begin(self, event: Mapping[str, Any], rule: PageRule) -> Fate | None:
        """Mark a page as being sent, unless it was sent already or its trouble went on since."""
        place = _place(event, rule)
        mark = self.table.get(place)
        known = _position(mark) if mark else (0, 0)
        present = _position(event["metadata"])
        if known > present:
            return Fate.OVERTAKEN
        if mark is not None and known == present and mark["state"] == SENT:
            return Fate.REPEATED
        try:
            self.table.write(Put(self._mark(place, event, rule), when=_unchanged(mark)))
        except Conflict:
            # The same event in two hands at once: whoever comes second sends too rather than not at all.
            return None
        return None

    def _mark(self, place: Key, event: Mapping[str, Any], rule: PageRule) -> Item:
        now = self.clock.now()
        epoch, sequence = _position(event["metadata"])
        attributes = {
            "state": SENDING,
            "said": rule.state.value,
            "epoch": epoch,
            "sequence": sequence,
            "event_id": event["metadata"]["event_id"],
            "expires_at": to_milliseconds(now + MARK_KEPT) // 1000,
        }
        return items.item(place, now, attributes)

    def _finish(self, event: Mapping[str, Any], rule: PageRule, message_id: str) -> bool:
        _, sequence = _position(event["metadata"])
        sent: dict[Path, Value] = {
            ("state",): SENT,
            ("message_id",): message_id,
            ("sent_at",): to_text(self.clock.now()),
        }
        try:
            self.table.write(Update(_place(event, rule), set=sent, when=Equals("sequence", sequence)))
        except (Transient, Misconfigured):
            # The page is out. Failing now would only send it again.
            return False
        return True

    def _known(self, event: Mapping[str, Any]) -> Known:
        metadata = event["metadata"]
        if metadata.get("node") is None:
            return Known()
        node = NodeKey(metadata["cluster"], metadata["node"])
        places = [keys.node_state(node), *([keys.case(metadata["case_id"])] if metadata.get("case_id") else [])]
        found = self.table.get_many(places)
        case = found.get(places[-1]) if len(places) > 1 else None
        return Known(items.read_case(case) if case else None, items.read_state(node, found.get(places[0])))


def _place(event: Mapping[str, Any], rule: PageRule) -> Key:
    owner, _, transition = rule.key(event).rpartition(":")
    return keys.page_mark(owner, transition)


def _position(of: Mapping[str, Any]) -> tuple[int, int]:
    return int(of["epoch"]), int(of["sequence"])


def _unchanged(mark: Item | None) -> Condition:
    return Absent() if mark is None else Equals("sequence", int(str(mark["sequence"])))
