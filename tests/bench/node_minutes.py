"""What the agent of a node sends, recorded from the agent itself: calls, messages, and the bytes of each call.

The probes return bodies with the sizes of real captures, because no GPU is needed to send them. Faults are lines in a
kernel log that the agent reads.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from faultbridge.decode.data.counters import counters_of
from faultbridge.model.values import replace
from faultbridge.node.agent.agent import build_agent
from faultbridge.node.agent.child_processes import Outcome, ProbeResult
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.transport import text_of, to_messages
from faultbridge.node.agent.probes import counters_with_threshold
from faultbridge.node.agent.settings import AgentSettings
from tests.agent.builders import KernelRing
from tests.agent.fakes import ManualClock

GPUS = 8
XML_FIELDS_PER_GPU = 700
"""With so many fields the report of eight GPUs has the size of a real one: 212 KB, 6 KB compressed."""


@dataclass(frozen=True)
class Call:
    """One call of the queue, after so many seconds: its messages, each with its records."""

    at: float
    messages: tuple[tuple[OutgoingRecord, ...], ...]

    @property
    def size(self) -> int:
        """The bytes that SQS bills."""
        return sum(len(text_of(message)) for message in self.messages)


class RecordingTransport:
    """A transport that accepts and records every call."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self._start = clock, clock.uptime
        self.calls: list[Call] = []

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        """Accept all records."""
        self.calls.append(Call(self._clock.uptime - self._start, tuple(map(tuple, to_messages(records)))))
        return {record.record_id for record in records}, set()

    def put_object(self, key: str, body: bytes) -> None:
        """Accept the object."""
        raise AssertionError(f"a probe's output does not fit into a message: {key}, {len(body)} bytes")


def nvidia_smi(minute: int) -> bytes:
    """Return a report of eight healthy GPUs."""
    fields = "".join(
        f"\t\t<field_{n}_{n * 7919 % 997}>{n % 5} N/A</field_{n}_{n * 7919 % 997}>\n" for n in range(XML_FIELDS_PER_GPU)
    )
    gpus = "".join(
        f'\t<gpu id="00000000:{gpu:02X}:00.0">\n\t\t<uuid>{_uuid(gpu)}</uuid>\n\t\t<temperature>{40 + minute % 7} C'
        f"</temperature>\n{fields}\t</gpu>\n"
        for gpu in range(GPUS)
    )
    head = f'<?xml version="1.0" ?>\n<nvidia_smi_log>\n\t<attached_gpus>{GPUS}</attached_gpus>\n'
    return f"{head}{gpus}</nvidia_smi_log>\n".encode()


def exporter(minute: int) -> bytes:
    """Return a page of dcgm-exporter: 18 KB, as that of a real node."""
    names = ("XID_ERRORS", "ECC_DBE_VOL_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "GPU_TEMP", "POWER_USAGE", "GPU_UTIL")
    fields = (*names, *(f"FIELD_{n}" for n in range(12)))
    return "".join(
        f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="{_uuid(gpu)}",pci_bus_id="00000000:{gpu:02x}:00.0",device="nvidia{gpu}",'
        f'modelName="NVIDIA H100 80GB HBM3",Hostname="node"}} {minute % 7 if "GPU_" in name else 0}\n'
        for gpu in range(GPUS)
        for name in fields
    ).encode()


def _uuid(gpu: int) -> str:
    """Return a GPU's identifier, as random as a real one: it compresses as badly."""
    return f"GPU-{uuid5(NAMESPACE_OID, str(gpu))}"


def ports(devices: int) -> bytes:
    """Return what the agent sends of RDMA ports: their states, and the counters that have a threshold."""
    path = "/sys/class/infiniband/rdmap{}/ports/1/{}: {}\n"
    states = [("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "100 Gb/sec"), ("link_layer", "Ethernet")]
    names = [f"hw_counters/{name}" for name in sorted(counters_of("rdma-counters"))]
    lines = []
    for device in range(devices):
        counters = [(name, 104_729 * (device + n) % 99_991 if (device + n) % 3 else 0) for n, name in enumerate(names)]
        lines += [path.format(device, *one) for one in (*states, *counters)]
    return "".join(lines).encode()


def ethtool(minute: int, devices: int) -> bytes:
    """Return what the agent sends of the statistics of all interfaces."""
    statistics = counters_with_threshold(_interface(minute))
    return b"".join(b"eth%d:\n%s" % (number, statistics) for number in range(devices))


def _interface(minute: int) -> bytes:
    """Return the statistics of one interface: 3.6 KB, as that of an ENA device, which has four thresholds."""
    moving = "".join(f"     queue_{n}_rx_bytes: {10**9 * minute + n}\n" for n in range(16))
    return (
        "NIC statistics:\n     tx_timeout: 0\n     wd_expired: 0\n     reset_fail: 0\n     missing_admin_interrupt: 0\n"
        + moving
        + "".join(f"     queue_{n}_tx_dma_mapping_err: 0\n" for n in range(84))
    ).encode()


def links(devices: int) -> bytes:
    """Return the state of the interfaces, as `ip -j link` prints it."""
    flags = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
    one = {"flags": flags, "mtu": 9001, "qdisc": "mq", "operstate": "UP", "link_type": "ether"}
    return json.dumps([{"ifindex": n, "ifname": f"eth{n}", **one} for n in range(devices)]).encode()


def record(
    folder: Path,
    *,
    devices: int,
    minutes: int,
    faults: Sequence[tuple[float, str]] = (),
    heartbeat: int = 140,
    hold: int = 120,
) -> list[Call]:
    """Run an agent on a node with so many network devices; return its calls.

    Each fault is a kernel line with its time in seconds.
    """
    for number in range(devices):
        (folder / "sys" / "class" / "net" / f"eth{number}" / "device").mkdir(parents=True)
    settings = AgentSettings(
        "train-a", "https://queue", bucket="bucket", node="n0", instance_id="i-0123456789abcdef0", spool=folder,
        kmsg=folder / "kmsg", boot_id=folder / "none", sysfs=folder / "sys", journal_units={},
        heartbeat_seconds=heartbeat, hold_seconds=hold,
    )  # fmt: skip
    clock = ManualClock()
    transport = RecordingTransport(clock)
    agent = build_agent(settings, transport, clock)
    agent.cpu_seconds = agent.probes.cpu_seconds = lambda: 0.0

    def minute() -> int:
        return int(clock.uptime) // 60

    bodies: dict[str, Callable[[], bytes]] = {
        "nvidia-smi-xml": lambda: nvidia_smi(minute()),
        "dcgm-health": lambda: b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}',
        "dcgm-metrics": lambda: exporter(minute()),
        "link-state": lambda: links(devices),
        "rdma-counters": lambda: ports(devices),
        "ethtool-stats": lambda: ethtool(minute(), devices),
    }

    def answer(source: str) -> Callable[[], ProbeResult]:
        return lambda: ProbeResult(Outcome.DONE, bodies[source]())

    agent.probes.probes = tuple(replace(probe, start=answer(probe.source)) for probe in agent.probes.probes)
    start, ring, unread = clock.uptime, KernelRing(folder / "kmsg", clock), deque(sorted(faults))
    while clock.uptime < start + 60 * minutes:
        while unread and unread[0][0] <= clock.uptime - start:
            ring.append(unread.popleft()[1])
        agent.poll()
        while agent.sender.send_due():
            pass
        clock.advance(0.5)  # the pauses of the sender between two batches
    agent.close()
    return transport.calls
