"""The bus in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from faultbridge.ports import BusEvent, FailedEvent
from faultbridge.simulation.fakes.seams import Seam

EVENT_BYTES = 256 * 1024


def _takes_all(event: BusEvent) -> FailedEvent | None:
    return None


class FakeBus:
    """An EventBus (fake) that remembers what it took, repetitions included; `refuse` may refuse single events."""

    def __init__(
        self, *, seam: Seam | None = None, refuse: Callable[[BusEvent], FailedEvent | None] = _takes_all
    ) -> None:
        self.seam = seam or Seam()
        self.refuse = refuse
        self.taken: list[BusEvent] = []

    def put(self, events: Sequence[BusEvent]) -> tuple[FailedEvent, ...]:
        """Take it."""
        with self.seam.around("bus", "put", tuple(events)):
            refusals = []
            for event in events:
                refusal = self._fault(event) or self.refuse(event)
                if refusal is None:
                    self.taken.append(event)
                else:
                    refusals.append(refusal)
            return tuple(refusals)

    @property
    def ids(self) -> list[str]:
        """The ids of what was taken, in order, repetitions included."""
        return [event.event_id for event in self.taken]

    def _fault(self, event: BusEvent) -> FailedEvent | None:
        size = len(event.detail.encode()) + len(event.detail_type.encode())
        size += sum(len(resource.encode()) for resource in event.resources)
        if size > EVENT_BYTES:
            return FailedEvent(event.event_id, "too large", permanent=True)
        try:
            good = isinstance(json.loads(event.detail), dict)
        except ValueError:
            good = False
        return None if good else FailedEvent(event.event_id, "no JSON object", permanent=True)
