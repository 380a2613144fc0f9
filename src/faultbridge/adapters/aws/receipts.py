"""Write and read delivery receipts in CloudWatch Logs, one JSON line per batch of records.

The commands `send`, `fleet` and `demo` write receipts to a group of their own, ingest prints receipts with the outcomes
of raw records, and `faultbridge audit` compares both.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, translated
from faultbridge.adapters.clock import SystemClock
from faultbridge.model.errors import Misconfigured
from faultbridge.model.times import to_milliseconds

# This field distinguishes a receipt from other log lines; its value is the version of the receipt format.
RECEIPT_FIELD = "receipt"
RECEIPT_VERSION = 1
PATTERN = f"{{ $.{RECEIPT_FIELD} = {RECEIPT_VERSION} }}"
EVENTS_AT_ONCE = 10_000


def receipt_line(line: Mapping[str, Any]) -> str:
    """Return a delivery receipt as one line of JSON for a log."""
    return json.dumps({RECEIPT_FIELD: RECEIPT_VERSION, **line}, separators=(",", ":"))


def read_receipt(message: str) -> Mapping[str, Any] | None:
    """Return the delivery receipt in a log line, or None if the line is not a receipt."""
    if not message.startswith("{"):
        return None
    try:
        line = json.loads(message)
    except ValueError:
        return None
    return line if line.pop(RECEIPT_FIELD, None) == RECEIPT_VERSION else None


class LogReceipts:
    """Delivery receipts, written to the log group `group`, and read also from those in `also_read`."""

    def __init__(
        self, clients: Clients, *, group: str, also_read: Sequence[str] = (), now: Callable[[], datetime] | None = None
    ) -> None:
        self._clients = clients
        self._group = group
        self._groups = tuple(dict.fromkeys((group, *also_read)))
        self._now = now or SystemClock().now
        self._stream = ""

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one receipt; raises Misconfigured if CloudWatch rejects its time, because the clock is wrong."""
        event: Any = {"timestamp": to_milliseconds(self._now()), "message": receipt_line(line)}
        with translated(f"writing to {self._group}"):
            answer = self._clients.logs.put_log_events(
                logGroupName=self._group, logStreamName=self._ensure_stream(), logEvents=[event]
            )
        if answer.get("rejectedLogEventsInfo"):
            raise Misconfigured(f"{self._group} rejects a line with time {self._now()}; correct the system clock")

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Yield every receipt since a time; a log group that does not exist contains none."""
        for group in self._groups:
            for message in self._messages(group, max(to_milliseconds(since), 0)):
                if (line := read_receipt(message)) is not None:
                    yield line

    def _ensure_stream(self) -> str:
        if not self._stream:
            stream = uuid.uuid4().hex
            self._create(self._clients.logs.create_log_group, logGroupName=self._group)
            self._create(self._clients.logs.create_log_stream, logGroupName=self._group, logStreamName=stream)
            self._stream = stream
        return self._stream

    def _create(self, create: Callable[..., object], **names: str) -> None:
        try:
            create(**names)
        except ClientError as error:
            if code_of(error) != "ResourceAlreadyExistsException":
                raise

    def _messages(self, group: str, since: int) -> Iterator[str]:
        """Yield the text of every receipt in a log group since a time in milliseconds, without duplicates."""
        read: set[object] = set()
        for page in self._pages(group, since):
            for event in page:
                identity = event.get("eventId") or (event.get("logStreamName"), event["timestamp"], event["message"])
                if identity not in read:
                    read.add(identity)
                    yield event["message"]

    def _pages(self, group: str, since: int) -> Iterator[Sequence[Any]]:
        """Yield the receipts in a log group as pages of log events.

        If a full page has no token for the next page, more receipts may still exist. The next page is then read from
        the time of the last event of the full page, so events with this time can be yielded twice.
        """
        where: dict[str, Any] = {"startTime": since}
        while True:
            answer = self._filter(group, where)
            events = answer.get("events", [])
            yield events
            if "nextToken" in answer:
                where["nextToken"] = answer["nextToken"]
            elif len(events) >= EVENTS_AT_ONCE and events[-1]["timestamp"] > where["startTime"]:
                where = {"startTime": events[-1]["timestamp"]}
            else:
                return

    def _filter(self, group: str, where: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the response of the service
        with translated(f"reading {group}"):
            try:
                return self._clients.logs.filter_log_events(
                    logGroupName=group, filterPattern=PATTERN, limit=EVENTS_AT_ONCE, **where
                )
            except ClientError as error:
                if code_of(error) != "ResourceNotFoundException":
                    raise
                return {}
