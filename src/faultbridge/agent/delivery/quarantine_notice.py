"""Quarantine notice: a fault of severity `info` that reports a record which cannot be sent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from faultbridge.agent.delivery.outbox import Outbox
from faultbridge.agent.delivery.records import RecordPacker, Wait
from faultbridge.agent.host import AgentClock
from faultbridge.domain.times import to_text

SOURCE, CODE = "faultbridge", "agent.notice"
INTERVAL_SECONDS = 3600.0
MAX_TEXT = 500


@dataclass(slots=True)
class QuarantineNotice:
    """Stores at most one notice of each kind per hour.

    A notice reports that a record was kept in quarantine, was lost, or could not be sent for minutes; each of these is
    a kind. AWS may refuse a notice too. Without a limit, each refused notice would cause another notice. If a notice
    cannot be stored, it is counted as dropped, and the next notice is not delayed.
    """

    packer: RecordPacker
    outbox: Outbox
    clock: AgentClock
    _stored_at: dict[str, float] = field(default_factory=dict)

    def __call__(self, kind: str, reason: str) -> None:
        """Store a notice, unless a notice of this kind was stored less than an hour ago.

        `kind` states what happened to a record, and `reason` states why.
        """
        if self.clock.monotonic() - self._stored_at.get(kind, float("-inf")) < INTERVAL_SECONDS:
            return
        at = self.clock.now()
        text = f"{kind}: {reason}"[:MAX_TEXT]
        notice = {
            "kind": "fault",
            "source": SOURCE,
            "code": CODE,
            "severity": "info",
            "action": "none",
            "component": {"type": "node", "name": None},
            "observed_at": to_text(at),
            "message": text,
            "evidence": text,
        }
        record = self.packer.pack(SOURCE, json.dumps(notice).encode() + b"\n", at, wait=Wait.SHORT)
        # Not `store_repeatable`: records that wait for access are quarantined when probe output has no room.
        if record is not None and self.outbox.store(record):
            self._stored_at[kind] = self.clock.monotonic()
        else:
            self.outbox.dropped += 1
