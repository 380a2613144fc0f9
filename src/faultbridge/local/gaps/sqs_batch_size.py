"""The batch size of a queue's mapping.

AWS: up to 10,000 messages come in one batch of a standard queue's mapping, as `BatchSize` says.
MiniStack: never more than 10, whatever was asked and echoed.
Here: it receives again until the batch is full or the queue is empty. The batching window stays ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

RECEIVE = "ministack.services.sqs:_receive_messages_for_esm"
CREATE = "ministack.services.cloudformation.provisioners:_sqs_create"

Receive = Callable[[str, int], list[dict[str, Any]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RECEIVE, CREATE)


def is_open() -> bool:
    """Whether the emulator still stops at ten messages."""
    from ministack.services import sqs

    url, _ = patch.resolve(CREATE)("Probe", {"QueueName": "probe"}, "probe")
    message = {
        "id": "",
        "body": "",
        "visible_at": 0.0,
        "sent_at": 0.0,
        "receive_count": 0,
        "group_id": None,
        "sys": {},
    }
    sqs._queues[url]["messages"] = [dict(message) for _ in range(12)]
    return len(patch.resolve(RECEIVE)(url, 12)) == 10  # noqa: PLR2004 - the emulator's limit


def apply() -> None:
    """Fill the batch."""
    patch.replace(RECEIVE, _until_full)


def _until_full(receive: Receive) -> Receive:
    def receive_messages(url: str, wanted: int) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        while len(batch) < wanted and (more := receive(url, wanted - len(batch))):
            batch += more
        return batch

    return receive_messages
