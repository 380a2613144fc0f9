"""What the sender requires of a transport: its methods, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from faultbridge.agent.delivery.records import OutgoingRecord


class SendFailed(Exception):  # noqa: N818 - names the situation, which the network ends
    """The queue or the bucket did not accept a call. The call may succeed later."""


class AccessRefused(SendFailed):
    """The queue or the bucket refused a call, but not because of its content.

    An example is a missing permission.
    """


class RecordRefused(SendFailed):
    """The queue or the bucket refused a call because of the content of a record in the call."""


class Transport(Protocol):
    """Sends messages to the queue and objects to the bucket."""

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        """Send records; return the ids of the accepted records and the ids of the refused records.

        If the queue permanently refuses a message with several records, all of them are refused. Raises SendFailed if
        the whole call failed.
        """
        ...

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the bucket; raises RecordRefused, AccessRefused or another SendFailed."""
        ...
