"""Page deduplication: stores the last state sent for each page, so that repeated events send no page.

A record of the page is written to the table before the page is sent, and again after the page is sent. If a crash
occurs between the two writes, the page is sent again under the same key. The key shows the paging service that it is
the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from faultbridge.model.errors import Conflict
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Condition, Equals, Item, Key, Path, Put, Update, Value, Write
from faultbridge.model.times import to_milliseconds, to_text
from faultbridge.record.ports.table import Clock, Table
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import PagedEvent, PageRule

RECORD_TTL = timedelta(days=30)
MAX_TRIES = 5
SENDING, SENT = "sending", "sent"


class PageOutcome(StrEnum):
    """What the pager did with one page that an event triggers or resolves.

    - `sent`: the page was sent.
    - `withheld`: the hourly limit was reached; the next summary lists the page.
    - `postponed`: the cluster is under maintenance; the page is sent after its end.
    - `silenced`: a silence holds the page; it is sent after the end of the silence if it is still open.
    - `quiet`: the page resolves a page that was never sent, because that page was withheld, postponed or silenced.
    - `known`: the page already has this state, or it would resolve a page that was never triggered.
    - `repeated`: this event was processed before.
    - `overtaken`: an event that was recorded after this event has already been processed.
    - `too_old`: the event is too old to send a page.
    """

    SENT = "sent"
    WITHHELD = "withheld"
    POSTPONED = "postponed"
    SILENCED = "silenced"
    QUIET = "quiet"
    KNOWN = "known"
    REPEATED = "repeated"
    OVERTAKEN = "overtaken"
    TOO_OLD = "too_old"


class SendStart(Struct, frozen=True):
    """The result of `NotificationLog.start`: whether a page must be sent.

    `outcome` is None if the page must be sent, else the reason not to send it. `possibly_sent` is True if an earlier
    try was interrupted, so that a recipient may have received the page.
    """

    outcome: PageOutcome | None = None
    possibly_sent: bool = False


class NotificationLog(Struct, frozen=True):
    """Reads and writes one record for each page key: the last processed event and the state of its page."""

    table: Table
    clock: Clock

    def start(self, event: PagedEvent, rule: PageRule) -> SendStart:
        """Record that a page is being sent, and return whether it must be sent.

        If the page must not be sent, `outcome` in the result is the reason, else None. After five conflicts with other
        writers, the page is sent without a record.
        """
        key, position = _record_key(rule.record_key(event)), (event.metadata.epoch, event.metadata.sequence)
        for _ in range(MAX_TRIES):
            record = self.table.get(key)
            recorded = (int(str(record["epoch"])), int(str(record["sequence"]))) if record else (0, 0)
            if recorded > position:
                return SendStart(PageOutcome.OVERTAKEN)
            if record is not None and recorded == position and record["state"] == SENT:
                return SendStart(PageOutcome.REPEATED)
            is_new, possibly_sent = _is_new(record, rule), record is not None and record["state"] == SENDING
            new_record = self._new_record(key, event, rule, SENDING if is_new else SENT)
            try:
                self.table.write(Put(new_record | {"possibly_sent": possibly_sent}, when=_unchanged(record)))
            except Conflict:
                continue
            return SendStart(None if is_new else PageOutcome.KNOWN, possibly_sent)
        log_cause("page sent without a record", reason="too many concurrent writers", page_key=rule.key(event))
        # One page too many is better than a missing page.
        return SendStart(possibly_sent=True)

    def finish(self, event: PagedEvent, rule: PageRule, message_id: str, other_writes: Sequence[Write]) -> None:
        """Record that a page was sent or that it needs no message now, in one transaction with `other_writes`.

        `message_id` is the message id of the sent page, or empty if the page was not sent. Raises Conflict if another
        event was recorded for the page since `start`, or if a condition of `other_writes` is not met.
        """
        sent: dict[Path, Value] = {
            ("state",): SENT,
            ("message_id",): message_id,
            ("sent_at",): to_text(self.clock.now()),
        }
        # After a restore, the event of another epoch can have the same sequence.
        unchanged = Equals("event_id", event.metadata.event_id)
        update = Update(_record_key(rule.record_key(event)), set=sent, when=unchanged)
        self.table.transact([update, *other_writes])

    def was_sent(self, page_key: str) -> bool:
        """Return whether the last event recorded for a page key sent the page as a message of its own.

        The result is False if the page was only listed in a summary, was postponed, or already had the state that the
        event requires. The result is also False if no event is recorded.
        """
        record = self.table.get(_record_key(page_key))
        return record is not None and bool(record.get("message_id"))

    def is_resolved(self, page_key: str) -> bool:
        """Return whether the last recorded state of a page is `resolved`."""
        record = self.table.get(_record_key(page_key))
        return record is not None and record["page_state"] == PageState.RESOLVED

    def _new_record(self, key: Key, event: PagedEvent, rule: PageRule, state: str) -> Item:
        now = self.clock.now()
        attributes = {
            "state": state,
            "page_state": rule.state.value,
            "epoch": event.metadata.epoch,
            "sequence": event.metadata.sequence,
            "event_id": event.metadata.event_id,
            "expires_at": to_milliseconds(now + RECORD_TTL) // 1000,
        }
        return items.item(key, now, attributes)


def _record_key(page_key: str) -> Key:
    owner, _, kind = page_key.rpartition(":")
    return keys.page_notification(owner, kind)


def _is_new(record: Item | None, rule: PageRule) -> bool:
    """Return whether a page must be sent.

    The page must be sent if its state differs from the recorded state, or if the recorded send was interrupted. A rule
    with `repeated` sends each trigger. Without a record, only a trigger is sent, because a page that was never
    triggered needs no resolve.
    """
    triggers = rule.state is PageState.TRIGGERED
    if record is None or (triggers and rule.repeated):
        return triggers
    # An interrupted send is repeated.
    return record["state"] == SENDING or record["page_state"] != rule.state.value


def _unchanged(record: Item | None) -> Condition:
    return Absent() if record is None else Equals("event_id", str(record["event_id"]))
