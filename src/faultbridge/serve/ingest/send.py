"""Send: puts raw records on the queue, audits their delivery, and moves dead letters back to the queue.

Long logs are split into pieces. A body that is too large for a message is stored in the object store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.decide.normalize.mask_secrets import mask
from faultbridge.decode.data import sources_with
from faultbridge.model import names
from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.records import Outcome
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import Message, encode_message, fits, raw_key
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import Receipts, ReceivedMessage, RecordQueue
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.ports.table import Clock
from faultbridge.serve.ingest.outcomes import SENT, outcomes_in, sent_lines

MAX_PIECE_BYTES = 180 * 1024
MAX_BATCH = 10


@dataclass(frozen=True, slots=True)
class RawInput:
    """Raw bytes that one source reports about one node, to be sent as one or more records."""

    source: str
    cluster: str
    body: bytes
    node: str | None = None
    instance_id: str | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True)
class SendResult:
    """The ids of the records that the queue accepted and refused, and whether the receipts were written."""

    accepted: tuple[str, ...]
    refused: tuple[str, ...] = ()
    receipts_written: bool = True


def _no_progress(_count: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Send:
    """Puts raw inputs on the queue; `new_id` creates record ids, and `sender` is the name in receipts."""

    queue: RecordQueue
    objects: ObjectStore
    receipts: Receipts
    clock: Clock
    new_id: Callable[[], str]
    sender: str

    def __call__(self, raw_inputs: Iterable[RawInput], progress: Callable[[int], None] = _no_progress) -> SendResult:
        """Send raw inputs in batches. `progress` is called with the number of messages of each batch."""
        accepted: list[str] = []
        refused: list[str] = []
        for batch in _batches(message for raw_input in raw_inputs for message in self.messages(raw_input)):
            unsent = set(self.queue.send([(message.group, text) for message, text in batch]))
            for message, text in batch:
                (refused if text in unsent else accepted).append(message.record_id)
            progress(len(batch))
        return SendResult(tuple(accepted), tuple(refused), self._write_receipts(accepted))

    def messages(self, raw_input: RawInput) -> Iterator[Message]:
        """Yield the messages of a raw input; an invalid cluster, node or instance name raises Rejected."""
        names.cluster_name(raw_input.cluster)
        for body in split_body(raw_input.source, raw_input.body):
            message = Message(
                record_id=self.new_id(),
                source=raw_input.source,
                cluster=raw_input.cluster,
                sent_at=self.clock.now(),
                node=names.node_name(raw_input.node) if raw_input.node else None,
                instance_id=names.instance_id(raw_input.instance_id) if raw_input.instance_id else None,
                boot_id=raw_input.boot_id,
                body=body,
            )
            yield message if fits(message) else self.store_body(message)

    def store_body(self, message: Message) -> Message:
        """Store a message's body with secrets masked; return the message with its S3 key, without the body."""
        body = mask(message.body or b"")
        key = raw_key(message.cluster, message.sent_at, body)
        self.objects.put(key, body)
        return replace(message, body=None, pointer=key)

    def _write_receipts(self, accepted: Sequence[str]) -> bool:
        # A failure is not raised: the queue has the records, and the sender must not send them again.
        try:
            for line in sent_lines(self.sender, accepted):
                self.receipts.write(line)
        except Transient as error:
            log_cause("receipts_not_written", reason=str(error), records=len(accepted))
            return False
        return True


def split_body(source: str, body: bytes) -> Iterator[bytes]:
    """Split a log at line ends into pieces of at most 180 KB; longer lines are not split.

    The body of a source that sends no log lines is yielded unchanged.
    """
    if source not in sources_with("lines") or len(body) <= MAX_PIECE_BYTES:
        yield body
        return
    at = 0
    while at < len(body):
        end = at + MAX_PIECE_BYTES
        if end < len(body):
            cut = body.rfind(b"\n", at, end) + 1 or body.find(b"\n", end) + 1
            end = cut or len(body)
        yield body[at:end]
        at = end


def _batches(messages: Iterable[Message]) -> Iterator[list[tuple[Message, str]]]:
    batch: list[tuple[Message, str]] = []
    for message in messages:
        batch.append((message, encode_message(message)))
        if len(batch) == MAX_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


# Delivery audit: lists the records that were sent and have no outcome.
#
# Senders write receipt lines with the records that they sent, and ingest writes receipt lines with the outcomes of
# records. The audit compares these lines. A record counts once, however often it was delivered.


@dataclass(frozen=True, slots=True)
class DeliveryAudit:
    """The result of an audit: records sent since a time, their outcomes, and records without an outcome.

    `others` is the number of records that have an outcome but no receipt of a sender. `stale` lists the records that
    changed nothing, because later reports about the node were already stored.
    """

    since: datetime
    sent: int
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    others: int = 0
    stale: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Return whether every record that was sent has an outcome."""
        return not self.missing


def audit_deliveries(receipts: Receipts, since: datetime) -> DeliveryAudit:
    """Compare the records sent since a time with the outcomes that ingest recorded."""
    lines = list(receipts.read(since))
    listed = (line["records"] for line in lines if line.get("kind") == SENT)
    sent = dict.fromkeys(str(record) for records in listed if isinstance(records, list) for record in records)
    outcomes = read_outcomes(lines)
    counts = Counter(outcomes[record] for record in sent if record in outcomes)
    return DeliveryAudit(
        since=since,
        sent=len(sent),
        outcomes={outcome: counts[outcome] for outcome in Outcome},
        missing=tuple(record for record in sent if record not in outcomes),
        others=sum(record not in sent for record in outcomes),
        stale=tuple(record for record in sent if outcomes.get(record) is Outcome.STALE),
    )


def read_outcomes(lines: Iterable[Mapping[str, object]]) -> dict[str, Outcome]:
    """Return the final outcome of each record in receipt lines, by record id."""
    outcomes: dict[str, Outcome] = {}
    for line in lines:
        for record, outcome in outcomes_in(line):
            outcomes[record] = merge_outcomes(outcomes.get(record), outcome)
    return outcomes


def merge_outcomes(known: Outcome | None, added: Outcome) -> Outcome:
    """Return the final outcome of a record from two of its outcomes, in any order.

    `known` is None if `added` is the first outcome. Every other outcome replaces `rejected`, because a rejected record
    may be retried. Of two outcomes that are not `rejected`, the later member of `Outcome` is the final outcome.
    """
    if known is None or known is Outcome.REJECTED:
        return added
    return known if added is Outcome.REJECTED else max(known, added, key=lambda one: one.rank)


# Redrive: moves dead letters back to the queue and keeps the time at which each record first arrived.
#
# Each record of a message becomes a separate message. A record that fails again then does not return the other records
# of the message to the dead-letter queue. A redrive in the AWS console gives a record a new arrival time, and ingest
# would treat an old fault as a new one. This redrive writes the original arrival time into the record. Messages of the
# queue for EventBridge events contain their own time and are moved unchanged (`dated=False`).

DEFAULT_GROUP = "unread"
"""Message group of a message that has no group and does not name one."""


@dataclass(frozen=True, slots=True)
class Redrive:
    """Moves messages from a dead-letter queue to its source queue.

    A crash can leave a message in both queues, which is harmless, because the effects of a record apply only once. With
    `dated`, the first arrival time is written into each record. Without it, messages are moved unchanged.
    """

    dead: RecordQueue
    queue: RecordQueue
    dated: bool = True

    def redrive(self, progress: Callable[[int], None] = _no_progress) -> int:
        """Move about as many messages as the dead-letter queue has now, and return how many were moved.

        `progress` is called with the number of messages of each received batch. Raises Transient if the source queue
        refuses a message.
        """
        left, moved = self.dead.depth().waiting, 0
        while left > 0 and (received := self.dead.receive()):
            for message in received:
                self._move(message)
                moved, left = moved + 1, left - 1
            progress(len(received))
        return moved

    def _move(self, message: ReceivedMessage) -> None:
        texts = split_records(message.body) if self.dated else ()
        if self.queue.send([_with_arrival_time(message, text) for text in texts] or [_unchanged(message)]):
            raise Transient("the queue refused a record; the dead-letter queue still has it: run the command again")
        self.dead.delete(message)


def _with_arrival_time(message: ReceivedMessage, text: str) -> tuple[str, str]:
    try:
        record = decode_message(text)
    except Rejected as error:
        # Ingest rejects it again, with this reason.
        log_cause("dead_letter_moved_unchanged", reason=error.reason)
        return message.group or DEFAULT_GROUP, text
    dated = replace(record, received_at=min(record.received_at or message.sent_at, message.sent_at))
    return dated.group, encode_message(dated)


def _unchanged(message: ReceivedMessage) -> tuple[str, str]:
    return message.group or DEFAULT_GROUP, message.body
