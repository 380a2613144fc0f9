"""What the NVIDIA driver says about a GPU without an Xid: off the bus, not initialized, links not trained.

A loss is printed as `NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.`, or over three lines that begin with `NVRM:
The NVIDIA GPU`, and is the same as Xid 79 of that device within five minutes. Just before, the driver prints the
device's UUID and serial.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from faultbridge.decoders.kernel_prefix import USER, KernelMessage
from faultbridge.decoders.kernel_xid import device_fault, gpu_at
from faultbridge.domain.faults import NODE_COMPONENT, Clear, ComponentType, Fault, normalise_pci

LOST_CODE = "xid.79"
SAME_LOSS = timedelta(minutes=5)
_BDF = r"([0-9a-fA-F]{0,8}:?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID = re.compile(rf"NVRM: GPU at PCI:{_BDF}: (GPU-[0-9a-fA-F-]{{8,40}})$")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]{4,32})$")
_LOST = re.compile(rf"NVRM: GPU {_BDF}: GPU has fallen off the bus")
_LOST_BEGINS = re.compile(rf"NVRM: The NVIDIA GPU {_BDF}$")
_LOST_ENDS = re.compile(r"NVRM: fallen off the bus and is not responding to commands")
_LOST_MIDDLE = "NVRM: (PCI ID"
_INIT_FAILED = re.compile(rf"NVRM: GPU {_BDF}: (RmInitAdapter failed!.{{0,200}})", re.DOTALL)
_UVM_FATAL = re.compile(r"(?:NVRM: )?(nvGpuOpsReportFatalError: uvm encountered global fatal error.{0,200})", re.DOTALL)
_NVLINK_TRAINING = re.compile(r"NVRM: (knvlink\w{1,80}: .{0,60}Rx ?Det(?:ect)? ?Link ?Mask.{0,60})", re.IGNORECASE)


class GpuReader:
    """Reads the driver's messages of one input; remembers the names that it printed for each device."""

    def __init__(self, found: list[Fault | Clear]) -> None:
        """Collect into `found`, which other readers of the same input also fill."""
        self._found = found
        self._names: dict[str, dict[str, str]] = {}
        self._named: str | None = None
        self._losing: KernelMessage | None = None
        self._unnumbered: set[int] = set()

    def read(self, message: KernelMessage) -> None:
        """Take one message of the driver that is no Xid."""
        losing, self._losing = self._losing, None
        text = message.text
        if message.facility != USER and self._learn(text):
            return
        if (found := _LOST.match(text)) is not None:
            self._lost(message, found[1])
        elif _LOST_BEGINS.match(text) is not None or (losing and text.startswith(_LOST_MIDDLE)):
            self._losing = replace(losing, text=f"{losing.text}\n{text}") if losing else message
        elif losing and _LOST_ENDS.match(text):
            begun = _LOST_BEGINS.match(losing.text.partition("\n")[0])
            self._lost(replace(losing, text=f"{losing.text}\n{text}"), begun[1] if begun else "")
        elif (found := _INIT_FAILED.match(text)) is not None:
            self._found.append(device_fault(message, "host.gpu_init_failed", gpu_at(found[1]), found[2]))
        elif (found := _UVM_FATAL.match(text)) is not None:
            self._found.append(device_fault(message, "host.uvm_fatal", NODE_COMPONENT, found[1]))
        elif (found := _NVLINK_TRAINING.match(text)) is not None:
            self._found.append(device_fault(message, "host.nvlink_training_failed", NODE_COMPONENT, found[1]))

    def _learn(self, text: str) -> bool:
        """Keep the names that the driver prints for a device just before it complains about it."""
        found = _UUID.match(text)
        if found is not None:
            self._named = normalise_pci(found[1])
            self._names.setdefault(self._named, {})["uuid"] = found[2]
            return True
        found = _SERIAL.match(text)
        if found is not None and self._named is not None:
            self._names[self._named]["serial"] = found[1]
        return found is not None

    def _lost(self, message: KernelMessage, address: str) -> None:
        self._unnumbered.add(len(self._found))
        self._found.append(device_fault(message, LOST_CODE, gpu_at(address), "GPU has fallen off the bus."))

    def without_repetitions(self) -> list[Fault | Clear]:
        """Return what was found without the losses that only repeat an Xid 79 in other words."""
        if not self._unnumbered:
            return self._found
        numbered: dict[str | None, list[Fault | Clear]] = {}
        for place, one in enumerate(self._found):
            if one.code == LOST_CODE and place not in self._unnumbered:
                numbered.setdefault(one.component.pci, []).append(one)
        return [
            one
            for place, one in enumerate(self._found)
            if place not in self._unnumbered
            or not any(_same_time(one, other) for other in numbered.get(one.component.pci, ()))
        ]

    def named(self, found: Iterable[Fault | Clear]) -> tuple[Fault | Clear, ...]:
        """Return observations with the names that the driver printed for their devices."""
        return tuple(map(self._identified, found)) if self._names else tuple(found)

    def _identified(self, one: Fault | Clear) -> Fault | Clear:
        component = one.component
        if component.type is not ComponentType.GPU or component.pci not in self._names:
            return one
        names = self._names[component.pci]
        return replace(one, component=replace(component, uuid=names.get("uuid"), serial=names.get("serial")))


def _same_time(one: Fault | Clear, other: Fault | Clear) -> bool:
    """Tell whether two lines about one device are not known to be more than five minutes apart."""
    if one.observed_at is not None and other.observed_at is not None:
        return abs(one.observed_at - other.observed_at) <= SAME_LOSS
    first, second = one.attributes.get("uptime"), other.attributes.get("uptime")
    if first is None or second is None:
        return True
    return abs(float(first) - float(second)) <= SAME_LOSS.total_seconds()
