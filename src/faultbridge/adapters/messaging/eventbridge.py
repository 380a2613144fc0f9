"""Publish events to EventBridge; the module checks the service limits, because emulators do not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.messaging.batches import batches
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import BusEvent, FailedEvent

ENTRIES_AT_ONCE = 10
CALL_BYTES = 1_000_000
EVENT_BYTES = 256 * 1024

# Error codes of one entry: of its content, which a retry cannot fix, and of the deployment, which an operator must fix.
# Any other code is temporary.
CONTENT_CODES = frozenset({"InvalidArgument", "MalformedDetail"})
DEPLOYMENT_CODES = frozenset(
    {
        "AccessDeniedException",
        "InvalidAccountIdException",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
    }
)


class EventBridgeBus:
    """An EventBus that publishes events to EventBridge.

    All events have the same source, which must not start with `aws.`.
    """

    def __init__(self, clients: Clients, bus: str, source: str) -> None:
        if source.startswith("aws."):
            raise Misconfigured(f"event source is reserved by AWS: {source!r}; use one that does not begin with aws.")
        self._clients = clients
        self._bus = bus
        self._source = source

    def put(self, events: Sequence[BusEvent]) -> tuple[FailedEvent, ...]:
        """Publish the events, at most ten and 1 MB per call; returns the events that were not accepted.

        - A returned event has `permanent` True if EventBridge can never accept it. Events with a defect that
          `defect_of` finds are not sent.
        - A returned event has `permanent` False if EventBridge refused it temporarily, or if the whole call failed
          temporarily.
        - If EventBridge rejects events because of the deployment, such as a missing permission, Misconfigured is
          raised, even if other events were accepted before.
        """
        defects = {event.event_id: self.defect_of(event) for event in events}
        invalid = (FailedEvent(event_id, defect, permanent=True) for event_id, defect in defects.items() if defect)
        valid = [event for event in events if not defects[event.event_id]]
        sent = batches(valid, size_of=self.size_of, count=ENTRIES_AT_ONCE, size=CALL_BYTES)
        return tuple(chain(invalid, *(self._send(batch) for batch in sent)))

    def defect_of(self, event: BusEvent) -> str:
        """Return why EventBridge can never accept the event; empty if its size and its JSON are valid."""
        if self.size_of(event) > EVENT_BYTES:
            return f"the event is too large: {self.size_of(event)} bytes; at most {EVENT_BYTES}"
        try:
            detail = json.loads(event.detail)
        except ValueError:
            return "the detail is not JSON"
        return "" if isinstance(detail, dict) else "the detail is not a JSON object"

    def size_of(self, event: BusEvent) -> int:
        """Return the size of an event in bytes, counted as EventBridge counts it."""
        parts = chain((self._source, event.detail_type, event.detail), event.resources)
        return sum(len(part.encode()) for part in parts)

    def _send(self, batch: Sequence[BusEvent]) -> Iterable[FailedEvent]:
        try:
            with translated(f"putting {len(batch)} events on {self._bus}"):
                answer = self._clients.events.put_events(Entries=[self._entry(event) for event in batch])
        except Transient as error:
            return [FailedEvent(event.event_id, str(error), permanent=False) for event in batch]
        return self._failures(batch, answer["Entries"])

    def _failures(self, batch: Sequence[BusEvent], results: Sequence[Any]) -> Iterator[FailedEvent]:
        for event, result in zip(batch, results, strict=True):
            code = result.get("ErrorCode")
            if not code:
                continue
            reason = f"{code}: {result.get('ErrorMessage', '')}"
            if code in DEPLOYMENT_CODES:
                raise Misconfigured(f"the bus {self._bus} rejects events: {reason}")
            yield FailedEvent(event.event_id, reason, permanent=code in CONTENT_CODES)

    def _entry(self, event: BusEvent) -> Any:  # noqa: ANN401 - the stubs' type exists only for type checkers
        return {
            "EventBusName": self._bus,
            "Source": self._source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Resources": list(event.resources),
        }
