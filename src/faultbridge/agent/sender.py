"""The sender: what waits to the queue, by tens, with ever longer pauses while that fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from faultbridge.agent.clock import AgentClock
from faultbridge.agent.outbox import Outbox
from faultbridge.agent.outgoing import Outgoing

AT_ONCE = 10
CALL_BYTES = 250 * 1024
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0


class NotSent(Exception):  # noqa: N818 - names the situation, which the network ends by itself
    """The queue or the bucket did not answer, or refused everything."""


class Transport(Protocol):
    """The way to the queue and to the bucket."""

    def send(self, records: Sequence[Outgoing]) -> tuple[set[str], set[str]]:
        """Send messages; returns the ids taken and those that never will be; NotSent when nothing got through."""
        ...

    def put(self, key: str, body: bytes) -> None:
        """Put a body into the bucket; raises NotSent."""
        ...


@dataclass(slots=True)
class Sender:
    """Sends from an outbox, and a heartbeat each `every` seconds; `heartbeat` makes one that is true now.

    A heartbeat is never kept: one that comes late would say that the clock is wrong.
    """

    outbox: Outbox
    transport: Transport
    clock: AgentClock
    heartbeat: Callable[[], Outgoing]
    every: float = 60.0
    random: random.Random = random.Random()  # noqa: RUF009, S311 - jitter, no secret
    sent: int = 0
    refused: int = 0
    failures: int = 0
    _beat_at: float = float("-inf")
    _quiet_until: float = float("-inf")

    def turn(self) -> bool:
        """Send what is due; False when there is nothing more to do just now. Never raises for the network."""
        now = self.clock.monotonic()
        beat = now - self._beat_at >= self.every
        if beat:
            self._beat_at = now
            self._try([self.heartbeat()])
        if now < self._quiet_until:
            return False
        taken = self.outbox.take(AT_ONCE, CALL_BYTES)
        if not taken:
            return False
        settled = self._try([record for _, record in taken])
        self.outbox.done(name for name, record in taken if record.record_id in settled)
        self.outbox.back()
        if settled:
            return True
        self._back_off(now)
        return False

    def _try(self, records: Sequence[Outgoing]) -> set[str]:
        try:
            for record in records:
                if record.key is not None:
                    self.transport.put(record.key, record.body)
            taken, never = self.transport.send(records)
        except NotSent:
            self.failures += 1
            return set()
        self.failures = 0
        self.sent += len(taken)
        self.refused += len(never)
        return taken | never

    def _back_off(self, now: float) -> None:
        longest = min(FIRST_PAUSE * 2 ** min(self.failures, 8), MAX_PAUSE)
        self._quiet_until = now + self.random.uniform(longest / 2, longest)
