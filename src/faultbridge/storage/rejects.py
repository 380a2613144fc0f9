"""Items of rejected records: one row a record, one counter an hour, node, source and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.times import to_milliseconds, to_text, truncate
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump, load
from faultbridge.storage.upcasts import LATEST
from faultbridge.storage.wire.message import Message
from faultbridge.storage.writes import Item, Key, Path, Value

KEPT_FOR = timedelta(days=30)
COUNTERS = "HOUR#"
_END = "#REJECT"


@dataclass(frozen=True, slots=True)
class Reject:
    """One record that nobody could use: its message without the body, which lies at `message.pointer`.

    `cluster` is where it is listed; `unread` when the message itself was none, so that its text is the record.
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
        """Return the record's id."""
        return self.message.record_id

    @property
    def raw(self) -> str:
        """Return where the record's bytes are kept."""
        return str(self.message.pointer)


def key(reject: Reject) -> Key:
    """Return where a reject stands: the same record again stands in the same place."""
    return keys.reject(reject.cluster, reject.message.sent_at, reject.record_id)


def is_reject(partition: str) -> bool:
    """Tell whether a partition is one of rejects, for whoever walks the timers."""
    return partition.endswith(_END)


def item(reject: Reject) -> Item:
    """Make the item of a reject; the table forgets it after 30 days."""
    made = items.item(
        key(reject),
        reject.rejected_at,
        {
            "reason": reject.reason,
            "rejected_at": to_text(reject.rejected_at),
            "reject": dump(reject),
            "expires_at": to_milliseconds(reject.rejected_at + KEPT_FOR) // 1000,
        },
    )
    if reject.due_at is not None:
        made |= {"gsi4pk": keys.due(reject.record_id), "gsi4sk": to_text(reject.due_at)}
    return made


def read(found: Mapping[str, Any]) -> Reject:
    """Read a reject back."""
    return load(Reject, found["reject"])


def counter(reject: Reject, now: datetime) -> Key:
    """Return where rejects of one hour, node, source and reason are counted.

    Whoever may not speak of a node can name a thousand of them, so that sender itself is counted.
    """
    about = reject.sender if reject.reason == "untrusted" else reject.message.node
    who = f"{now:%Y-%m-%dT%H}#{about or '-'}#{reject.message.source}#{reject.reason}"
    return Key(keys.reject_partition(reject.cluster), COUNTERS + who)


def counter_label(reject: Reject) -> Mapping[Path, Value]:
    """Return what a counter says of itself besides its number."""
    hour = truncate(reject.rejected_at)
    return {
        ("reason",): reject.reason,
        ("source",): reject.message.source,
        ("schema",): LATEST,
        ("updated_at",): to_text(hour),
        ("expires_at",): to_milliseconds(hour + KEPT_FOR) // 1000,
    }
