"""Reject items: one row per rejected record, and counters per hour, sender and reason.

A reject is a raw record that ingest refused; it is stored so that it can be processed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from faultbridge.model.records import CANARY
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.wire.message import Message
from faultbridge.model.storage.writes import Item, Key, Path, Value, Work
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_milliseconds, to_text, truncate

RETENTION = timedelta(days=30)
COUNTERS = "HOUR#"
OF_REGISTERED = frozenset({"untrusted", "unknown_node"})
"""Reasons with which only records of a registered cluster are rejected, apart from canaries."""


class Reject(Stored, frozen=True):
    """One rejected record: its message without the body, and the reason of the rejection.

    The body is stored in S3 at `message.pointer`.

    `cluster` is the cluster in whose list the reject is stored. `unread` is True if the message itself was invalid. The
    text of the message is then stored as the body.
    """

    cluster: str
    message: Message
    reason: str
    detail: str
    rejected_at: datetime
    sender: str | None = None
    size: int | None = None
    due_at: datetime | None = None
    unread: bool = False

    @property
    def record_id(self) -> str:
        """Return the id of the rejected record."""
        return self.message.record_id

    @property
    def raw(self) -> str:
        """Return the S3 key of the rejected record's bytes."""
        return str(self.message.pointer)


def key(reject: Reject) -> Key:
    """Return the table key of a rejected record, from its cluster, sending time and id."""
    return keys.reject(reject.cluster, reject.message.sent_at, reject.record_id)


def item(reject: Reject) -> Item:
    """Return the table item of a rejected record; DynamoDB deletes it after 30 days."""
    row = items.item(
        key(reject),
        reject.rejected_at,
        {
            "reason": reject.reason,
            "rejected_at": to_text(reject.rejected_at),
            "reject": dump(reject),
            "expires_at": to_milliseconds(reject.rejected_at + RETENTION) // 1000,
        },
    )
    if reject.due_at is not None:
        row |= Work.RETRY.row(reject.cluster, 0, reject.record_id, to_text(reject.due_at))
    return row


def read(row: Item) -> Reject:
    """Return the rejected record that a table item stores."""
    return load(Reject, row["reject"])


def counter(reject: Reject, now: datetime, *, by_sender: bool) -> Key:
    """Return the key of the counter that a rejected record increases: by hour, sender and reason.

    - Without `by_sender`, the key also contains the node and the source that the record states. The counter is in the
      partition of the record's cluster.
    - With `by_sender`, the key contains no node and no source. The counter is in the partition of the record's cluster
      if the reason shows that this cluster is registered and the record is no canary. Otherwise, it is in the partition
      of the cluster `-`, so that one counter counts all these records, even if they name different clusters.
    """
    message = reject.message
    is_registered = reject.reason in OF_REGISTERED and message.source != CANARY
    stated = "" if by_sender else f"{message.node or '-'}#{message.source}#"
    label = f"{now:%Y-%m-%dT%H}#{reject.sender or '-'}#{stated}{reject.reason}"
    return Key(
        keys.reject_partition(keys.NO_CLUSTER if by_sender and not is_registered else reject.cluster), COUNTERS + label
    )


def counter_label(reject: Reject) -> Mapping[Path, Value]:
    """Return the attributes to store with a counter's number, such as reason, source and expiry.

    `reject` is a record that the counter counts.
    """
    hour = truncate(reject.rejected_at)
    return {
        ("reason",): reject.reason,
        ("source",): reject.message.source,
        ("schema",): items.LATEST,
        ("updated_at",): to_text(hour),
        ("expires_at",): to_milliseconds(hour + RETENTION) // 1000,
    }
