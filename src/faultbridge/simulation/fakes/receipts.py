"""Receipts in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.ports import Clock
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam


class FakeReceipts:
    """Receipts (fake) of senders and ingest alike."""

    def __init__(self, clock: Clock | None = None, *, seam: Seam | None = None) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.lines: list[tuple[datetime, dict[str, Any]]] = []

    def write(self, line: Mapping[str, Any]) -> None:
        """Make one conditional write."""
        with self.seam.around("receipts", "write", line):
            self.lines.append((self.clock.now(), json.loads(json.dumps(line))))

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Return the lines since an instant."""
        with self.seam.around("receipts", "read", since):
            yield from (line for at, line in self.lines if at >= since)
