"""Quarantine notice: a fault of severity `info` that reports a record which cannot be sent."""

from __future__ import annotations

import json
from dataclasses import dataclass

from faultbridge.agent.delivery.outbox import Outbox
from faultbridge.agent.delivery.records import RecordPacker, Wait
from faultbridge.agent.host import AgentClock
from faultbridge.domain.times import to_text

SOURCE, CODE = "faultbridge", "agent.notice"
INTERVAL_SECONDS = 3600.0
MAX_TEXT = 500


@dataclass(slots=True)
class QuarantineNotice:
    """Stores at most one quarantine notice per hour.

    A notice reports that a record was put into quarantine, or could not be sent for minutes. AWS may refuse a notice
    too. Without a limit, each refused notice would cause another notice. Heartbeats contain the number of all records
    in quarantine. A notice that the disk has no room for is counted as dropped, and does not delay the next notice.
    """

    packer: RecordPacker
    outbox: Outbox
    clock: AgentClock
    _stored_at: float = float("-inf")

    def __call__(self, text: str) -> None:
        """Store a notice with this text, unless a notice was stored less than an hour ago."""
        if self.clock.monotonic() - self._stored_at < INTERVAL_SECONDS:
            return
        at = self.clock.now()
        notice = {
            "kind": "fault",
            "source": SOURCE,
            "code": CODE,
            "severity": "info",
            "action": "none",
            "component": {"type": "node", "name": None},
            "observed_at": to_text(at),
            "message": text[:MAX_TEXT],
            "evidence": text[:MAX_TEXT],
        }
        record = self.packer.pack(SOURCE, json.dumps(notice).encode() + b"\n", at, wait=Wait.SHORT)
        # Not `store_repeatable`: records that wait for access are quarantined when probe output has no room.
        if record is not None and self.outbox.store(record):
            self._stored_at = self.clock.monotonic()
        else:
            self.outbox.dropped += 1
