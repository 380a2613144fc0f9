"""Puts an agent together for the node that it runs on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from faultbridge.agent import identity, limits
from faultbridge.agent.agent import Agent
from faultbridge.agent.clock import AgentClock, SystemClock
from faultbridge.agent.drops import Drops
from faultbridge.agent.followers import Follower, Log
from faultbridge.agent.heartbeat import Pulse
from faultbridge.agent.journal import JournalLog
from faultbridge.agent.kmsg import KmsgLog
from faultbridge.agent.looks import Looks
from faultbridge.agent.marks import MarkFile
from faultbridge.agent.outbox import Outbox
from faultbridge.agent.outgoing import Packer
from faultbridge.agent.questions import questions
from faultbridge.agent.sender import Sender, Transport
from faultbridge.agent.settings import AgentSettings
from faultbridge.agent.spool import Spool


@dataclass(frozen=True, slots=True)
class _Parts:
    settings: AgentSettings
    clock: AgentClock
    spool: Spool
    outbox: Outbox
    packer: Packer

    def marks(self, log: str) -> MarkFile:
        """Take up a log where the file or, if that is later, the spool says that it was left."""
        marks = MarkFile(self.settings.spool / f"{log}.mark", log)
        spooled = self.spool.marks.get(log)
        if spooled is not None:
            marks.advance(spooled)
        return marks

    def follower(self, log: Log, marks: MarkFile) -> Follower:
        return Follower(log, marks, self.outbox, self.packer, self.clock)

    def followers(self) -> list[Follower]:
        marks = self.marks(KmsgLog.name)
        kernel = KmsgLog(self.settings.kmsg, self.packer.boot_id, marks.mark.value, self.clock)
        return [self.follower(kernel, marks), *(self._journal(*unit) for unit in self.settings.journal_units.items())]

    def _journal(self, unit: str, source: str) -> Follower:
        marks = self.marks(f"journal-{Path(unit).name}")
        return self.follower(JournalLog(unit, source, marks.mark.value, self.clock), marks)


def agent_of(settings: AgentSettings, transport: Transport | None = None, clock: AgentClock | None = None) -> Agent:
    """Make the agent of this node; without a transport it speaks to AWS."""
    clock = clock or SystemClock()
    packer = Packer(
        cluster=settings.cluster,
        node=settings.node or identity.host_name(),
        instance_id=settings.instance_id,
        boot_id=identity.boot_id(settings.boot_id),
        has_bucket=settings.bucket is not None,
    )
    spool = Spool(settings.spool / "spool", settings.spool_bytes)
    outbox = Outbox(spool)
    parts = _Parts(settings, clock, spool, outbox, packer)
    followers = parts.followers()
    looks = Looks(questions(settings), clock, limits.cpu_seconds)
    drops = Drops(settings.spool / "drop")
    governor = limits.Governor(clock.monotonic(), limits.cpu_seconds())
    pulse = Pulse(packer, clock, outbox, looks, drops, followers, governor, settings.heartbeat_seconds)
    sender = Sender(outbox, transport or _aws(settings, clock), clock, pulse, every=settings.heartbeat_seconds)
    return Agent(clock, followers, looks, drops, outbox, packer, sender, governor)


def _aws(settings: AgentSettings, clock: AgentClock) -> Transport:
    from faultbridge.agent.credentials import RoleCredentials, region_of
    from faultbridge.agent.transport import AwsTransport

    region = region_of(settings.queue_url, settings.region)
    return AwsTransport(settings.queue_url, settings.bucket, region, RoleCredentials(clock, os.environ), clock)
