"""Marks: what was said last under each key, so that a repetition says nothing new.

A mark is written before a page is sent and again after: a crash in between sends it twice, with the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from faultbridge.domain.times import from_text, to_milliseconds, to_text
from faultbridge.errors import Conflict
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import PageRule
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Condition, Equals, Item, Key, Path, Put, Update, Value, Write

MARK_KEPT = timedelta(days=30)
AGAIN_AFTER = timedelta(minutes=1)
"""The earliest time after which Lambda gives a function an event again that it failed on."""
MAX_TRIES = 5
SENDING, SENT = "sending", "sent"


class Fate(StrEnum):
    """What became of one page that an event asked for.

    `withheld` waits for the next summary, `quiet` ends what only a summary spoke of, `known` says what is said already.
    """

    SENT = "sent"
    WITHHELD = "withheld"
    QUIET = "quiet"
    KNOWN = "known"
    REPEATED = "repeated"
    OVERTAKEN = "overtaken"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True)
class Begun:
    """How the sending of a page began: `fate` when there is nothing to send.

    After an earlier try was cut short nobody can say whether it reached somebody: then the page is `maybe_told`. So is
    a trouble that may have come before, while the table was away, and whose end came meanwhile and was told to nobody.
    """

    fate: Fate | None = None
    maybe_told: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """Reads and writes the marks; each stands under its trouble's key."""

    table: Table
    clock: Clock

    def begin(self, event: Mapping[str, Any], rule: PageRule) -> Begun:
        """Mark a page as being sent, or say why there is nothing to send."""
        place, present = _place(event, rule), _position(event["metadata"])
        for _ in range(MAX_TRIES):
            mark = self.table.get(place)
            known = _position(mark) if mark else (0, 0)
            if known > present:
                return Begun(Fate.OVERTAKEN, self._owes_its_end(mark, event, rule))
            if mark is not None and known == present and mark["state"] == SENT:
                return Begun(Fate.REPEATED)
            news, maybe_told = _is_news(mark, rule.state), _maybe_told(mark, rule.state)
            try:
                attributes = self._mark(place, event, rule, SENDING if news else SENT)
                more = {"maybe_told": maybe_told, "unannounced": mark is None and not news}
                self.table.write(Put(attributes | more, when=_unchanged(mark)))
            except Conflict:
                continue
            return Begun(None if news else Fate.KNOWN, maybe_told)
        # Many hands on one key at once: rather one page too many than none.
        return Begun(maybe_told=True)

    def settle(self, event: Mapping[str, Any], rule: PageRule, message_id: str, beside: Sequence[Write]) -> None:
        """Mark a page as done, together with other writes; raises Conflict when its trouble went on meanwhile."""
        _, sequence = _position(event["metadata"])
        done: dict[Path, Value] = {
            ("state",): SENT,
            ("message_id",): message_id,
            ("sent_at",): to_text(self.clock.now()),
        }
        mark = Update(_place(event, rule), set=done, when=Equals("sequence", sequence))
        self.table.transact([mark, *beside])

    def end_told(self, event: Mapping[str, Any], rule: PageRule) -> None:
        """Note that the end of a trouble was told after all, so that it is told once."""
        done: dict[Path, Value] = {("unannounced",): False, ("maybe_told",): True}
        self.table.write(Update(_place(event, rule), set=done))

    def _owes_its_end(self, mark: Item | None, event: Mapping[str, Any], rule: PageRule) -> bool:
        if mark is None or rule.state is not PageState.TRIGGERED or not mark.get("unannounced"):
            return False
        return self.clock.now() - from_text(event["metadata"]["recorded_at"]) >= AGAIN_AFTER

    def is_over(self, key: str) -> bool:
        """Tell whether the last word under a key was that its trouble is over."""
        mark = self.table.get(_place_of(key))
        return mark is not None and mark["said"] == PageState.RESOLVED

    def _mark(self, place: Key, event: Mapping[str, Any], rule: PageRule, state: str) -> Item:
        now = self.clock.now()
        epoch, sequence = _position(event["metadata"])
        attributes = {
            "state": state,
            "said": rule.state.value,
            "epoch": epoch,
            "sequence": sequence,
            "event_id": event["metadata"]["event_id"],
            "expires_at": to_milliseconds(now + MARK_KEPT) // 1000,
        }
        return items.item(place, now, attributes)


def _place(event: Mapping[str, Any], rule: PageRule) -> Key:
    return _place_of(rule.key(event))


def _place_of(key: str) -> Key:
    owner, _, transition = key.rpartition(":")
    return keys.page_mark(owner, transition)


def _is_news(mark: Item | None, state: PageState) -> bool:
    """Tell whether a page says something: an end does of what was told, a trigger of what is not told already."""
    if mark is None:
        return state is PageState.TRIGGERED
    # What is being sent may have been cut short, so it is said again.
    return mark["state"] == SENDING or mark["said"] != state.value


def _maybe_told(mark: Item | None, state: PageState) -> bool:
    """Tell whether a try was cut short, of this page or of the beginning that this end belongs to."""
    if mark is None:
        return False
    return mark["state"] == SENDING or (state is PageState.RESOLVED and bool(mark.get("maybe_told")))


def _position(of: Mapping[str, Any]) -> tuple[int, int]:
    return int(of["epoch"]), int(of["sequence"])


def _unchanged(mark: Item | None) -> Condition:
    return Absent() if mark is None else Equals("sequence", int(str(mark["sequence"])))
