"""How AWS carries things: the queue's mapping, the table's stream mappings, the bus's rule, the minute's schedule.

Everything comes at least once, in no order, in batches of any size; what fails comes again, and a stream gives up
after some tries. What the mappings do is written down from AWS's documentation, not copied from an emulator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.pager.rules import EVENT_TYPES
from faultbridge.simulation.chaos import Crash
from faultbridge.simulation.fakes.queue import Waiting
from faultbridge.simulation.fakes.table import StreamRecord
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.ports import SimulatedPorts
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.weather import Weather
from faultbridge.storage import keys
from faultbridge.storage.writes import Item

RINGS = frozenset({EntryType.NODE_STATUS.value, EntryType.CASE_STATUS.value, EntryType.CLUSTER_SAFETY.value})
"""What the template lets through to `react` and, by the bus's rule, to the pager."""

FIRST_RETRY, MAX_RETRY = 1.0, 600.0


@dataclass(slots=True)
class Carrier:
    """What every delivery needs: the world, time, dice and the weather."""

    ports: SimulatedPorts
    schedule: Schedule
    random: Random
    weather: Weather
    journal: Journal

    def doubled(self) -> bool:
        """Tell whether this delivery comes twice."""
        return self.random.random() < self.weather.double

    def delay(self) -> float:
        """Return how long a thing is on its way, in seconds."""
        return 0.05 + self.random.expovariate(1 / self.weather.spread)


@dataclass(slots=True)
class QueueMapping:
    """The raw queue to `ingest`: any visible messages, in any order; what is not reported as failed is deleted."""

    carrier: Carrier
    handler: Callable[[Sequence[Waiting]], set[str]]
    polls: int = 0
    taken: dict[int, tuple[str, datetime]] = field(default_factory=dict)

    def wake(self) -> None:
        """Look at the queue soon."""
        self.polls += 1
        self.carrier.schedule.after(self.carrier.random.uniform(0, 1), "poll", self._poll)

    def _poll(self) -> None:
        self.polls -= 1
        carrier, queue = self.carrier, self.carrier.ports.queue
        ready = [message for message in queue.messages if message.visible_at <= carrier.schedule.clock.now()]
        if ready:
            carrier.random.shuffle(ready)
            self._take(ready[: carrier.random.randint(1, carrier.weather.batch)])
        if queue.messages and not self.polls:
            self.polls += 1
            soonest = min(message.visible_at for message in queue.messages)
            carrier.schedule.at(soonest + timedelta(seconds=1), "poll", self._poll)

    def _take(self, batch: list[Waiting]) -> None:
        carrier, queue = self.carrier, self.carrier.ports.queue
        for message in batch:
            message.receive_count += 1
            self.taken[message.number] = (message.body, message.sent_at)
            message.visible_at = carrier.schedule.clock.now() + queue.visibility
        try:
            failed = self.handler(batch)
        except (Crash, Exception) as gone:  # noqa: BLE001 - whatever ends a handler, the batch comes again
            carrier.journal.note(Kind.TURN, f"ingest ended: {type(gone).__name__}")
            return
        done = {message.number for message in batch if str(message.number) not in failed and not carrier.doubled()}
        queue.messages = [message for message in queue.messages if message.number not in done]


@dataclass(slots=True)
class Held:
    """A stream record on its way, and how often it was tried."""

    ready: datetime
    record: StreamRecord
    tries: int = 0


@dataclass(slots=True)
class StreamMapping:
    """New entries to one function: records of one transaction apart, halved on failure, given up after some tries."""

    carrier: Carrier
    name: str
    handler: Callable[[Sequence[Item]], None]
    types: frozenset[str] | None = None
    held: list[Held] = field(default_factory=list)

    def take(self, record: StreamRecord) -> None:
        """Let one change be on its way, if the filter lets it through."""
        new = record.new
        if record.event != "INSERT" or new is None or not record.key.sk.startswith(keys.ENTRY):
            return
        if self.types is None or new["type"] in self.types:
            self._hold(record, self.carrier.delay(), 0)

    def _hold(self, record: StreamRecord, seconds: float, tries: int) -> None:
        ready = self.carrier.schedule.clock.now() + timedelta(seconds=seconds)
        self.held.append(Held(ready, record, tries))
        self.carrier.schedule.at(ready, self.name, self._turn)

    def _turn(self) -> None:
        now = self.carrier.schedule.clock.now()
        ready = [one for one in self.held if one.ready <= now]
        if not ready:
            return
        self.carrier.random.shuffle(ready)
        batch = ready[: self.carrier.random.randint(1, self.carrier.weather.batch)]
        self.held = [one for one in self.held if all(one is not other for other in batch)]
        self._hand(batch)
        if len(batch) < len(ready):
            self.carrier.schedule.after(0.05, self.name, self._turn)

    def _hand(self, batch: list[Held]) -> None:
        try:
            self.handler([dict(one.record.new or {}) for one in batch])
        except (Crash, Exception) as gone:  # noqa: BLE001 - whatever ends a handler, the records come again
            self.carrier.journal.note(Kind.TURN, f"{self.name} ended: {type(gone).__name__}")
            self._again(batch)
            return
        if self.carrier.doubled():
            for one in batch:
                self._hold(one.record, self.carrier.random.expovariate(1 / 60), one.tries)

    def _again(self, batch: list[Held]) -> None:
        # Bisecting: the halves come back one after the other, each as a smaller batch.
        for place, one in enumerate(batch):
            if one.tries >= self.carrier.weather.retries:
                self.carrier.journal.note(Kind.NOTE, f"{self.name} gives up {one.record.key.pk} {one.record.key.sk}")
                continue
            pause = min(FIRST_RETRY * 2**one.tries, 60.0)
            self._hold(one.record, pause * (1 if place < len(batch) / 2 else 2), one.tries + 1)


@dataclass(slots=True)
class Rule:
    """The bus to the pager: each event of the rule's types, again and again until it is taken."""

    carrier: Carrier
    handler: Callable[[dict[str, Any]], None]
    heard: int = 0

    def listen(self) -> None:
        """Let what the bus took since the last time be on its way."""
        taken = self.carrier.ports.bus.taken
        fresh, self.heard = taken[self.heard :], len(taken)
        for event in fresh:
            if event.detail_type in EVENT_TYPES:
                for _ in range(2 if self.carrier.doubled() else 1):
                    self._send(json.loads(event.detail), self.carrier.delay(), 0)

    def _send(self, detail: dict[str, Any], seconds: float, tries: int) -> None:
        self.carrier.schedule.after(seconds, "pager", lambda: self._deliver(detail, tries))

    def _deliver(self, detail: dict[str, Any], tries: int) -> None:
        try:
            self.handler(detail)
        except (Crash, Exception) as gone:  # noqa: BLE001 - whatever ends a handler, the event comes again
            self.carrier.journal.note(Kind.TURN, f"pager ended: {type(gone).__name__}")
            pause = min(FIRST_RETRY * 2**tries, MAX_RETRY)
            self._send(detail, pause * self.carrier.random.uniform(0.5, 1), tries + 1)
