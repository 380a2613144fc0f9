"""Reads kernel messages without an Xid: about the GPU driver, NICs, disks, memory and CPUs.

`DriverMessageReader` reads what a pattern alone cannot: losses on several lines, and the names of GPUs. `HostReader`
reads all other messages by the rows of `data/texts/kernel.json`, which avoid similar lines of other drivers, of
containers and of a normal boot. `found` is the list of observations of one input, and positions in it identify them.
Source: Linux 4 to 6.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from faultbridge.decode.data import table
from faultbridge.decode.data.patterns import Pattern, first_match, packaged_texts
from faultbridge.decode.frames.decoder import to_clear, truncate
from faultbridge.decode.frames.prefix import USER, KernelMessage
from faultbridge.decode.frames.values import lazy_pattern
from faultbridge.decode.kernel.xid import device_fault, gpu_at
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, normalize_pci
from faultbridge.model.values import replace

LOST_CODE = "xid.79"
_SAME_LOSS = 5 * 60 * 10**6
_MAX_WEAK = 64  # bounds the comparisons of a crafted log
_MAX_CLOCK_STEP = 60 * 10**6  # a node restarts more slowly, so a larger step is another boot
_BDF = r"([0-9a-fA-F]{0,8}:?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_NAMED = lazy_pattern(
    rf"NVRM: GPU (?:at PCI:{_BDF}: (GPU-[0-9a-fA-F-]{{8,40}})|Board Serial Number: ([0-9A-Za-z]{{4,32}}))$"
)
_LOST = lazy_pattern(rf"NVRM: (?:The NVIDIA )?GPU {_BDF}.{{0,80}}has fallen off the bus", re.DOTALL)
_LOST_START = lazy_pattern(rf"NVRM: The NVIDIA GPU {_BDF}(?: \(PCI ID: .{{1,80}})?$")
_LOST_END = lazy_pattern(r"(?:NVRM: )?(?:system )?(?:has )?fallen off the bus and is not responding to commands")
_LOST_MIDDLE = "NVRM: (PCI ID"


@dataclass(slots=True)
class DriverMessageReader:
    """Reads messages of the driver about lost GPUs and the names of GPUs."""

    found: list[Fault | Clear]
    weak: dict[int, Sequence[str]] = field(default_factory=dict)
    _moments: dict[int, _Moment] = field(default_factory=dict)
    _weak_of: defaultdict[Component, set[int]] = field(default_factory=lambda: defaultdict(set))
    _names: dict[str, dict[str, str]] = field(default_factory=dict)
    _last_named: str | None = None
    _pending_loss: KernelMessage | None = None
    _unnumbered: set[int] = field(default_factory=set)

    def read(self, message: KernelMessage) -> bool:
        """Read a message about a lost GPU or the names of a GPU. Returns False if the message is of another kind."""
        pending, self._pending_loss = self._pending_loss, None
        text = message.text
        if message.facility != USER and self._learn_names(text):
            return True
        if (found := _LOST.match(text)) is not None:
            self._lost(message, found[1])
        elif _LOST_START.match(text) is not None or (pending and text.startswith(_LOST_MIDDLE)):
            self._pending_loss = replace(pending, text=f"{pending.text}\n{text}") if pending else message
        elif pending and _LOST_END.match(text):
            first_line = _LOST_START.match(pending.text.partition("\n")[0])
            self._lost(replace(pending, text=f"{pending.text}\n{text}"), first_line[1] if first_line else "")
        else:
            return False
        return True

    def _learn_names(self, text: str) -> bool:
        found = _NAMED.match(text)
        if found is None:
            return False
        address, uuid, serial = found.groups()
        if address is not None:
            self._last_named = normalize_pci(address)
            self._names.setdefault(self._last_named, {})["uuid"] = uuid
        elif self._last_named is not None:
            self._names[self._last_named]["serial"] = serial
        return True

    def _lost(self, message: KernelMessage, address: str) -> None:
        self._unnumbered.add(len(self.found))
        self.found.append(device_fault(message, LOST_CODE, gpu_at(address), "GPU has fallen off the bus."))

    def add_weak(self, fault: Fault, unless: Sequence[str]) -> None:
        """Append a fault that a fault with a code in `unless` explains, or count it if the same boot already has it."""
        component, unnamed = fault.component, Component(fault.component.type)
        moment, of_unnamed = _Moment(fault), self._weak_of[unnamed]
        # The driver names the GPU in some of its messages about one event.
        same = self.weak if component == unnamed else sorted(of_unnamed.union(self._weak_of.get(component, ())))
        for position in same:
            known = self.found[position]
            if known.code == fault.code and isinstance(known, Fault) and self._moment_of(position).same_boot(moment):
                if position in of_unnamed:
                    of_unnamed.remove(position)
                    self._weak_of[component].add(position)
                else:
                    component = known.component
                self.found[position] = replace(known, component=component, count=known.count + fault.count)
                return
        if len(self.weak) < _MAX_WEAK:
            self._weak_of[component].add(len(self.found))
            self.weak[len(self.found)] = unless
            self.found.append(fault)

    def _moment_of(self, position: int) -> _Moment:
        """Return the moment of an observation, computed again if the observation was replaced."""
        moment = self._moments.get(position)
        if moment is None or moment.of is not self.found[position]:
            moment = self._moments[position] = _Moment(self.found[position])
        return moment

    def without_explained(self) -> list[Fault | Clear]:
        """Return the observations without those that another one explains.

        - A loss of a GPU without an Xid is left out if an Xid 79 of the same GPU and boot reports it. If both messages
          have a time, at most five minutes may be between them.
        - A fault in `weak` is left out if the same boot has a fault that explains it.
        """
        if not self._unnumbered and not self.weak:
            return self.found
        numbered: dict[str | None, list[_Moment]] = {}
        for position, one in enumerate(self.found):
            is_numbered = one.code == LOST_CODE and position not in self._unnumbered and position not in self.weak
            # What a program wrote does not replace a message of the driver.
            if is_numbered and one.attributes.get("facility") != USER:
                numbered.setdefault(one.component.pci, []).append(_Moment(one))
        explained = {
            position
            for position in self._unnumbered
            if _Moment(self.found[position]).same_time(numbered.get(self.found[position].component.pci, ()))
        }
        explaining = frozenset(code for codes in self.weak.values() for code in codes)
        strong = [
            (one.code, _Moment(one))
            for position, one in enumerate(self.found)
            if one.code in explaining and position not in self.weak and isinstance(one, Fault)
        ]
        for position, codes in self.weak.items():
            moment = self._moment_of(position)
            if any(code in codes and one.same_boot(moment) for code, one in strong):
                explained.add(position)
        return [one for position, one in enumerate(self.found) if position not in explained]

    def with_device_names(self, found: Iterable[Fault | Clear]) -> tuple[Fault | Clear, ...]:
        """Return the observations. A GPU gets the UUID and serial number that the driver printed for it."""
        return tuple(map(self._with_names, found)) if self._names else tuple(found)

    def _with_names(self, observation: Fault | Clear) -> Fault | Clear:
        component = observation.component
        if component.type is not ComponentType.GPU or component.pci not in self._names:
            return observation
        names = self._names[component.pci]
        return replace(observation, component=replace(component, uuid=names.get("uuid"), serial=names.get("serial")))


class _Moment:
    """The boot and the time of an observation, in microseconds; an unknown number is NaN and exceeds no limit."""

    __slots__ = ("at", "boot", "boot_id", "node", "of", "start", "uptime")

    def __init__(self, one: Fault | Clear) -> None:
        self.of, uptime = one, one.attributes.get("uptime")
        self.uptime = nan if uptime is None else round(float(uptime) * 1e6)
        self.at = nan if one.observed_at is None else round(one.observed_at.timestamp() * 1e6)
        self.start, self.node = self.at - self.uptime, one.node
        self.boot, self.boot_id = one.attributes.get("boot"), one.attributes.get("boot_id")

    def same_boot(self, other: _Moment) -> bool:
        """Return whether two messages may be of the same boot of the same node.

        They are not if both name a node or a boot id and the names differ, if only one is marked as a message of an
        earlier boot, or if both have a time and an uptime, from which their boots were over a minute apart.
        """
        return (
            (self.node == other.node or not self.node or not other.node)
            and not abs(self.start - other.start) > _MAX_CLOCK_STEP
            and (self.boot_id == other.boot_id or not self.boot_id or not other.boot_id)
            and self.boot == other.boot
        )

    def same_time(self, others: Iterable[_Moment]) -> bool:
        """Return whether one of the other messages can be from the same boot and at most five minutes apart.

        Times are compared only if both messages have a time, and uptimes only if both have an uptime.
        """
        at, uptime = self.at, self.uptime
        return any(
            not abs(uptime - one.uptime) > _SAME_LOSS and not abs(at - one.at) > _SAME_LOSS and self.same_boot(one)
            for one in others
        )


# Determines the fault of a hardware error report of the firmware (CPER, which the kernel prints).
#
# A report states how severe its event is. Its first section states what failed: a processor, memory or a PCIe device.
# Source: Linux 4 to 6, drivers/firmware/efi/cper.c; UEFI 2.10, appendix N.

_RANKS: Mapping[str, int] = {"info": 0, "corrected": 0, "recoverable": 1, "fatal": 2}
_CLASS_DIGITS = 4


def _component(fields: Mapping[str, str]) -> Component | None:
    section = fields.get("section")
    if section == "memory error":
        return Component(ComponentType.MEMORY, name=fields.get("dimm"))
    if section != "PCIe error" or "pci" not in fields:
        return None
    kind = table("kernel")["classes"].get(fields.get("class_code", "")[:_CLASS_DIGITS], ComponentType.NODE)
    return Component(ComponentType(kind), pci=normalize_pci(fields["pci"]))


CARRIER_CODE = "net.carrier_lost"
_OOPS, _PANIC = "host.kernel_oops", "host.kernel_panic"
# An operator or a test crashed the kernel; what follows in the same boot is no fault.
_REQUESTED_CRASH = lazy_pattern(r"sysrq: (?:SysRq : )?Trigger a crash", re.IGNORECASE)
# The firmware's report of an error (CPER) continues on lines that start with the same number in braces.
_REPORT = lazy_pattern(r"(?:\{(\d{1,6})\})?\[Hardware Error\]: ")
_REPORT_FIELD = lazy_pattern(
    r"\s{0,8}(section_type|DIMM location|physical_address|error_type|class_code): (.{1,100})$"
    r"|\s{0,8}(device_id): ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$"
)
_REPORT_NAMES = {"section_type": "section", "DIMM location": "dimm", "device_id": "pci", "physical_address": "address"}
_FLAPPING_CODE = "net.link_flapping"
_FLAPS, _FLAP_SECONDS = 4, 60
# A line after a PCIe error names one of its bits.
_PCIE_BIT = lazy_pattern(
    r"[\w-]{1,32} ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): +\[ ?\d{1,2}\] ?(\w[\w -]{1,40}\w)"
)
_SAME_CRASH_SECONDS = 2.0
_SAME_RESET_SECONDS = 10.0
_UNCORRECTED_BIT = 61


@dataclass(slots=True)
class HostReader:
    """Reads messages by the rows of kernel texts, and appends their faults to the observations of `driver`."""

    driver: DriverMessageReader
    found: list[Fault | Clear]
    _without_carrier: set[str] = field(default_factory=set)
    _losses: dict[tuple[str | None, str], deque[float]] = field(default_factory=dict)
    _flapping: set[tuple[str | None, str]] = field(default_factory=set)
    _last_crash: float | None = None
    _last_stated: dict[tuple[str, str | None], float] = field(default_factory=dict)
    _crash_requested: bool = False
    _report: tuple[str | None, int] | None = None
    _sums: dict[str | None, int] = field(default_factory=dict)
    _last_pcie: tuple[str, int] | None = None

    def read(self, message: KernelMessage) -> bool:
        """Append the fault or clear of the first row that matches a message.

        Returns False if the message was not understood. A message that is understood may append nothing, such as one
        that only adds detail to an earlier fault, or one that belongs to a requested crash.
        """
        if "rigger a crash" in message.text and _REQUESTED_CRASH.match(message.text) and message.facility != USER:
            self._crash_requested = True
            return True
        matched = first_match(packaged_texts("kernel"), message.text)
        if matched is not None:
            self._append(*matched, message)
            return True
        if "[Hardware Error]" in message.text:
            return self._complete_report(message.text)
        found = _PCIE_BIT.match(message.text) if ": [" in message.text else None
        if found is not None and self._last_pcie is not None and self._last_pcie[0] == normalize_pci(found[1]):
            self._add_pcie_bit(self._last_pcie[1], found[2])
        return found is not None

    def _add_pcie_bit(self, position: int, name: str) -> None:
        attributes = self.found[position].attributes
        names = [*filter(None, attributes.get("errors", "").split(", ")), name]
        errors = ", ".join(dict.fromkeys(names))
        self.found[position] = replace(self.found[position], attributes={**attributes, "errors": errors})

    def _complete_report(self, text: str) -> bool:
        """Add a field of a firmware report to its fault; all fields so far determine the fault code and the component.

        A field that the fault already has is not replaced: of several sections of a report, the first one is the cause.
        """
        head = _REPORT.match(text)
        field_ = _REPORT_FIELD.match(text, head.end()) if head else None
        if head is None or field_ is None or self._report is None or self._report[0] != head[1]:
            return False
        fault, name = self.found[self._report[1]], field_[1] or field_[3]
        fields = {_REPORT_NAMES.get(name, name): (field_[2] or field_[4]).strip(), **fault.attributes}
        section = fields.get("section", "")
        codes = table("kernel")["reports"].get(section)
        code = codes[_RANKS.get(fields.get("severity", ""), 1)] if codes else fault.code
        message = fault.message if section in fault.message else f"{fault.message} ({section})"
        component = _component(fields) or fault.component
        self.found[self._report[1]] = replace(
            fault, code=code, component=component, message=truncate(message), attributes=fields
        )
        return True

    def _append(self, row: Pattern, details: dict[str, str], message: KernelMessage) -> None:
        component, ends, unless = row.component(details), row.row.get("ends", False), row.row.get("unless")
        text = details.pop("message", message.text)
        if "node" in details:
            message.node = message.node or details.pop("node")
        fault = device_fault(message, _code(row, details), component, text, details)
        if message.facility == USER:
            # What a program wrote neither ends a fault nor hides one of the kernel.
            self.found.extend([] if ends else [fault])
        elif (
            row.code in {_OOPS, _PANIC}
            and (self._crash_requested or (row.code == _OOPS and self._is_same_crash(message)))
        ) or self._is_stated(row, component, message):
            return
        elif row.code == CARRIER_CODE:
            self._carrier(fault, component.name or "", _seconds(message), is_up=ends)
        elif unless:
            self.driver.add_weak(fault, unless)
        elif "adds" in row.row:
            self._add_up(fault, row.row["adds"])
        else:
            self.found.append(to_clear(fault) if ends else fault)
            if "severity" in details and (head := _REPORT.match(message.text)):
                self._report = head[1], len(self.found) - 1
        if "drivers" in row.row and message.facility != USER:
            position = self._sums[component.pci] if "adds" in row.row else len(self.found) - 1
            self._last_pcie = str(component.pci), position

    def _add_up(self, fault: Fault, many: int) -> None:
        """Append a fault of a device, or add its count to the one that the device already has."""
        position = self._sums.setdefault(fault.component.pci, len(self.found))
        if position == len(self.found):
            self.found.append(replace(fault, count=0))
        known = self.found[position]
        if isinstance(known, Fault):
            total = known.count + fault.count
            severity = Severity.WARNING if total >= many else known.severity
            self.found[position] = replace(known, count=total, severity=severity)

    def _is_same_crash(self, message: KernelMessage) -> bool:
        """Return whether a message is at most two seconds after the last message about a kernel crash."""
        last, self._last_crash = self._last_crash, _seconds(message)
        return last is not None and abs(self._last_crash - last) <= _SAME_CRASH_SECONDS

    def _is_stated(self, row: Pattern, component: Component, message: KernelMessage) -> bool:
        """Return whether `message` only adds detail to a fault that an earlier message has already reported.

        Only a message of a row with `follows` can add detail. The result is True for such a message if the last message
        with the same fault code and PCI address came at most ten seconds before. The time of `message` is stored for
        the next call.
        """
        key, at = (row.code, component.pci), _seconds(message)
        last, self._last_stated[key] = self._last_stated.get(key), at
        return "follows" in row.row and last is not None and abs(at - last) <= _SAME_RESET_SECONDS

    def _carrier(self, fault: Fault, name: str, at: float, *, is_up: bool) -> None:
        """Append a fault if an interface lost its carrier, or a clear if it gained a lost carrier.

        `name` is the interface, `at` the time in seconds, and `is_up` whether it gained its carrier. A second report of
        the same loss is ignored, because both the kernel and networkd may report it. A gain without a loss before it is
        ignored too, because the interface has only started.
        """
        if is_up and name in self._without_carrier:
            # A gained carrier without a loss before is an interface that starts up.
            self._without_carrier.discard(name)
            self.found.append(to_clear(fault))
        elif not is_up and name not in self._without_carrier:
            self._without_carrier.add(name)
            self.found.append(fault)
            self._count_loss(fault, name, at)

    def _count_loss(self, loss: Fault, name: str, at: float) -> None:
        """Append one fault for an interface that lost its carrier four times within a minute."""
        losses = self._losses.setdefault((loss.node, name), deque(maxlen=_FLAPS))
        losses.append(at)
        is_flapping = len(losses) == _FLAPS and losses[0] and losses[-1] - losses[0] <= _FLAP_SECONDS
        if is_flapping and (loss.node, name) not in self._flapping:
            self._flapping.add((loss.node, name))
            text = f"{name} lost its carrier {_FLAPS} times within {_FLAP_SECONDS} seconds."
            self.found.append(replace(loss, code=_FLAPPING_CODE, message=text))


def _seconds(message: KernelMessage) -> float:
    if message.uptime:
        return float(message.uptime)
    return message.observed_at.timestamp() if message.observed_at else 0.0


def _code(row: Pattern, details: dict[str, str]) -> str:
    if "corrected" not in row.row:
        return row.code
    status = details.get("status")
    is_corrected = details.get("severity") in {"corrected", "info", "CE"}
    if status is not None:
        is_corrected = not int(status, 16) >> _UNCORRECTED_BIT & 1
    return str(row.row["corrected"]) if is_corrected else row.code
