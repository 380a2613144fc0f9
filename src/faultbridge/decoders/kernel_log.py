"""`kernel-log`: dmesg, /dev/kmsg, syslog and journald text; Xid, SXid, and lost GPUs that print neither."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.envelope import log_events
from faultbridge.decoders.kernel_prefix import USER, KernelMessage, unprefixed
from faultbridge.decoders.kernel_sxid import SxidReader
from faultbridge.decoders.kernel_xid import SOURCE, device_fault, read_xid
from faultbridge.domain.faults import (
    NODE_COMPONENT,
    Clear,
    Component,
    ComponentType,
    Fault,
    Observation,
    normalise_pci,
)
from faultbridge.errors import Rejected

LOST_CODE = "xid.79"
SAME_LOSS = timedelta(minutes=5)
_FRAMED_AT_MOST = 10_000
_BDF = r"([0-9a-fA-F]{0,8}:?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID = re.compile(rf"NVRM: GPU at PCI:{_BDF}: (GPU-[0-9a-fA-F-]{{8,40}})\s*$")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]{4,32})\s*$")
_LOST = re.compile(rf"NVRM: GPU {_BDF}: GPU has fallen off the bus")
_LOST_BEGINS = re.compile(rf"NVRM: The NVIDIA GPU {_BDF}\s*$")
_LOST_ENDS = re.compile(r"NVRM: fallen off the bus and is not responding to commands")
_LOST_MIDDLE = "NVRM: (PCI ID"
_INIT_FAILED = re.compile(rf"NVRM: GPU {_BDF}: (RmInitAdapter failed!.{{0,200}})", re.DOTALL)
_UVM_FATAL = re.compile(r"(?:NVRM: )?(nvGpuOpsReportFatalError: uvm encountered global fatal error.{0,200})", re.DOTALL)
# Messages whose prefix was cut off are still known by the driver or the phrase that they begin with.
_BARE = re.compile(
    r"NVRM: |nvidia[-_ ]|mlx[45]_|infiniband |efa |ena |pcieport |nvme |EXT4-fs|XFS |md/?raid|md\d* ?:"
    r"|watchdog: |INFO: task |Out of memory|oom-kill|Memory cgroup|blk_update_request|Buffer I/O"
)
_UPTIME_GAP = SAME_LOSS.total_seconds()


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read every line; only those that may say something about a GPU or a switch are looked at closely."""
    reading = _Reading(hints.received_at)
    framed = False
    for index, line in enumerate(_lines(body)):
        if _may_tell(line):
            message = unprefixed(line, hints.received_at)
            framed = framed or message.framed or _BARE.match(message.text) is not None
            reading.take(message)
        elif not framed and index < _FRAMED_AT_MOST:
            framed = _is_framed(line)
    if not framed:
        raise Rejected("no_framing", "no line looks like a kernel log")
    return reading.result()


def recognise(body: bytes) -> bool:
    """Tell whether the first lines look like a kernel's: its prefix, or a driver's name where prefixes were cut."""
    text = text_of(body)
    if "HealthMonitoringAgentDetectionEvent" in text or "<nvidia_smi_log" in text:
        return False
    return any(_is_kernels(line) for line in text.split("\n")[:200])


class _Reading:
    """What one input has told so far."""

    def __init__(self, received_at: datetime | None) -> None:
        self._received_at = received_at
        self._found: list[Fault | Clear] = []
        self._sxid = SxidReader(self._found)
        self._names: dict[str, dict[str, str]] = {}
        self._named: str | None = None
        self._losing: KernelMessage | None = None
        self._unnumbered: set[int] = set()

    def take(self, message: KernelMessage) -> None:
        if "Xid (" in message.text:
            self._xid(message)
        else:
            self._driver(replace(message, text=message.text.lstrip()))

    def _xid(self, message: KernelMessage) -> None:
        if message.text.startswith("nvidia-nvswitch"):
            self._sxid.read(message)
            return
        seen = read_xid(message)
        if seen is not None:
            self._found.append(seen)

    def _driver(self, message: KernelMessage) -> None:
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
            self._device(message, "host.gpu_init_failed", found[1], found[2])
        elif (found := _UVM_FATAL.match(text)) is not None:
            self._found.append(device_fault(message, "host.uvm_fatal", NODE_COMPONENT, found[1]))

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
        self._device(message, LOST_CODE, address, "GPU has fallen off the bus.")

    def _device(self, message: KernelMessage, code: str, address: str, text: str) -> None:
        gpu = Component(ComponentType.GPU, pci=normalise_pci(address))
        self._found.append(device_fault(message, code, gpu, text))

    def result(self) -> tuple[Observation, ...]:
        """Return the faults with the devices' names, without those that only repeat an Xid 79 in other words."""
        numbered = [
            one for place, one in enumerate(self._found) if one.code == LOST_CODE and place not in self._unnumbered
        ]
        return tuple(
            self._identified(one)
            for place, one in enumerate(self._found)
            if place not in self._unnumbered or not any(_same_loss(one, other) for other in numbered)
        )

    def _identified(self, one: Fault | Clear) -> Fault | Clear:
        component = one.component
        if component.type is not ComponentType.GPU or component.pci not in self._names:
            return one
        names = self._names[component.pci]
        return replace(one, component=replace(component, uuid=names.get("uuid"), serial=names.get("serial")))


def _same_loss(one: Fault | Clear, other: Fault | Clear) -> bool:
    """Tell whether two lines are about one loss: same device, not known to be more than five minutes apart."""
    if one.component.pci != other.component.pci:
        return False
    if one.observed_at is not None and other.observed_at is not None:
        return abs(one.observed_at - other.observed_at) <= SAME_LOSS
    first, second = one.attributes.get("uptime"), other.attributes.get("uptime")
    if first is None or second is None:
        return True
    return abs(float(first) - float(second)) <= _UPTIME_GAP


def _lines(body: bytes) -> list[str]:
    events = log_events(body)
    if events is not None:
        return [event.message for event in events]
    return text_of(body).split("\n")


def _may_tell(line: str) -> bool:
    # Asked of every line of every log, hence no loop and no pattern; a journal's byte array hides its words.
    if "Xid (" in line or "nvGpuOps" in line or '"MESSAGE":[' in line or '"MESSAGE" : [' in line:
        return True
    return "NVRM: " in line and (
        "NVRM: GPU" in line or "NVRM: The" in line or "NVRM: (P" in line or "NVRM: fall" in line
    )


def _is_framed(line: str) -> bool:
    return _BARE.match(line) is not None or unprefixed(line).framed


def _is_kernels(line: str) -> bool:
    message = unprefixed(line)
    certain = message.uptime is not None or message.facility is not None
    return certain or (message.framed and line.startswith("[")) or _BARE.match(message.text) is not None


DECODER = Decoder(
    name=SOURCE,
    summary="dmesg, /dev/kmsg, syslog and journald text of the kernel: Xid, SXid, GPUs off the bus",
    example="[ 8123.617543] NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    recognise=recognise,
    decode=decode,
)
