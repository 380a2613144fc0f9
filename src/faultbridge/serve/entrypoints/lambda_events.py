"""The events of queues, of the bus and of schedules with which AWS calls the functions, as far as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from faultbridge.model.errors import Rejected
from faultbridge.model.log import log_cause

SCHEDULED = "Scheduled Event"
STALE_AFTER = timedelta(minutes=2)

E = TypeVar("E", bound=Struct)


def read(event: object, kind: type[E]) -> E:
    """Return the event of a call as a structure without other members; another form raises Rejected `bad_event`."""
    try:
        return msgspec.convert(event, kind, strict=False)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise Rejected("bad_event", f"not an event of this function: {error}") from None


class QueuedMessage(Struct, frozen=True):
    """A message of SQS in the batch of a call."""

    body: str


class BusEvent(Struct, frozen=True, rename="kebab"):
    """An event of EventBridge, or a batch of messages with such events; a schedule sends events without data."""

    detail_type: str = ""
    time: datetime | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    records: tuple[QueuedMessage, ...] = field(name="Records", default=())

    def is_stale(self, now: datetime) -> bool:
        """Return whether an event of a schedule is more than two minutes old, and log it: a later one does its work.

        Lambda keeps asynchronous calls that it throttled for hours. At the end of an outage it makes all of them, and
        each would read every cluster from the provider. Source: AWS Lambda, "How Lambda handles errors and retries with
        asynchronous invocation".
        """
        if self.detail_type != SCHEDULED or self.time is None:
            return False
        age = now - self.time
        if age > STALE_AFTER:
            log_cause("stale_schedule", reason=f"the schedule's event is {int(age.total_seconds())} s old")
        return age > STALE_AFTER
