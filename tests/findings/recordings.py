"""Synthetic recordings of a job on four nodes: what its agents and its rank 0 read. No real job was recorded.

A recording is made of minutes. In each, a function changes what the devices of the healthy job do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from faultbridge.model.findings import Finding
from faultbridge.node.agent.rates import DeviceRates, nvlink_rates
from faultbridge.node.agent.traffic import GpuWatch, TrafficWatch
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.repair.jobs.jobs import Jobs
from faultbridge.repair.jobs.progress import JobProgress
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY
from tests.world import World

NODES, GPUS = ("n-0", "n-1", "n-2", "n-3"), 8
JOB = "88213"
TICK, SMI, HEARTBEAT, COMPARISON = 30, 120, 150, 60
"""Seconds between two samples of ports, of GPUs, two heartbeats, and two sweeps."""

GB = 1_000_000_000
STORAGE = "mlx5_8"


@dataclass
class Device:
    """What one rank, its GPU and its network card do: the healthy values, before noise."""

    sent: float = 12 * GB
    lost: int = 0
    clock: float = 1980
    lanes: int = 16
    generation: int = 5
    nvlink: float = 180 * GB
    memory: int = 45
    step: float = 1.2


Change = Callable[[int, str, int, Device], None]
"""Changes what a device does in a minute: minute, node, number of the GPU and its card, and the device."""


def healthy(_minute: int, _node: str, _number: int, _device: Device) -> None:
    """Change nothing."""


@dataclass
class AgentOfNode:
    """What the agent of one node reads and states."""

    node: str
    random: Random
    ports: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rates = DeviceRates({f"mlx5_{number}": str(number) for number in range(GPUS)})
        self.traffic = TrafficWatch(lambda: dict(self.ports), 900, self.rates)
        self.gpus = GpuWatch(900, self.rates)

    def sample(self, world: World, second: int, devices: list[Device]) -> None:
        """Read the ports, and if it is time, the GPUs."""
        for number, device in enumerate(devices):
            sent, lost = self.ports.get(f"mlx5_{number}", (0, 0))
            self.ports[f"mlx5_{number}"] = sent + self.noisy(TICK * device.sent), lost + device.lost
        sent, _ = self.ports.get(STORAGE, (0, 0))
        self.ports[STORAGE] = sent + self.random.randrange(10**9), 0
        list(self.traffic.poll(world.now, second))
        if second % SMI == 0:
            list(self.gpus.read(self.smi(devices), world.now, second))
        if second % (2 * TICK) == 0:
            self.rates.add(second, nvlink_rates(self.page(devices)))

    def noisy(self, value: float) -> int:
        return int(value * self.random.gauss(1, 0.02))

    def smi(self, devices: list[Device]) -> bytes:
        return b"".join(
            b'<gpu id="0000"><current_link_gen>%d</current_link_gen><link_widths><current_link_width>%dx</link_widths>'
            b"<fb_memory_usage><used>70000 MiB</used></fb_memory_usage><utilization><gpu_util>100 %%</gpu_util>"
            b"<memory_util>%d %%</memory_util></utilization><instant_power_draw>600.5 W</instant_power_draw>"
            b"<current_power_limit>700.00 W</current_power_limit><clocks><sm_clock>%d MHz</sm_clock></clocks></gpu>"
            % (one.generation, one.lanes, one.memory, self.noisy(one.clock))
            for one in devices
        )

    def page(self, devices: list[Device]) -> bytes:
        line = b'DCGM_FI_PROF_NVLINK_%bX_BYTES{gpu="%d",UUID="GPU-%d"} %d\n'
        lines = (
            line % (way, number, number, self.noisy(one.nvlink))
            for number, one in enumerate(devices)
            for way in (b"T", b"R")
        )
        return b"".join(lines)

    def heartbeat(self, world: World) -> None:
        """Send a heartbeat."""
        stated = {"heartbeat": 1, "at": world.now.isoformat(), "node": self.node, "rates": self.rates.report}
        found = wire_ingest(world.app).ingest([world.message(json.dumps(stated), source="heartbeat", node=self.node)])
        assert not found.reasons


def replay(change: Change, minutes: int, seed: int = 7) -> tuple[World, list[tuple[int, Finding]]]:
    """Replay a recording; return the world, and each finding with the minute in which it was first there."""
    world, random, found = World(), Random(seed), dict[str, tuple[int, Finding]]()
    for node in NODES:
        world.register_node(node)
    jobs = Jobs(world.app.append)
    ranks = {node: f"{GPUS * number}-{GPUS * number + GPUS - 1}" for number, node in enumerate(NODES)}
    jobs.start(KEY.cluster, JOB, list(NODES), ranks=ranks)
    agents = {node: AgentOfNode(node, random) for node in NODES}
    for second in range(0, 60 * minutes, TICK):
        world.ports.clock.advance(timedelta(seconds=TICK))
        devices = devices_at(change, second // 60)
        for number, agent in enumerate(agents.values()):
            agent.sample(world, second, devices[agent.node])
            if (second + number * TICK) % HEARTBEAT == 0:
                agent.heartbeat(world)
        if second % COMPARISON == 0:
            times = [one.step * random.gauss(1, 0.02) for node in NODES for one in devices[node]]
            if min(times) > 0:
                JobProgress(jobs).heartbeat(KEY.cluster, JOB, second, step_seconds=times)
            compare(world)
            for one in findings(world, ended=True):
                found.setdefault(one.id, (second // 60, one))
    return world, list(found.values())


def devices_at(change: Change, minute: int) -> Mapping[str, list[Device]]:
    """Return what each device does in a minute."""
    found = {node: [Device() for _ in range(GPUS)] for node in NODES}
    for node, devices in found.items():
        for number, device in enumerate(devices):
            change(minute, node, number, device)
    return found


def compare(world: World, minutes: int = 0) -> None:
    """Let time pass, and compare the devices of the running jobs."""
    world.ports.clock.advance(timedelta(minutes=minutes))
    wire_sweep(world.app).cluster_steps.compare_peers(KEY.cluster)


def findings(world: World, *, ended: bool = False) -> list[Finding]:
    """Return the open findings, and with `ended` all of them."""
    return list(Judgments(world.app.append).list([KEY.cluster], ended=ended))
