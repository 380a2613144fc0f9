"""Rates of devices: what each network card and GPU did while a job trained, which the heartbeats state.

A device is compared with those of the other nodes of its job, so the best of several samples counts: it is alike on all
nodes, although they checkpoint, evaluate and are sampled at different times, and a slow device never reaches it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import and_, eq
from pathlib import Path

RETAINED_SECONDS = 300.0
BUSY = 10_000_000
"""Bytes a second that the ports of a node send, or a GPU moves over NVLink: from here on it trains."""

Values = dict[str, int]
Device = tuple[str, str | int]
"""The type of a component, and its name or its number."""

COUNTED = "lost_packets"
"""The value that is counted in each sample; the others are rates."""

_NVLINK = re.compile(
    rb'^DCGM_FI_PROF_NVLINK_[TR]X_BYTES\{[^}\n]*?gpu="(\d{1,3})"[^}\n]*\} (\d+(?:\.\d+)?(?:e\+?\d+)?)', re.MULTILINE
)


def nvlink_rates(page: bytes) -> dict[Device, Values]:
    """Return the bytes a second that each GPU moves over NVLink, by a page of dcgm-exporter that has these fields.

    The result is empty if no GPU moves a lot.
    """
    found: dict[Device, Values] = {}
    for number, rate in _NVLINK.findall(page):
        values = found.setdefault(("gpu", int(number)), {"nvlink_bytes": 0})
        values["nvlink_bytes"] += int(float(rate))
    return found if any(one["nvlink_bytes"] >= BUSY for one in found.values()) else {}


@dataclass(slots=True)
class DeviceRates:
    """Keeps the samples of five minutes; the thread that sends reads `report`, which is replaced as a whole."""

    near: Mapping[str, str] = field(default_factory=dict)
    report: list[dict[str, object]] = field(default_factory=list)
    _samples: deque[tuple[float, dict[Device, Values]]] = field(default_factory=deque)

    def add(self, now: float, found: dict[Device, Values]) -> None:
        """Add what devices did in a job, or nothing if none trained; `now` is monotonic."""
        self._samples.append((now, found))
        while self._samples[0][0] < now - RETAINED_SECONDS:
            self._samples.popleft()
        best: dict[Device, Values] = {}
        for _, sample in self._samples:
            for device, values in sample.items():
                own = best.setdefault(device, {})
                for name, value in values.items():
                    before = own.get(name, 0)
                    own[name] = before + value if name == COUNTED else max(before, value)
        self.report = [
            {"component": {"type": kind, "index" if kind == "gpu" else "name": name}, "values": self._stated(name, own)}
            for (kind, name), own in best.items()
        ]

    def _stated(self, name: str | int, values: Values) -> dict[str, int | str]:
        near = self.near.get(str(name).partition("/")[0])
        return {**values, "gpus": near} if near else dict(values)


def gpus_near(sysfs: Path, output: bytes) -> dict[str, str]:
    """Return the numbers of the GPUs that share the nearest PCIe switch with each RDMA device, by its name.

    `output` is the XML of nvidia-smi, which has the PCI addresses. A device that shares no switch has no GPU.
    """
    addresses = re.findall(rb'<gpu id="[0-9A-Fa-f]{4}([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"', output)
    gpus = [_bridges(sysfs / "bus/pci/devices" / one.decode().lower()) for one in addresses]
    found = {}
    for device in sorted(sysfs.glob("class/infiniband/*")):
        own = _bridges(device / "device")
        shared = [sum(accumulate(map(eq, own, gpu), and_)) for gpu in gpus]
        nearest = max(shared, default=0)
        if nearest > 1:  # the first part is the root complex
            found[device.name] = ",".join(str(number) for number, depth in enumerate(shared) if depth == nearest)
    return found


def _bridges(device: Path) -> list[str]:
    """Return the root complex and the bridges above a PCI device."""
    parts = Path(os.path.realpath(device)).parts
    first = next((at for at, part in enumerate(parts) if part.startswith("pci") and ":" in part), len(parts))
    return list(parts[first:-1])
