"""Keeps one stream of Faultbridge events whole: in order, each once, none missing.

The bus delivers at least once and in any order, and a rule that filters sees gaps by design. A stream's sequences have
no gap, so a reader can prove what it has: it hands events on in order, and asks the timeline for those it has not got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from faultbridge.events import Event, read

# (stream, epoch, after) -> details of the entries after a sequence, in order: GET /streams/{stream}/entries?after=N
Fetch = Callable[[str, int, int], Iterable[str]]


class BrokenStreamError(Exception):
    """The stream contradicts itself: two events in one place, or one that does not follow the one before it."""


@dataclass
class Stream:
    """What is known of one epoch of one stream; `done` and `last_id` are what a consumer has to keep for good."""

    name: str
    epoch: int
    done: int = 0
    last_id: str | None = None
    waiting: dict[int, Event] = field(default_factory=dict)

    def take(self, event: Event) -> Iterator[Event]:
        """Take a delivery; yields the events that are now next in order, none for a repeat or one that is early."""
        if event.metadata.sequence <= self.done:
            return
        known = self.waiting.setdefault(event.metadata.sequence, event)
        if known.metadata.event_id != event.metadata.event_id:
            raise BrokenStreamError(f"{self.name} has two events numbered {event.metadata.sequence}")
        while (following := self.waiting.pop(self.done + 1, None)) is not None:
            yield self._advance(following)

    def missing(self) -> range:
        """Return the sequences that something later proves to exist and that have not come."""
        return range(self.done + 1, min(self.waiting, default=self.done + 1))

    def _advance(self, event: Event) -> Event:
        before = event.metadata.previous_event_id
        if self.last_id is not None and before != self.last_id:
            raise BrokenStreamError(f"{self.name} {event.metadata.sequence} follows {before}, not {self.last_id}")
        self.done, self.last_id = event.metadata.sequence, event.metadata.event_id
        return event


class Reader:
    """Reads any number of streams, each whole."""

    def __init__(self, fetch: Fetch) -> None:
        """Begin with nothing; `fetch` asks the timeline."""
        self._fetch = fetch
        self._streams: dict[tuple[str, int], Stream] = {}

    def take(self, detail: str) -> list[Event]:
        """Take one delivery in whatever order it comes; returns the events that are now complete up to here."""
        event = read(detail)
        place = (event.metadata.stream, event.metadata.epoch)
        return list(self._streams.setdefault(place, Stream(*place)).take(event))

    def complete(self) -> list[Event]:
        """Fetch what is missing, for instance once a minute; returns the events that are now complete."""
        return [event for stream in list(self._streams.values()) for event in self._catch_up(stream)]

    def missing(self) -> dict[tuple[str, int], range]:
        """Return the known gaps by stream and epoch; whether the newest events came, only `complete` can tell."""
        return {place: gap for place, stream in self._streams.items() if (gap := stream.missing())}

    def _catch_up(self, stream: Stream) -> Iterator[Event]:
        for detail in self._fetch(stream.name, stream.epoch, stream.done):
            yield from stream.take(read(detail))
