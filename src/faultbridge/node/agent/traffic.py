"""Stopped work: reports a node whose RDMA ports stop sending, or whose GPUs stop working, after hours of a lot of it.

If a rank of a job waits for ever, all others wait too, although their GPUs stay busy. The collectives of a job that
trains on several nodes send data at every step; without it, `TrafficWatch` reports the node. A job on one node sends
nothing over these ports. `GpuWatch` reports a node whose GPUs, which a job still holds, neither access their memory nor
draw power. A job that never trained is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from faultbridge.node.agent.probes import FAULT_SOURCE, encode_report
from faultbridge.node.agent.rates import BUSY, COUNTED, Device, DeviceRates, Values

SAMPLE_SECONDS = 30.0
FLAT = 1_000_000
"""Bytes a second that all ports of a node send: up to this one it does not train; from `BUSY` on, it does."""

TRAINED_SECONDS = 600.0
"""Only the end of work that lasted so long in all is reported, so that the start of a job is no stop."""

_WORD = 4
"""`port_xmit_data` of an InfiniBand or RoCE port counts words of four bytes; `tx_bytes` of an EFA device, bytes."""


_LOSSES = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "retrans_pkts", "rx_drops")
"""Counters of RoCE, InfiniBand and EFA ports that rise when packets are lost and sent again."""

Ports = dict[str, tuple[int, int]]
"""For each RDMA port, such as `mlx5_0`, the bytes that it has sent since the boot, and the packets that were lost."""


def read_ports(folder: Path) -> Ports:
    """Return the counters of the RDMA ports below `folder`, `/sys/class/infiniband`, that count what they send."""
    found: Ports = {}
    for port in sorted(folder.glob("*/ports/*")):
        sent = _count(port / "hw_counters/tx_bytes")
        if sent is None:
            words = _count(port / "counters/port_xmit_data")
            sent = None if words is None else words * _WORD
        if sent is not None:
            device = port.parent.parent.name
            lost = sum(_count(port / "hw_counters" / name) or 0 for name in _LOSSES)
            found[device if port.name == "1" else f"{device}/{port.name}"] = sent, lost
    return found


def _count(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a node did in the `seconds` before `at`: whether it trained (`busy`), and whether it did nothing (`flat`).

    `text` says what flat means. `behind` are the numbers of the GPUs for which the others wait, if a counter shows it.
    `now` is monotonic.
    """

    at: datetime
    now: float
    seconds: float
    busy: bool
    flat: bool
    text: str
    behind: str = ""


@dataclass(slots=True)
class StopWatch:
    """Reports the code `code` once when work stops for `limit_seconds`, and its end when the work continues."""

    code: str
    limit_seconds: int
    _trained: float = 0.0
    _flat: tuple[float, datetime] | None = None
    _reported: bool = False

    def add(self, one: Sample) -> Iterator[tuple[str, bytes]]:
        """Add a sample; yield a fault or a clear, as source and body."""
        if not one.flat:
            self._flat = None
            self._trained = min(self._trained + one.seconds, TRAINED_SECONDS) if one.busy else self._trained
            if self._reported:
                self._reported = False
                yield FAULT_SOURCE, encode_report("clear", "traffic", self.code, "the node works again", one.at, "")
        elif self._trained >= TRAINED_SECONDS:
            self._flat = self._flat or (one.now - one.seconds, one.at - timedelta(seconds=one.seconds))
            if one.now - self._flat[0] >= self.limit_seconds:
                self._reported, self._trained = True, 0.0
                text = (
                    f"{one.text} for {int(one.now - self._flat[0])} s, after at least {int(TRAINED_SECONDS)} s of work"
                )
                behind = {"behind": one.behind} if one.behind else {}
                yield FAULT_SOURCE, encode_report("fault", "traffic", self.code, text, self._flat[1], "", behind)

    def forget(self) -> None:
        """Forget the work before, because its job ended; a stop that was reported stays reported."""
        self._trained, self._flat = 0.0, None


@dataclass(slots=True)
class TrafficWatch:
    """Watches what the RDMA ports of this node send. 0 s is no limit."""

    read: Callable[[], Ports]
    limit_seconds: int
    rates: DeviceRates = field(default_factory=DeviceRates)
    watch: StopWatch = field(init=False)
    _sampled: tuple[float, Ports] | None = None

    def __post_init__(self) -> None:
        """Watch for a stop."""
        self.watch = StopWatch("train.traffic_stopped", self.limit_seconds)

    def poll(self, at: datetime, now: float, behind: str = "") -> Iterator[tuple[str, bytes]]:
        """Take a sample if one is due; yield a fault or a clear, as source and body. `now` is monotonic."""
        if self.limit_seconds <= 0 or (self._sampled is not None and now - self._sampled[0] < SAMPLE_SECONDS):
            return
        before, ports = self._sampled, self.read()
        self._sampled = (now, ports) if ports else None
        total = sum(sent for sent, _ in ports.values())
        if before is None or not ports or total < sum(sent for sent, _ in before[1].values()):
            return  # the first sample, or a driver that was loaded again
        seconds = now - before[0]
        rises = {name: _rise(one, before[1].get(name, one)) for name, one in ports.items()}
        rate = sum(sent for sent, _ in rises.values()) / seconds
        own: dict[Device, Values] = {}
        for name, (sent, lost) in rises.items() if rate >= BUSY else ():
            own["nic", name] = {"sent_bytes": int(sent / seconds), COUNTED: lost}
        self.rates.add(now, own)
        text = f"at most {FLAT} bytes/s sent"
        yield from self.watch.add(Sample(at, now, seconds, rate >= BUSY, rate <= FLAT, text, behind))


def _rise(after: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    return max(0, after[0] - before[0]), max(0, after[1] - before[1])


WORKING, IDLE = (10, 50), (2, 40)
"""Percent of the time in which a GPU accesses its memory, and of its power limit.

From one of the first two on, it trains. Up to both of the second ones it does not, also if a kernel waits for a rank.
"""

HELD_MIB = 1024
"""A GPU with less memory in use runs no job."""

LAUNCHED = 90
"""Percent of the time in which a GPU runs a kernel that waits for a rank that is behind; the GPU behind runs none."""

_GPU = re.compile(rb"<gpu id=.*?</gpu>", re.DOTALL)
_POWER_DRAWS = (b"instant_power_draw", b"power_draw")
_POWER_LIMITS = (b"current_power_limit", b"enforced_power_limit", b"power_limit")


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """What one GPU does: the percentages of its time with a kernel and with memory access, and of its power limit.

    `rates` has its clock and the rate of its PCIe link, if known.
    """

    number: int
    kernel: float
    memory: float
    power: float
    rates: Values = field(default_factory=dict)


def gpu_loads(output: bytes) -> list[GpuLoad]:
    """Return what each GPU in the XML of nvidia-smi does, of those that a process holds and that report it."""
    found = []
    for number, gpu in enumerate(_GPU.findall(output)):
        held = _value(gpu.partition(b"<fb_memory_usage>")[2], b"used")
        kernel, memory = _value(gpu, b"gpu_util"), _value(gpu, b"memory_util")
        draw, limit = _value(gpu, *_POWER_DRAWS), _value(gpu, *_POWER_LIMITS)
        if held is None or kernel is None or memory is None or draw is None or not limit:
            continue
        if held >= HELD_MIB:
            found.append(GpuLoad(number, kernel, memory, 100 * draw / limit, _rates_of(gpu)))
    return found


_PCIE_MEGABYTES = {1: 250, 2: 500, 3: 985, 4: 1969, 5: 3938, 6: 7563}
"""What one lane of each PCIe generation moves in one direction, in MB/s."""

_LINK = re.compile(rb"<current_link_gen>(\d)<.*?<current_link_width>(\d{1,2})x", re.DOTALL)


def _rates_of(gpu: bytes) -> Values:
    link = _LINK.search(gpu)
    generation, width = (int(link[1]), int(link[2])) if link else (0, 0)
    clock = int(_value(gpu.partition(b"<clocks>")[2], b"sm_clock") or 0)
    found = {"clock_mhz": clock, "pcie_megabytes": _PCIE_MEGABYTES.get(generation, 0) * width}
    return {name: value for name, value in found.items() if value}


def _value(text: bytes, *names: bytes) -> float | None:
    matches = (re.search(rb"<%b>(\d+(?:\.\d+)?) " % name, text) for name in names)
    return next((float(match[1]) for match in matches if match), None)


def gpus_behind(loads: Sequence[GpuLoad]) -> str:
    """Return the numbers of the GPUs that run no kernel, if they are all, or if most others run one that waits."""
    behind = [str(one.number) for one in loads if one.kernel == 0]
    waiting = sum(one.kernel >= LAUNCHED for one in loads)
    shown = waiting + len(behind) == len(loads) and (len(behind) < waiting or waiting == 0)
    return ",".join(behind) if shown else ""


@dataclass(slots=True)
class GpuWatch:
    """Watches the GPUs of this node by the output of nvidia-smi, which is read anyway. 0 s is no limit."""

    limit_seconds: int
    rates: DeviceRates = field(default_factory=DeviceRates)
    behind: str = ""
    watch: StopWatch = field(init=False)
    _sampled: float | None = None

    def __post_init__(self) -> None:
        """Watch for a stop."""
        self.watch = StopWatch("train.gpus_stopped", self.limit_seconds)

    def read(self, output: bytes, at: datetime, now: float) -> Iterator[tuple[str, bytes]]:
        """Add an output of `nvidia-smi -q -x`; yield a fault or a clear, as source and body. `now` is monotonic."""
        if self.limit_seconds <= 0:
            return
        loads, before, self._sampled = gpu_loads(output), self._sampled, now
        # A clock or link of a GPU without work is slow on purpose.
        self.rates.add(now, {("gpu", one.number): one.rates for one in loads if one.memory >= WORKING[0]})
        self.behind = gpus_behind(loads)
        if not loads:
            self.watch.forget()
        elif before is not None:
            busy = any(one.memory >= WORKING[0] or one.power >= WORKING[1] for one in loads)
            flat = all(one.memory <= IDLE[0] and one.power <= IDLE[1] for one in loads)
            text = f"no memory access and little power of {len(loads)} GPUs that a job holds"
            yield from self.watch.add(Sample(at, now, now - before, busy, flat, text, self.behind))
