"""Reads NVIDIA driver messages without an Xid: a lost GPU, failed initialization or NVLink training.

A lost GPU is reported as `NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.`, or as several lines, of which the first
starts with `NVRM: The NVIDIA GPU`. If the driver also logs Xid 79 for that GPU within five minutes, both report the
same loss. Just before a loss, the driver prints the UUID and the serial number of the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from datetime import timedelta

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.lazy_pattern import lazy_pattern
from faultbridge.decoders.common.prefix import USER, KernelMessage
from faultbridge.decoders.kernel.xid import device_fault, gpu_at
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import NODE_COMPONENT, Clear, ComponentType, Fault, normalize_pci

LOST_CODE = "xid.79"
INIT_CODE = "host.gpu_init_failed"
SAME_LOSS = timedelta(minutes=5)
_MAX_BOOTS = 64  # of all nodes in one input; bounds the comparisons of a crafted log
_MAX_CLOCK_STEP = timedelta(minutes=1)  # a node restarts more slowly, so a larger step is another boot
_BDF = r"([0-9a-fA-F]{0,8}:?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID = lazy_pattern(rf"NVRM: GPU at PCI:{_BDF}: (GPU-[0-9a-fA-F-]{{8,40}})$")
_SERIAL = lazy_pattern(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]{4,32})$")
_LOST = lazy_pattern(rf"NVRM: (?:The NVIDIA )?GPU {_BDF}.{{0,80}}has fallen off the bus", re.DOTALL)
_LOST_START = lazy_pattern(rf"NVRM: The NVIDIA GPU {_BDF}(?: \(PCI ID: .{{1,80}})?$")
_LOST_END = lazy_pattern(r"(?:NVRM: )?(?:system )?(?:has )?fallen off the bus and is not responding to commands")
_PROBE_FAILED = lazy_pattern(r"NVRM: (The NVIDIA probe routine failed for \d{1,3} device.{0,80})", re.DOTALL)
_LOST_MIDDLE = "NVRM: (PCI ID"
_INIT_FAILED = lazy_pattern(rf"NVRM: GPU {_BDF}: (RmInitAdapter failed!.{{0,200}})", re.DOTALL)
_UVM_FATAL = lazy_pattern(
    r"(?:NVRM: )?(nvGpuOpsReportFatalError: uvm encountered global fatal error.{0,200})", re.DOTALL
)
_NVLINK_TRAINING = lazy_pattern(r"NVRM: (knvlink\w{1,80}: .{0,60}Rx ?Det(?:ect)? ?Link ?Mask.{0,60})", re.IGNORECASE)


@dataclass(slots=True)
class DriverMessageReader:
    """Reads driver messages, and appends their faults to `found`, the list of observations of the input.

    A failed probe of a device is added to `probe_failures` instead.
    """

    found: list[Fault | Clear]
    _names: dict[str, dict[str, str]] = field(default_factory=dict)
    _last_named: str | None = None
    _pending_loss: KernelMessage | None = None
    _unnumbered: set[int] = field(default_factory=set)
    probe_failures: list[Fault] = field(default_factory=list)

    def read(self, message: KernelMessage) -> bool:
        """Read a driver message without an Xid. Returns False if the message is of another kind."""
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
        elif (found := _INIT_FAILED.match(text)) is not None:
            self.found.append(device_fault(message, INIT_CODE, gpu_at(found[1]), found[2]))
        elif (found := _PROBE_FAILED.match(text)) is not None:
            failed = device_fault(message, INIT_CODE, NODE_COMPONENT, found[1])
            known = self.probe_failures
            if len(known) < _MAX_BOOTS and not any(_same_boot(one, failed) for one in known):
                self.probe_failures.append(failed)
        elif (found := _UVM_FATAL.match(text)) is not None:
            self.found.append(device_fault(message, "host.uvm_fatal", NODE_COMPONENT, found[1]))
        elif (found := _NVLINK_TRAINING.match(text)) is not None:
            self.found.append(device_fault(message, "host.nvlink_training_failed", NODE_COMPONENT, found[1]))
        else:
            return False
        return True

    def _learn_names(self, text: str) -> bool:
        found = _UUID.match(text)
        if found is not None:
            self._last_named = normalize_pci(found[1])
            self._names.setdefault(self._last_named, {})["uuid"] = found[2]
            return True
        found = _SERIAL.match(text)
        if found is not None and self._last_named is not None:
            self._names[self._last_named]["serial"] = found[1]
        return found is not None

    def _lost(self, message: KernelMessage, address: str) -> None:
        self._unnumbered.add(len(self.found))
        self.found.append(device_fault(message, LOST_CODE, gpu_at(address), "GPU has fallen off the bus."))

    def without_duplicate_losses(self) -> list[Fault | Clear]:
        """Return the observations without GPU losses that an Xid 79 of the same GPU also reports.

        The Xid 79 must be of the same boot. If both messages have a time, at most five minutes may be between them.

        The driver also logs that it could not probe a device. Such a probe failure is added only if no GPU of the same
        boot is lost or uninitialized, because such a GPU explains the failure.
        """
        if not self._unnumbered and not self.probe_failures:
            return self.found
        found = self._without_repeated_losses()
        known = [one for one in found if self.probe_failures and one.code in {LOST_CODE, INIT_CODE}]
        return [*found, *(one for one in self.probe_failures if not any(_same_boot(one, other) for other in known))]

    def _without_repeated_losses(self) -> list[Fault | Clear]:
        numbered: dict[str | None, list[Fault | Clear]] = {}
        for position, observation in enumerate(self.found):
            is_numbered = observation.code == LOST_CODE and position not in self._unnumbered
            # What a program wrote does not replace a message of the driver.
            if is_numbered and observation.attributes.get("facility") != USER:
                numbered.setdefault(observation.component.pci, []).append(observation)
        return [
            observation
            for position, observation in enumerate(self.found)
            if position not in self._unnumbered
            or not any(_same_time(observation, other) for other in numbered.get(observation.component.pci, ()))
        ]

    def with_device_names(self, found: Iterable[Fault | Clear]) -> tuple[Fault | Clear, ...]:
        """Return the observations. A GPU gets the UUID and serial number that the driver printed for it."""
        return tuple(map(self._with_names, found)) if self._names else tuple(found)

    def _with_names(self, observation: Fault | Clear) -> Fault | Clear:
        component = observation.component
        if component.type is not ComponentType.GPU or component.pci not in self._names:
            return observation
        names = self._names[component.pci]
        return replace(observation, component=replace(component, uuid=names.get("uuid"), serial=names.get("serial")))


def _same_time(observation: Fault | Clear, other: Fault | Clear) -> bool:
    """Return whether two messages about a GPU can be from the same boot and at most five minutes apart.

    Times are compared only if both messages have a time, and uptimes only if both have an uptime.
    """
    times = (_passed(observation, other), _uptime_passed(observation, other))
    return _same_boot(observation, other) and all(one is None or abs(one) <= SAME_LOSS for one in times)


def _same_boot(observation: Fault | Clear, other: Fault | Clear) -> bool:
    """Return whether two messages may be of the same boot of the same node.

    The result is False in these cases, and True in all others:

    - Both messages name a node, and the names differ. The same applies to boot ids.
    - Only one of the messages is marked as a message of an earlier boot.
    - Both messages have a time and an uptime, and the difference of the times is not the difference of the uptimes,
      with a tolerance of one minute.
    """
    passed, uptime_passed = _passed(observation, other), _uptime_passed(observation, other)
    if passed is not None and uptime_passed is not None and abs(passed - uptime_passed) > _MAX_CLOCK_STEP:
        return False
    names = ((one.node, one.attributes.get("boot_id")) for one in (observation, other))
    if any(first and second and first != second for first, second in zip(*names, strict=True)):
        return False
    return observation.attributes.get("boot") == other.attributes.get("boot")


def _passed(observation: Fault | Clear, other: Fault | Clear) -> timedelta | None:
    first, second = observation.observed_at, other.observed_at
    return None if first is None or second is None else second - first


def _uptime_passed(observation: Fault | Clear, other: Fault | Clear) -> timedelta | None:
    first, second = observation.attributes.get("uptime"), other.attributes.get("uptime")
    return None if first is None or second is None else timedelta(seconds=float(second) - float(first))
