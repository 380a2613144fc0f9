"""The bus on EventBridge, with the limits of the service enforced here: not every endpoint enforces them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.batches import batches
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import BusEvent, Refusal

ENTRIES_AT_ONCE = 10
CALL_BYTES = 1_000_000
EVENT_BYTES = 256 * 1024

# Why the bus refused one entry: its content, which no repetition mends, or the deployment, which a person must mend.
# Everything else passes with time.
CONTENT_CODES = frozenset({"InvalidArgument", "MalformedDetail"})
PERSON_CODES = frozenset(
    {
        "AccessDeniedException",
        "InvalidAccountIdException",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
    }
)


class EventBridgeBus:
    """An EventBus on EventBridge; every event has the same source, which may not be one of AWS's own."""

    def __init__(self, clients: Clients, bus: str, source: str) -> None:
        if source.startswith("aws."):
            raise Misconfigured(f"{source!r} is no source for events: AWS keeps names that begin with aws.")
        self._clients = clients
        self._bus = bus
        self._source = source

    def put(self, events: Sequence[BusEvent]) -> tuple[Refusal, ...]:
        """Send the events, at most ten and 1 MB a call; a call that may succeed later refuses its events for now.

        A call that fails because of the deployment raises Misconfigured, whatever was taken before.
        """
        faults = {event.event_id: self.fault_of(event) for event in events}
        refused = (Refusal(name, fault, permanent=True) for name, fault in faults.items() if fault)
        good = [event for event in events if not faults[event.event_id]]
        sent = batches(good, size_of=self.size_of, count=ENTRIES_AT_ONCE, size=CALL_BYTES)
        return tuple(chain(refused, *(self._send(batch) for batch in sent)))

    def fault_of(self, event: BusEvent) -> str:
        """Say why the bus would never take the event; empty when it would."""
        if self.size_of(event) > EVENT_BYTES:
            return f"the event is larger than {EVENT_BYTES} bytes"
        try:
            detail = json.loads(event.detail)
        except ValueError:
            return "the detail is not JSON"
        return "" if isinstance(detail, dict) else "the detail is no JSON object"

    def size_of(self, event: BusEvent) -> int:
        """Count an event's bytes as the service does."""
        parts = chain((self._source, event.detail_type, event.detail), event.resources)
        return sum(len(part.encode()) for part in parts)

    def _send(self, batch: Sequence[BusEvent]) -> Iterable[Refusal]:
        try:
            with translated(f"putting {len(batch)} events on {self._bus}"):
                answer = self._clients.events.put_events(Entries=[self._entry(event) for event in batch])
        except Transient as error:
            return [Refusal(event.event_id, str(error), permanent=False) for event in batch]
        return self._refusals(batch, answer["Entries"])

    def _refusals(self, batch: Sequence[BusEvent], results: Sequence[Any]) -> Iterator[Refusal]:
        for event, result in zip(batch, results, strict=True):
            code = result.get("ErrorCode")
            if not code:
                continue
            reason = f"{code}: {result.get('ErrorMessage', '')}"
            if code in PERSON_CODES:
                raise Misconfigured(f"the bus {self._bus} refuses events: {reason}")
            yield Refusal(event.event_id, reason, permanent=code in CONTENT_CODES)

    def _entry(self, event: BusEvent) -> Any:  # noqa: ANN401 - the stubs' type exists only for type checkers
        return {
            "EventBusName": self._bus,
            "Source": self._source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Resources": list(event.resources),
        }
