"""Delivers queue messages, table changes and bus events to the Lambda functions, as AWS does.

Deliveries are in random order, and some are repeated. Queue messages and table changes are delivered in batches of
random size. A failed delivery is retried; only a stream drops a record after a limited number of retries. The behavior
follows the documentation of AWS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.model.enums import EntryType
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Item
from faultbridge.serve.pager.rules import EVENT_TYPES
from tests.sim.fakes.messaging import QueuedMessage
from tests.sim.fakes.table import StreamRecord
from tests.sim.fault_injection import Crash, FaultProfile
from tests.sim.journal import Journal, Kind
from tests.sim.schedule import Schedule
from tests.sim.simulated_ports import SimulatedPorts

REACT_ENTRY_TYPES = frozenset(
    {EntryType.NODE_STATUS.value, EntryType.CASE_STATUS.value, EntryType.CLUSTER_SAFETY.value}
)
"""The entry types for which the stream filter in `infra/template.yaml` invokes `react`."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 600.0


@dataclass(slots=True)
class DeliveryContext:
    """The objects that all deliveries share: ports, schedule, random source, fault profile and journal."""

    ports: SimulatedPorts
    schedule: Schedule
    random: Random
    profile: FaultProfile
    journal: Journal

    def is_duplicated(self) -> bool:
        """Decide at random whether a delivery is repeated; the probability is the profile's `duplicate_rate`."""
        return self.random.random() < self.profile.duplicate_rate

    def delay(self) -> float:
        """Return a random delay of a delivery, in seconds."""
        return 0.05 + self.random.expovariate(1 / self.profile.mean_delay)


@dataclass(slots=True)
class QueueMapping:
    """Delivers messages of the raw queue to `ingest`, in batches of visible messages in random order.

    `handler` returns the ids of the messages that failed. Most other messages are then deleted; some, chosen at random,
    are not deleted and are delivered again. `received` maps the sequence number of each delivered message to its body
    and the time when it was sent.
    """

    context: DeliveryContext
    handler: Callable[[Sequence[QueuedMessage]], set[str]]
    pending_polls: int = 0
    received: dict[int, tuple[str, datetime]] = field(default_factory=dict)

    def poll_soon(self) -> None:
        """Schedule a poll of the queue at a random time within the next second."""
        self.pending_polls += 1
        self.context.schedule.after(self.context.random.uniform(0, 1), "poll", self._poll)

    def _poll(self) -> None:
        self.pending_polls -= 1
        context, queue = self.context, self.context.ports.queue
        visible = [message for message in queue.messages if message.visible_at <= context.schedule.clock.now()]
        if visible:
            context.random.shuffle(visible)
            self._deliver(visible[: context.random.randint(1, context.profile.max_batch)])
        if queue.messages and not self.pending_polls:
            self.pending_polls += 1
            soonest = min(message.visible_at for message in queue.messages)
            context.schedule.at(soonest + timedelta(seconds=1), "poll", self._poll)

    def _deliver(self, batch: list[QueuedMessage]) -> None:
        context, queue = self.context, self.context.ports.queue
        for message in batch:
            message.receive_count += 1
            self.received[message.number] = (message.body, message.sent_at)
            message.visible_at = context.schedule.clock.now() + queue.visibility
        try:
            failed = self.handler(batch)
        except (Crash, Exception) as error:  # noqa: BLE001 - after any error the batch is delivered again
            context.journal.add(Kind.STEP, f"ingest ended: {type(error).__name__}")
            return
        done = {m.number for m in batch if str(m.number) not in failed and not context.is_duplicated()}
        queue.messages = [message for message in queue.messages if message.number not in done]


@dataclass(slots=True)
class PendingRecord:
    """A stream record that waits for delivery.

    `ready` is the earliest time of the delivery. `tries` is the number of failed deliveries.
    """

    ready: datetime
    record: StreamRecord
    tries: int = 0


@dataclass(slots=True)
class StreamMapping:
    """Delivers new entries of the table stream to one Lambda function.

    Records of one transaction may be delivered at different times. The two halves of a failed batch are retried at
    different times. A record is dropped after the fault profile's `max_retries` failed retries. `types` are the entry
    types that are delivered; None means all types.
    """

    context: DeliveryContext
    name: str
    handler: Callable[[Sequence[Item]], None]
    types: frozenset[str] | None = None
    pending: list[PendingRecord] = field(default_factory=list)

    def accept(self, record: StreamRecord) -> None:
        """Schedule the delivery of a table change if the change is a new entry of one of the `types`."""
        new = record.new
        if record.event != "INSERT" or new is None or not record.key.sk.startswith(keys.ENTRY):
            return
        if self.types is None or new["type"] in self.types:
            self._schedule(record, self.context.delay(), 0)

    def _schedule(self, record: StreamRecord, seconds: float, tries: int) -> None:
        ready = self.context.schedule.clock.now() + timedelta(seconds=seconds)
        self.pending.append(PendingRecord(ready, record, tries))
        self.context.schedule.at(ready, self.name, self._deliver_ready)

    def _deliver_ready(self) -> None:
        now = self.context.schedule.clock.now()
        ready = [one for one in self.pending if one.ready <= now]
        if not ready:
            return
        self.context.random.shuffle(ready)
        batch = ready[: self.context.random.randint(1, self.context.profile.max_batch)]
        self.pending = [one for one in self.pending if all(one is not other for other in batch)]
        self._deliver(batch)
        if len(batch) < len(ready):
            self.context.schedule.after(0.05, self.name, self._deliver_ready)

    def _deliver(self, batch: list[PendingRecord]) -> None:
        try:
            self.handler([dict(one.record.new or {}) for one in batch])
        except (Crash, Exception) as error:  # noqa: BLE001 - after any error the records are delivered again
            self.context.journal.add(Kind.STEP, f"{self.name} ended: {type(error).__name__}")
            self._retry(batch)
            return
        if self.context.is_duplicated():
            for one in batch:
                self._schedule(one.record, self.context.random.expovariate(1 / 60), one.tries)

    def _retry(self, batch: list[PendingRecord]) -> None:
        # The second half is delayed longer, as after BisectBatchOnFunctionError.
        for place, one in enumerate(batch):
            if one.tries >= self.context.profile.max_retries:
                key = one.record.key
                self.context.journal.add(Kind.NOTE, f"{self.name} drops {key.pk} {key.sk} after {one.tries} retries")
                continue
            pause = min(FIRST_RETRY_SECONDS * 2**one.tries, 60.0)
            self._schedule(one.record, pause * (1 if place < len(batch) / 2 else 2), one.tries + 1)


@dataclass(slots=True)
class BusRule:
    """Delivers events of the bus to the pager, if the pager handles their types (`EVENT_TYPES`).

    A delivery is retried until the handler accepts the event. `handled` are the ids of the accepted events in the order
    of their acceptance, including duplicates.
    """

    context: DeliveryContext
    handler: Callable[[dict[str, Any]], None]
    seen: int = 0
    handled: list[str] = field(default_factory=list)

    def deliver_new_events(self) -> None:
        """Schedule the delivery of the events for the pager that the bus accepted since the previous call."""
        accepted = self.context.ports.bus.accepted
        new, self.seen = accepted[self.seen :], len(accepted)
        for event in new:
            if event.detail_type in EVENT_TYPES:
                for _ in range(2 if self.context.is_duplicated() else 1):
                    self._schedule(json.loads(event.detail), self.context.delay(), 0)

    def _schedule(self, detail: dict[str, Any], seconds: float, tries: int) -> None:
        self.context.schedule.after(seconds, "pager", lambda: self._deliver(detail, tries))

    def _deliver(self, detail: dict[str, Any], tries: int) -> None:
        try:
            self.handler(detail)
            self.handled.append(detail["metadata"]["event_id"])
        except (Crash, Exception) as error:  # noqa: BLE001 - after any error the event is delivered again
            self.context.journal.add(Kind.STEP, f"pager ended: {type(error).__name__}")
            pause = min(FIRST_RETRY_SECONDS * 2**tries, MAX_RETRY_SECONDS)
            self._schedule(detail, pause * self.context.random.uniform(0.5, 1), tries + 1)
