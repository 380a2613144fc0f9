"""Receipts on CloudWatch Logs: one JSON line a batch, the senders' in their own group, ingest's in its function's."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.clock import SystemClock
from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Misconfigured

# Marks a receipt among a function's other lines; its value is the version of the line's shape.
MARK = "receipt"
VERSION = 1
PATTERN = f"{{ $.{MARK} = {VERSION} }}"
EVENTS_AT_ONCE = 10_000


def receipt_line(line: Mapping[str, Any]) -> str:
    """Render a receipt as the one line of JSON that a reader recognizes."""
    return json.dumps({MARK: VERSION, **line}, separators=(",", ":"))


def read_receipt(message: str) -> Mapping[str, Any] | None:
    """Read a line of a log group; None when it is no receipt."""
    if not message.startswith("{"):
        return None
    try:
        line = json.loads(message)
    except ValueError:
        return None
    return line if line.pop(MARK, None) == VERSION else None


class LogReceipts:
    """Receipts that a sender puts into its log group; it reads any number of groups.

    The lines are stamped with the real time, because the service refuses lines from the future.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        group: str,
        also_read: Sequence[str] = (),
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._clients = clients
        self._group = group
        self._groups = tuple(dict.fromkeys((group, *also_read)))
        self._now = now or SystemClock().now
        self._stream = ""

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line, in a stream of this process alone."""
        event: Any = {"timestamp": to_milliseconds(self._now()), "message": receipt_line(line)}
        with translated(f"writing to {self._group}"):
            answer = self._clients.logs.put_log_events(
                logGroupName=self._group, logStreamName=self._own_stream(), logEvents=[event]
            )
        if answer.get("rejectedLogEventsInfo"):
            raise Misconfigured(f"{self._group} refuses a line of {self._now()}: is the clock right?")

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Read every receipt written at or after an instant, group by group; a group that is missing has none."""
        for group in self._groups:
            for message in self._messages(group, max(to_milliseconds(since), 0)):
                if (line := read_receipt(message)) is not None:
                    yield line

    def _own_stream(self) -> str:
        if not self._stream:
            stream = uuid.uuid4().hex
            self._make(self._clients.logs.create_log_group, logGroupName=self._group)
            self._make(self._clients.logs.create_log_stream, logGroupName=self._group, logStreamName=stream)
            self._stream = stream
        return self._stream

    def _make(self, create: Callable[..., object], **names: str) -> None:
        try:
            create(**names)
        except ClientError as error:
            if code_of(error) != "ResourceAlreadyExistsException":
                raise

    def _messages(self, group: str, since: int) -> Iterator[str]:
        read: set[object] = set()
        for page in self._pages(group, since):
            for event in page:
                identity = event.get("eventId") or (event.get("logStreamName"), event["timestamp"], event["message"])
                if identity not in read:
                    read.add(identity)
                    yield event["message"]

    def _pages(self, group: str, since: int) -> Iterator[Sequence[Any]]:
        """Walk the pages of a group; where the endpoint forgets the token of a full page, go on by time."""
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

    def _filter(self, group: str, where: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the service's own answer
        with translated(f"reading {group}"):
            try:
                return self._clients.logs.filter_log_events(
                    logGroupName=group, filterPattern=PATTERN, limit=EVENTS_AT_ONCE, **where
                )
            except ClientError as error:
                if code_of(error) != "ResourceNotFoundException":
                    raise
                return {}


class LambdaReceipts(LogReceipts):
    """Receipts that a function prints; Lambda carries what is printed into the function's log group."""

    def __init__(self, clients: Clients, *, group: str, out: TextIO | None = None) -> None:
        super().__init__(clients, group=group)
        self._out = out

    def write(self, line: Mapping[str, Any]) -> None:
        """Print one line."""
        print(receipt_line(line), file=self._out or sys.stdout, flush=True)
