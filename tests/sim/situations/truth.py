"""Facts of a run that the product cannot read: which instances run work, and what operators saw."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.compute import CallResult, HostOutput
from tests.sim.environment.samples import kernel_line, nvidia_smi_xml
from tests.sim.fakes.orchestrator import FakeOrchestrator

if TYPE_CHECKING:
    from faultbridge.record.ports.orchestrator import ClusterNode
    from tests.sim.fakes import FakeFleet

LOST_XID = 79
"""The Xid of a GPU that nvidia-smi shows as lost."""

FORGED_CODES = frozenset({"xid.95", "sxid.20034"})
"""Fault codes that only programs of users write into the logs of a run."""

ANSWERING, BEAT = "saves", 300.0
"""The start of the ids of jobs that save each requested checkpoint, and the seconds between two heartbeats of a job."""


class EvictingOrchestrator(FakeOrchestrator):
    """A fake orchestrator whose drains end the work on some nodes at once, as Kubernetes evicts pods.

    `evictable` has the names of these nodes. `evicted` lists the node and the instance of each eviction.
    """

    evictable: frozenset[str] = frozenset()
    evicted: tuple[tuple[str, str], ...] = ()

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Drain a node; if its work can be evicted, the work ends, and the drain succeeds."""
        answer = super().drain(node, deadline)
        runs = answer.failure is ProviderFailure.TIMEOUT and not answer.no_response
        if not runs or node.node not in self.evictable:
            return answer
        instance = self._instance(node)
        self.evicted = (*self.evicted, (node.node, str(instance)))
        self.busy_until = {one: at for one, at in self.busy_until.items() if one not in {node.node, instance}}
        return CallResult(reason="the pods were evicted")


class Truth:
    """Facts of one run.

    `work` maps each instance to the time until which work runs on it. `seen` maps the name of each node that an
    operator ordered to replace to the instances that operators saw when they gave such an order. `shown` maps each
    instance to the Xid of its last fault, the number of the GPU, and the time.
    """

    def __init__(self, fleet: FakeFleet, orchestrator: EvictingOrchestrator) -> None:
        self._fleet, self._orchestrator = fleet, orchestrator
        self.work: dict[str, datetime] = {}
        self.seen: dict[str, set[str]] = {}
        self.shown: dict[str, tuple[int, int, datetime]] = {}

    def show(self, instance: str, xid: int, gpu: int) -> None:
        """Let an instance show a fault of a GPU from now on, in its kernel log and, for a lost GPU, in nvidia-smi."""
        self.shown[instance] = xid, gpu, self._fleet.clock.now()

    def host_output(self, instance: str) -> HostOutput | None:
        """Return what an instance shows now; None for each third instance, which Systems Manager does not reach."""
        if not self._fleet.is_alive(instance) or zlib.crc32(instance.encode()) % 3 == 0:
            return None
        now, (xid, gpu, at) = self._fleet.clock.now(), self.shown.get(instance, (0, 0, None))
        first = now - timedelta(days=2)
        log = f"{first:%Y-%m-%dT%H:%M:%S,%f}+00:00 Linux version 6.1\n".encode()
        log += kernel_line(xid, gpu, at) if xid else b""
        return HostOutput(None, log, first, nvidia_smi_xml("lost" if xid == LOST_XID else "", gpu, now))

    def begin_work(self, instance: str, until: datetime) -> None:
        """Let work run on an instance, so that a drain of its node waits or evicts the work."""
        self.work[instance] = until
        self._orchestrator.busy_until[instance] = until

    def end_work(self, instance: str) -> None:
        """End the work on an instance, for example because it reboots."""
        self.work.pop(instance, None)
        self._orchestrator.busy_until.pop(instance, None)

    def work_until(self, instance: str) -> datetime | None:
        """Return until when work runs on an instance, or None if none runs now."""
        until = self.work.get(instance)
        evicted = any(one == instance for _, one in self._orchestrator.evicted)
        runs = until is not None and until > self._fleet.clock.now() and self._fleet.is_alive(instance)
        return until if runs and not evicted else None
