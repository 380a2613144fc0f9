"""Heartbeats: the agent is here, what it could not do, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge import __version__
from faultbridge.agent import limits
from faultbridge.agent.clock import AgentClock
from faultbridge.agent.drops import Drops
from faultbridge.agent.followers import Follower
from faultbridge.agent.looks import Looks
from faultbridge.agent.outbox import Outbox
from faultbridge.agent.outgoing import Outgoing, Packer
from faultbridge.domain.times import to_text

SOURCE = "heartbeat"


@dataclass(slots=True)
class Pulse:
    """Makes heartbeats; `every` is how often they are promised, in seconds."""

    packer: Packer
    clock: AgentClock
    outbox: Outbox
    looks: Looks
    drops: Drops
    followers: Sequence[Follower]
    governor: limits.Governor
    every: int
    beats: int = 0

    def __call__(self) -> Outgoing:
        """Make one that is true now."""
        at = self.clock.now()
        self.beats += 1
        packed = self.packer.pack(SOURCE, json.dumps(self.body(to_text(at))).encode(), at)
        if packed is None:
            raise ValueError("a heartbeat fits into every message")
        return packed

    def body(self, at: str) -> dict[str, Any]:
        """Say what is known; a count is since the agent began."""
        return {
            "heartbeat": self.beats,
            "at": at,
            "agent": __version__,
            "interval_seconds": self.every,
            "node": self.packer.node,
            "instance_id": self.packer.instance_id,
            "boot_id": self.packer.boot_id,
            "uptime_seconds": int(self.clock.monotonic()),
            "waiting_records": self.outbox.waiting,
            "waiting_bytes": self.outbox.spool.used,
            "dropped_records": self.outbox.dropped,
            "unreadable_records": self.outbox.spool.unreadable,
            "bad_drops": self.drops.bad,
            "lost_lines": sum(follower.log.lost for follower in self.followers),
            "failing": self.looks.summary(),
            "memory_bytes": limits.resident_bytes(),
            "cpu_share": round(self.governor.spent(self.clock.monotonic(), limits.cpu_seconds()), 5),
        }
