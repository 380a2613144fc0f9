"""Sends stored records to the queue, up to ten in one call, with increasing pauses after failures.

AWS charges for calls. A record that is not urgent therefore waits for the next call (`records.Wait`). After a quarter
of the heartbeat interval, a call with new records also sends a heartbeat, so that few calls contain only a heartbeat.

A record that cannot be sent does not stop other records. The sender tries the record again later. The record is put
into quarantine when the queue permanently refuses the message of this record, or after three refusals while other
records are accepted. A bucket that refuses access counts as a refusal of a record only while the waiting records use
too much of the disk. New records are sent before postponed records. While a postponed record is sent again, new records
that are not due keep waiting.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from random import Random
from typing import Protocol

from faultbridge.node.agent.delivery.outbox import Outbox
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.host import AgentClock


class SendFailed(Exception):  # noqa: N818 - names the situation, which the network ends
    """The queue or the bucket did not accept a call. The call may succeed later."""


class AccessRefused(SendFailed):
    """The queue or the bucket refused a call, but not for its content, as without a permission."""


class RecordRefused(SendFailed):
    """The queue or the bucket refused a call because of the content of a record in the call."""


class Transport(Protocol):
    """Sends messages to the queue and objects to the bucket."""

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        """Send records; return the ids of the accepted and of the refused ones; raises SendFailed."""

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the bucket; raises RecordRefused, AccessRefused or another SendFailed."""


MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
MAX_ACCESS_BACKOFF_SECONDS = 900.0
"""Longest pause of a record whose bucket refuses access, which may last for weeks: each attempt sends the record."""

MAX_REFUSALS = 3


class Failure(Enum):
    """Why a record could not be sent: AWS refuses its content, or the call (ACCESS), or another failure."""

    REFUSAL = "refusal"
    ACCESS = "access"
    OTHER = "other"


def failure_of(error: SendFailed, *, fills_disk: bool = False) -> Failure:
    """Return why a record could not be sent; refused access is a REFUSAL if it `fills_disk`."""
    if isinstance(error, RecordRefused):
        return Failure.REFUSAL
    if isinstance(error, AccessRefused):
        return Failure.REFUSAL if fills_disk else Failure.ACCESS
    return Failure.OTHER


_LONGEST_PAUSES = {Failure.ACCESS: MAX_ACCESS_BACKOFF_SECONDS}


@dataclass(slots=True)
class _Record:
    retry_at: float
    tries: int
    refusals: int
    sent_before: int
    reason: str = ""


@dataclass(slots=True)
class PostponedRecords:
    """The postponed records of an outbox, by name. All times are seconds of a monotonic clock."""

    random: Random
    _records: dict[str, _Record] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of postponed records."""
        return len(self._records)

    def __contains__(self, name: str) -> bool:
        """Return whether a record is postponed."""
        return name in self._records

    @property
    def reason(self) -> str:
        """Return why one of the postponed records could not be sent; empty if no record is postponed."""
        return next((record.reason for record in self._records.values()), "")

    def due(self, now: float) -> set[str]:
        """Return the names of the records that may be sent again, because their pauses are over."""
        return {name for name, record in self._records.items() if record.retry_at <= now}

    def add(self, name: str, now: float, failure: Failure, sent: int, reason: str = "") -> bool:
        """Postpone a record that could not be sent. Returns True if the record must never be sent again.

        A record must never be sent again if AWS refuses it for at least the third time, and has accepted another record
        since the first failure of this record. Only a `REFUSAL` counts as such a refusal. `sent` is the number of
        records that the queue has accepted so far. `reason` is the error of this attempt.
        """
        record = self._records.setdefault(name, _Record(now, 0, 0, sent))
        record.reason = reason
        record.tries += 1
        record.refusals += failure is Failure.REFUSAL
        record.retry_at = now + pause_after(
            record.tries, self.random, _LONGEST_PAUSES.get(failure, MAX_BACKOFF_SECONDS)
        )
        return failure is Failure.REFUSAL and record.refusals >= MAX_REFUSALS and sent > record.sent_before

    def tries(self, name: str) -> int:
        """Return how often a postponed record could not be sent."""
        return self._records[name].tries

    def remove(self, *names: str) -> None:
        """Remove records that were sent, or that will not be sent again."""
        for name in names:
            self._records.pop(name, None)


def pause_after(tries: int, random: Random, max_seconds: float = MAX_BACKOFF_SECONDS) -> float:
    """Return a random pause of half to all of 2 s, which doubles with each failure up to `max_seconds`."""
    longest = min(MIN_BACKOFF_SECONDS * 2 ** min(tries, 10), max_seconds)
    return random.uniform(longest / 2, longest)


BATCH_RECORDS = 10
BATCH_BYTES = 250 * 1024
HEARTBEAT_BYTES = 4096
"""Room in a call for the heartbeat."""

SHARE_SECONDS = 15.0
"""Longest wait of probe output in which something changed, in seconds."""

HEARTBEAT_RETRY_SECONDS = 60.0
"""A heartbeat that was not accepted is replaced by a new one after this time."""

EARLY_HEARTBEAT = 0.25
"""When this share of the interval has passed, the next call with records also sends a heartbeat."""

REPORTED_TRIES = 8
"""After this number of failures, which takes two to three minutes, a record that is still postponed is reported."""

WAIT_SECONDS, SHARED_MOMENT_SECONDS = 1.0, 0.25

NamedRecord = tuple[str, OutgoingRecord]
"""A record with its name in the outbox."""


@dataclass(slots=True)
class Sender:
    """Sends the records of an outbox, and a new heartbeat at least every `heartbeat_seconds`.

    - A record that is not urgent waits up to `hold_seconds`.
    - If `new_heartbeat` is None, no heartbeat is sent. Heartbeats are never stored, because ingest would treat a late
      heartbeat as a wrong clock on the node.
    - `report` receives what happened, and why, when a record is put into quarantine or not sent for some minutes.
    - `last_error` is the reason of the last failure. A successful call empties it, or replaces it by the reason of a
      record that is still postponed.
    """

    outbox: Outbox
    transport: Transport
    clock: AgentClock
    new_heartbeat: Callable[[], OutgoingRecord] | None
    heartbeat_seconds: float = 60.0
    hold_seconds: float = SHARE_SECONDS
    random: random.Random = random.Random()  # noqa: RUF009, S311 - jitter, no secret
    report: Callable[[str, str], None] = lambda _kind, _reason: None
    sent: int = 0
    failures: int = 0
    last_error: str = ""
    _heartbeat_at: float = float("-inf")
    _backoff_until: float = float("-inf")
    _waiting_since: float | None = None
    _changed_since: float | None = None
    _postponed: PostponedRecords = field(init=False)

    def __post_init__(self) -> None:
        """Start with no postponed records: after a restart, each record is sent again at once."""
        self._postponed = PostponedRecords(self.random)

    def run(self, stopping: threading.Event, after_each: Callable[[], None] = lambda: None) -> None:
        """Send in rounds until `stopping` is set; after each round, call `after_each` and wait at most 1.25 s."""
        while not stopping.is_set():
            while self.send_due() and not stopping.is_set():
                pass
            after_each()
            self.outbox.new_records.wait(WAIT_SECONDS)
            self.outbox.new_records.clear()
            stopping.wait(SHARED_MOMENT_SECONDS)  # records of the next moment share the call

    def send_due(self) -> bool:
        """Send one batch if it is due; returns True if another may be. A failed batch is sent again later."""
        now = self.clock.monotonic()
        can_send = now >= self._backoff_until
        new_due, retries = can_send and self._is_due(now), self._postponed.due(now)
        heartbeats = self._due_heartbeats(now, early=new_due)
        if not can_send or not (heartbeats or new_due or retries):
            self._send_heartbeats(heartbeats, ())
            return False
        urgent, changed = self.outbox.urgent.is_set(), self.outbox.changed.is_set()
        self.outbox.urgent.clear()  # before the records are read: one that is stored from now on sets it again
        self.outbox.changed.clear()
        sends_new = new_due or heartbeats > 0
        batch = self._next_batch(BATCH_RECORDS - heartbeats, retries, sends_new=sends_new)
        finished = self.sent + self.outbox.quarantined
        ready = list(self._with_objects(batch))  # may take long; the time in a heartbeat must be that of its call
        self._send_heartbeats(heartbeats, ready)
        self.outbox.end_batch()
        if self._new_records > 0:
            for event, was_set in ((self.outbox.urgent, urgent), (self.outbox.changed, changed)):
                if was_set:
                    event.set()
        if not batch:
            return False
        if self.sent + self.outbox.quarantined > finished:
            if sends_new and len(batch) + heartbeats == BATCH_RECORDS:
                self._waiting_since = self._changed_since = None  # the others are newer
            return True
        self._backoff_until = now + pause_after(self.failures, self.random)
        return False

    @property
    def _new_records(self) -> int:
        return self.outbox.waiting - len(self._postponed)

    def _next_batch(self, max_records: int, retries: set[str], *, sends_new: bool) -> list[NamedRecord]:
        limits = max_records, BATCH_BYTES - HEARTBEAT_BYTES
        batch = self.outbox.next_batch(*limits, lambda name: name not in self._postponed) if sends_new else []
        if not batch and retries:
            batch = self.outbox.next_batch(*limits, retries.__contains__)
            if not batch:  # the outbox has none of these names now: a record in memory gets a new name on disk
                self._postponed.remove(*retries)
        return batch

    def _due_heartbeats(self, now: float, *, early: bool) -> int:
        interval = self.heartbeat_seconds * (EARLY_HEARTBEAT if early and self._new_records > 0 else 1)
        if self.new_heartbeat is None or now - self._heartbeat_at < interval:
            return 0
        self._heartbeat_at = now
        return 1

    def _send_heartbeats(self, number: int, records: Sequence[NamedRecord]) -> None:
        """Send records and, if `number` is 1, a heartbeat; if it is refused, a new one is due in a minute."""
        due = [("", self.new_heartbeat())] if self.new_heartbeat and number else []
        accepted = self._send([*due, *records])
        if any(heartbeat.record_id not in accepted for _, heartbeat in due):
            self._heartbeat_at += min(0.0, HEARTBEAT_RETRY_SECONDS - self.heartbeat_seconds)

    def flush(self) -> None:
        """Mark the stored records as urgent, so that `send_due` sends them before the agent ends."""
        self.outbox.urgent.set()

    def _is_due(self, now: float) -> bool:
        """Return whether the records that are not postponed must be sent now."""
        waiting = self._new_records > 0
        self._waiting_since = _since(self._waiting_since, now, waiting)
        self._changed_since = _since(self._changed_since, now, waiting and self.outbox.changed.is_set())
        return (
            self.outbox.urgent.is_set()
            or self._new_records >= BATCH_RECORDS
            or (self._waiting_since is not None and now - self._waiting_since >= self.hold_seconds)
            or (self._changed_since is not None and now - self._changed_since >= SHARE_SECONDS)
        )

    def _with_objects(self, batch: Sequence[NamedRecord]) -> Iterator[NamedRecord]:
        for name, record in batch:
            try:
                if record.object_key is not None:
                    self.transport.put_object(record.object_key, record.object_body)
            except SendFailed as error:
                # Records that wait for a permission must leave room on the disk for the records that can be sent.
                failure = failure_of(error, fills_disk=not self.outbox.has_room_for_probes)
                self._postpone(name, str(error), failure)
            else:
                yield name, record

    def _send(self, batch: Sequence[NamedRecord]) -> set[str]:
        """Send records in one call, and return the ids of the accepted records.

        If the queue refuses the content of a call or message with several records, each of these records is sent again
        in a separate call.
        """
        if not batch:
            return set()
        try:
            accepted, refused = self.transport.send_batch([record for _, record in batch])
        except RecordRefused as error:
            if len(batch) > 1:
                return set().union(*(self._send([one]) for one in batch))
            self._postpone(batch[0][0], str(error), Failure.REFUSAL)
            return set()
        except SendFailed as error:
            self.failures += 1
            self.last_error = str(error)
            return set()
        self.failures, self.last_error = 0, ""
        self.sent += len(accepted)
        for name, record in batch:
            if record.record_id in accepted:
                self._postponed.remove(name)
                self.outbox.remove([name])
            elif record.record_id in refused and len(batch) > 1:
                # alone: it may have shared a message with the refused record
                accepted = accepted | self._send([(name, record)])
            elif record.record_id in refused:
                self._quarantine(name, "the queue refuses its content")
            else:
                self._postpone(name, "the queue did not accept it", Failure.OTHER)
        self.last_error = self.last_error or self._postponed.reason
        return accepted

    def _postpone(self, name: str, reason: str, failure: Failure) -> None:
        self.last_error = reason
        if not name:
            return  # a heartbeat: the next one replaces it
        if self._postponed.add(name, self.clock.monotonic(), failure, self.sent, reason):
            self._quarantine(name, reason)
        elif failure is not Failure.REFUSAL and self._postponed.tries(name) == REPORTED_TRIES:
            self.report("a record cannot be sent yet and is sent again", reason)

    def _quarantine(self, name: str, reason: str) -> None:
        if not name:
            return
        self._postponed.remove(name)
        kept = self.outbox.quarantine(name, reason)
        self.report(f"a record cannot be sent and is {'kept on the node' if kept else 'lost'}", reason)


def _since(since: float | None, now: float, holds: bool) -> float | None:  # noqa: FBT001 - the condition itself
    """Return since when a condition is true; None if it is not. `since` is the previous result."""
    return (now if since is None else since) if holds else None


# Service clock: the time of the AWS services, which the `Date` header of their responses states.
#
# AWS refuses a signature whose time differs from the time of the service by more than 5 to 15 minutes, depending on the
# service. The clock of a node may differ by more.

TOLERANCE = timedelta(minutes=1)


@dataclass(slots=True)
class ServiceClock:
    """The clock of the host, corrected by its measured difference from the clock of the AWS services."""

    clock: AgentClock
    offset: timedelta = timedelta(0)

    def now(self) -> datetime:
        """Return the time of the host plus the stored offset from the AWS services."""
        return self.clock.now() + self.offset

    def correct(self, date: str | None) -> bool:
        """Correct the clock by a `Date` header that differs by more than 60 s; returns whether it did."""
        try:
            served = parsedate_to_datetime(date or "")
        except ValueError:
            return False
        served = served if served.tzinfo else served.replace(tzinfo=UTC)
        if abs(served - self.now()) <= TOLERANCE:
            return False
        self.offset = served - self.clock.now()
        return True


NOT_IN_TIME = "the time was not sufficient to send all records"


def send_until(deadline: float, sender: Sender) -> str | None:
    """Send the stored records until nothing more can be sent; start no batch after `deadline`.

    `deadline` is a time of the sender's monotonic clock, in seconds. Returns why a record or the heartbeat could not be
    sent, or None if no failure remains. Unsent records on disk stay there for the next start.
    """
    sender.flush()
    while sender.clock.monotonic() < deadline and sender.send_due():
        pass
    outbox = sender.outbox
    in_quarantine = outbox.refusal if outbox.quarantined else ""
    return sender.last_error or in_quarantine or (NOT_IN_TIME if outbox.waiting else None)
