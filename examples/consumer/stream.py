"""Reads streams of Faultbridge events completely: in order, each event once, none missing.

The event bus delivers at least once and in any order, and a rule with a filter sees gaps by design. The sequences of a
stream have no gap. The reader returns events in order and fetches missing events from the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from faultbridge.model.events import Event, read

# (stream, epoch, after) -> details of the entries after that sequence, in order: GET /streams/{stream}/entries?after=N
Fetch = Callable[[str, int, int], Iterable[str]]


class BrokenStreamError(Exception):
    """Two events have the same sequence, or an event does not follow its predecessor."""


@dataclass
class Stream:
    """The progress in one epoch of one stream. A consumer must store `done` and `last_id` durably."""

    name: str
    epoch: int
    done: int = 0
    last_id: str | None = None
    waiting: dict[int, Event] = field(default_factory=dict)

    def take(self, event: Event) -> Iterator[Event]:
        """Add a delivered event and yield the events that are next in order.

        A duplicate or an early event yields none.
        """
        if event.metadata.sequence <= self.done:
            return
        first = self.waiting.setdefault(event.metadata.sequence, event)
        if first.metadata.event_id != event.metadata.event_id:
            raise BrokenStreamError(f"two events with one sequence in {self.name}: {event.metadata.sequence}")
        while (next_event := self.waiting.pop(self.done + 1, None)) is not None:
            yield self._advance(next_event)

    def missing(self) -> range:
        """Return the missing sequences before the first event that is held back."""
        return range(self.done + 1, min(self.waiting, default=self.done + 1))

    def _advance(self, event: Event) -> Event:
        """Check that an event follows the last one, and record the progress."""
        before = event.metadata.previous_event_id
        if self.last_id is not None and before != self.last_id:
            raise BrokenStreamError(
                f"wrong predecessor of {self.name} {event.metadata.sequence}: {before}; expected {self.last_id}"
            )
        self.done, self.last_id = event.metadata.sequence, event.metadata.event_id
        return event


class Reader:
    """Reads any number of streams, each completely."""

    def __init__(self, fetch: Fetch) -> None:
        """Create a reader without progress. `fetch` requests entries from the timeline."""
        self._fetch = fetch
        self._streams: dict[tuple[str, int], Stream] = {}

    def take(self, detail: str) -> list[Event]:
        """Add one delivered event, in any order. Returns the events that are next in order."""
        event = read(detail)
        key = (event.metadata.stream, event.metadata.epoch)
        return list(self._streams.setdefault(key, Stream(*key)).take(event))

    def complete(self) -> list[Event]:
        """Fetch missing events, for example once a minute. Returns the events that are next in order."""
        return [event for stream in list(self._streams.values()) for event in self._catch_up(stream)]

    def missing(self) -> dict[tuple[str, int], range]:
        """Return the known gaps by stream and epoch.

        Events that are missing at the end of a stream are not known here; `complete` fetches them.
        """
        return {key: gap for key, stream in self._streams.items() if (gap := stream.missing())}

    def _catch_up(self, stream: Stream) -> Iterator[Event]:
        for detail in self._fetch(stream.name, stream.epoch, stream.done):
            yield from stream.take(read(detail))
