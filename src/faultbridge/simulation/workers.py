"""The product's functions as Lambda runs them: the real composition over fakes, killed and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.composition.installation import Installation, Timing
from faultbridge.errors import Transient
from faultbridge.ingest.delivery_audit import outcome_lines
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ingest.send import Parcel, Send
from faultbridge.ledger.append import Stack
from faultbridge.pager.page import PagerSettings
from faultbridge.registry.instances import Synced
from faultbridge.simulation.chaos import Chaos, Crash
from faultbridge.simulation.fakes.queue import Waiting
from faultbridge.simulation.journal import Journal
from faultbridge.simulation.ports import SimulatedPorts
from faultbridge.storage.writes import Item

STACK = Stack("simulated-stack", "faultbridge")
EXPECTED = ("Transient", "Conflict")
"""The only errors that a part of a sweep or of a doorbell may end with: the world's, not ours."""


class Workers:
    """One method a function; each takes what the entry point hands over and does with the answer what AWS does."""

    def __init__(self, ports: SimulatedPorts, chaos: Chaos, journal: Journal, random: Random) -> None:
        self._ports = ports
        self._chaos = chaos
        self._journal = journal
        self._random = random
        self._records = 0
        self._batches = 0
        self.orphans = 0
        self._applications: dict[str, Installation] = {}

    def application(self, name: str = "operator") -> Installation:
        """Return the services as one process has them; a killed process leaves nothing to the next."""
        if name not in self._applications:
            chance = Timing(self._chaos.schedule.let_others, self._random)
            made = Installation(self._ports, STACK, probe_seconds=30, chance=chance)
            made.inventories = lambda: self._ports.inventories
            made.pager_settings = lambda: PagerSettings(remind_after=timedelta(days=90))
            self._applications[name] = made
        return self._applications[name]

    def ingest(self, batch: Sequence[Waiting]) -> set[str]:
        """Work a batch of the raw queue; returns the ids of the messages that come again.

        Two processes take turns, so that each knows things that the other does not.
        """
        self._batches += 1
        with self._process(f"ingest-{self._batches % 2}") as application:
            found = application.ingestion.ingest([_delivery(message) for message in batch])
            for line in outcome_lines(found.outcomes):
                self._ports.receipts.write(line)
            return found.failed

    def publish(self, entries: Sequence[Item]) -> None:
        """Take new entries from the stream."""
        with self._process("publish") as application:
            application.ledger.publish(entries)

    def react(self, entries: Sequence[Item]) -> None:
        """Take new entries as doorbells."""
        with self._process("react") as application:
            node = [(str(one["cluster"]), None if one["node"] is None else str(one["node"])) for one in entries]
            try:
                application.ops.react(set(node))
            except Transient as error:
                self._judge("react", str(error).split("; "))
                raise

    def page(self, detail: dict[str, Any]) -> None:
        """Take one event of the bus."""
        with self._process("pager") as application:
            application.pager.page(detail)

    def step(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        """Run one step of an attempt; a killed worker is an error to the state machine."""
        try:
            with self._process("step") as application:
                return application.repair.step_runner(payload, payload.get("token"))
        except Crash as crash:
            raise RuntimeError(f"the function ended: {crash}") from None

    def sweep(self) -> None:
        """Do the minute's round."""
        with self._process("sweep") as application:
            swept = application.ops.sweep()
            self.orphans += swept.released
            self._judge("sweep", swept.failures)

    def look(self) -> tuple[Synced, ...]:
        """Compare what providers have with what is registered."""
        with self._process("inventory") as application:
            return application.registry.inventory()

    def remind(self) -> None:
        """Send the summaries that are due; reminders are months away, for a history ends when nothing moves."""
        with self._process("pager") as application:
            application.pager.remind()

    def send(self, parcel: Parcel, skew: float = 0.0) -> tuple[str, ...]:
        """Send a raw record as an agent whose clock is off by so many seconds does."""
        clock = _SkewedClock(self._ports, skew)
        with self._process("source"):
            send = Send(self._ports.queue, self._ports.objects, self._ports.receipts, clock, self._new_id, "agent")
            return send([parcel]).accepted

    def operate(self, do: Callable[[Installation], object]) -> None:
        """Do what an operator orders through the command line; what fails is ordered again later."""
        with self._process("operator") as application:
            do(application)

    def _new_id(self) -> str:
        self._records += 1
        return f"record-{self._records}"

    @contextmanager
    def _process(self, name: str) -> Iterator[Installation]:
        with self._chaos.worker(name):
            try:
                yield self.application(name)
            except Crash:
                self._applications.pop(name, None)
                raise
            except Transient:
                raise
            except Exception as error:
                self._unexpected(name, f"{type(error).__name__}: {error}")
                raise

    def _judge(self, name: str, failures: Sequence[str]) -> None:
        for failure in failures:
            if not any(f": {kind}: " in failure for kind in EXPECTED):
                self._unexpected(name, failure)

    def _unexpected(self, name: str, text: str) -> None:
        self._journal.problem("nothing fails but by the world's fault", f"{name}: {text[:300]}")


class _SkewedClock:
    def __init__(self, ports: SimulatedPorts, skew: float) -> None:
        self._ports = ports
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        return self._ports.clock.now() + self._skew


def _delivery(message: Waiting) -> Delivery:
    return Delivery(str(message.number), message.body, message.sent_at, receives=message.receive_count)
