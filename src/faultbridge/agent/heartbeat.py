"""Heartbeats: records which show that the agent runs, with its failing probes and resource use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge import __version__
from faultbridge.agent import resource_limits
from faultbridge.agent.delivery.outbox import Outbox
from faultbridge.agent.delivery.records import OutgoingRecord, RecordPacker
from faultbridge.agent.delivery.service_clock import ServiceClock
from faultbridge.agent.drop_folder import DropFolder
from faultbridge.agent.host import AgentClock
from faultbridge.agent.log_follower import Follower
from faultbridge.agent.probes import ProbeScheduler
from faultbridge.domain.times import to_text

SOURCE = "heartbeat"
MAX_REFUSAL = 300


@dataclass(slots=True)
class HeartbeatBuilder:
    """Builds heartbeats. Each heartbeat states the maximum time until the next one: `interval_seconds`."""

    packer: RecordPacker
    clock: AgentClock
    outbox: Outbox
    probes: ProbeScheduler
    drop_folder: DropFolder
    followers: Sequence[Follower]
    cpu_budget: resource_limits.CpuBudget
    services: ServiceClock
    interval_seconds: int
    count: int = 0

    def __call__(self) -> OutgoingRecord:
        """Build a heartbeat of the current state as a record that can be sent."""
        at = self.clock.now()
        self.count += 1
        record = self.packer.pack(SOURCE, json.dumps(self.body(to_text(at))).encode(), at)
        if record is None:
            raise ValueError("a heartbeat is larger than the queue accepts")
        return record

    def body(self, at: str) -> dict[str, Any]:
        """Return the fields of a heartbeat; `at` is the time of the heartbeat.

        `waiting_records` and `waiting_bytes` are current values, without records in quarantine. The other
        counts of records, lines, cursors and files, and `cpu_share`, are since the agent started.
        """
        return {
            "heartbeat": self.count,
            "at": at,
            "agent": __version__,
            "interval_seconds": self.interval_seconds,
            "node": self.packer.node,
            "instance_id": self.packer.instance_id,
            "boot_id": self.packer.boot_id,
            "uptime_seconds": int(self.clock.monotonic()),
            "waiting_records": self.outbox.waiting,
            "waiting_bytes": self.outbox.waiting_bytes,
            "dropped_records": self.outbox.dropped,
            "quarantined_records": self.outbox.quarantined,
            "refusal": self.outbox.refusal[:MAX_REFUSAL],
            "unstored_cursors": sum(follower.cursors.failures for follower in self.followers),
            "service_clock_offset_seconds": round(self.services.offset.total_seconds()),
            "unreadable_records": self.outbox.spool.unreadable,
            "bad_drops": self.drop_folder.refused,
            "lost_lines": sum(follower.log.lost_lines for follower in self.followers),
            "failing": self.probes.failing(),
            "memory_bytes": resource_limits.resident_bytes(),
            "cpu_share": round(self.cpu_budget.used_share(self.clock.monotonic(), resource_limits.cpu_seconds()), 5),
        }
