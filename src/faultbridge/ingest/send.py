"""Send: raw records onto the queue, cut where a format may be cut, packed or put aside where they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from faultbridge.domain import names
from faultbridge.errors import Transient
from faultbridge.ingest.delivery_audit import sent_lines
from faultbridge.pipeline.normalize.mask_secrets import mask
from faultbridge.ports import Clock, ObjectStore, Receipts, RecordQueue
from faultbridge.storage.wire.message import Message, encode_message, fits, raw_key

PIECE_BYTES = 180 * 1024
AT_ONCE = 10

# Formats in which each line stands for itself. Any other record is one document: half of it says something else.
LINE_SOURCES = frozenset({"kernel-log", "fabric-manager-log", "hyperpod-agent-log", "training-log"})


@dataclass(frozen=True, slots=True)
class Parcel:
    """Raw bytes of one source about one node, as a sender has them in hand."""

    source: str
    cluster: str
    body: bytes
    node: str | None = None
    instance_id: str | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The ids of the records that the queue took and of those it did not; `receipted` when the former were noted."""

    accepted: tuple[str, ...]
    refused: tuple[str, ...] = ()
    receipted: bool = True


def _silent(_count: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Send:
    """Sends parcels; `new_id` makes record ids, `sender` says in the receipts who sent."""

    queue: RecordQueue
    objects: ObjectStore
    receipts: Receipts
    clock: Clock
    new_id: Callable[[], str]
    sender: str

    def __call__(self, parcels: Iterable[Parcel], progress: Callable[[int], None] = _silent) -> Sent:
        """Send parcels as messages of at most 180 KB; `progress` hears how many were sent at each step."""
        accepted: list[str] = []
        refused: list[str] = []
        for batch in _batches(message for parcel in parcels for message in self.messages(parcel)):
            unsent = set(self.queue.send([(message.group, text) for message, text in batch]))
            for message, text in batch:
                (refused if text in unsent else accepted).append(message.record_id)
            progress(len(batch))
        return Sent(tuple(accepted), tuple(refused), self._note(accepted))

    def messages(self, parcel: Parcel) -> Iterator[Message]:
        """Make the messages of a parcel; raises Rejected for names that no record may carry."""
        names.cluster_name(parcel.cluster)
        for body in pieces(parcel.source, parcel.body):
            message = Message(
                record_id=self.new_id(),
                source=parcel.source,
                cluster=parcel.cluster,
                sent_at=self.clock.now(),
                node=names.node_name(parcel.node) if parcel.node else None,
                instance_id=names.instance_id(parcel.instance_id) if parcel.instance_id else None,
                boot_id=parcel.boot_id,
                body=body,
            )
            yield message if fits(message) else self.put_aside(message)

    def put_aside(self, message: Message) -> Message:
        """Keep a message's body in the object store and let the message point at it."""
        body = mask(message.body or b"")
        key = raw_key(message.cluster, message.sent_at, body)
        self.objects.put(key, body)
        return replace(message, body=None, pointer=key)

    def _note(self, accepted: Sequence[str]) -> bool:
        # The records are on their way: a log that does not answer must not make anybody send them twice.
        try:
            for line in sent_lines(self.sender, accepted):
                self.receipts.write(line)
        except Transient:
            return False
        return True


def pieces(source: str, body: bytes) -> Iterator[bytes]:
    """Cut a log at line ends into pieces of at most 180 KB; a longer line and any document stay whole."""
    if source not in LINE_SOURCES or len(body) <= PIECE_BYTES:
        yield body
        return
    at = 0
    while at < len(body):
        end = at + PIECE_BYTES
        if end < len(body):
            cut = body.rfind(b"\n", at, end) + 1 or body.find(b"\n", end) + 1
            end = cut or len(body)
        yield body[at:end]
        at = end


def _batches(messages: Iterable[Message]) -> Iterator[list[tuple[Message, str]]]:
    batch: list[tuple[Message, str]] = []
    for message in messages:
        batch.append((message, encode_message(message)))
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
