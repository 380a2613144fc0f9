"""Followers: a log, line after line, into records that are safe before the log counts as read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from faultbridge.agent.clock import AgentClock
from faultbridge.agent.folding import Line, LineBatch
from faultbridge.agent.marks import MarkFile
from faultbridge.agent.outbox import Outbox
from faultbridge.agent.outgoing import Mark, Outgoing, Packer

READ_AT_ONCE = 128 * 1024


class Log(Protocol):
    """Something that can be read on from a mark, without waiting."""

    name: str
    source: str
    lost: int

    def read(self, most: int) -> Iterator[Line]:
        """Yield the lines that are there, about so many bytes of them."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@dataclass(slots=True)
class Follower:
    """Turns one log into records. While neither disk nor network takes its last one, it reads no further."""

    log: Log
    marks: MarkFile
    outbox: Outbox
    packer: Packer
    clock: AgentClock
    _batch: LineBatch = field(default_factory=LineBatch)
    _held: Outgoing | None = None
    _lent: bool = False

    def turn(self) -> None:
        """Read what is there and let go what is due."""
        if self._held is not None and not self._settle(self._held):
            return
        now = self.clock.monotonic()
        for line in self.log.read(READ_AT_ONCE):
            self._batch.add(line, now)
        if self._batch.due(now):
            self.flush()

    def flush(self) -> None:
        """Let go everything that was read."""
        if self._held is not None:
            return
        body = self._batch.take(self.clock.monotonic())
        if not body:
            return
        value = self._batch.mark
        mark = None if value is None else Mark(self.log.name, self.marks.mark.n + 1, value)
        record = self.packer.pack(self.log.source, body, self.clock.now(), mark)
        if record is not None:
            self._held, self._lent = record, False
            self._settle(record)

    def _settle(self, record: Outgoing) -> bool:
        """Bring a record to safety; its mark holds from then on, and not before."""

        def safe() -> None:
            if record.mark is not None:
                self.marks.advance(record.mark)

        if not self._lent and not self.outbox.keep(record, safe):
            self._lent = self.outbox.lend(record, safe)
            return False
        if self._lent and not self.outbox.settled(record):
            return False
        self._held = None
        return True
