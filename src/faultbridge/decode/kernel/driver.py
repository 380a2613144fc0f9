"""Reads messages of the NVIDIA driver that a pattern alone cannot: losses on several lines, and the names of GPUs.

The rows of `data/texts/kernel.json` describe the driver's other messages without an Xid. `found` is the list of
observations of one input, and positions in it identify them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.prefix import USER, KernelMessage
from faultbridge.decode.kernel.xid import device_fault, gpu_at
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Clear, Component, Fault, normalize_pci
from faultbridge.model.values import replace

LOST_CODE = "xid.79"
SAME_LOSS = timedelta(minutes=5)
_MAX_WEAK = 64  # bounds the comparisons of a crafted log
_MAX_CLOCK_STEP = timedelta(minutes=1)  # a node restarts more slowly, so a larger step is another boot
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
    """Reads messages of the driver about lost GPUs and the names of GPUs.

    `weak` has the positions of faults that another fault may explain, with the codes of such faults.
    """

    found: list[Fault | Clear]
    weak: dict[int, Sequence[str]] = field(default_factory=dict)
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
        unnamed = Component(fault.component.type)
        is_unnamed, same = fault.component == unnamed, (fault.component, unnamed)
        for position in self.weak:
            known = self.found[position]
            # The driver names the GPU in some of its messages about one event.
            is_same = is_unnamed or known.component in same
            if is_same and known.code == fault.code and isinstance(known, Fault) and _same_boot(known, fault):
                component = fault.component if known.component == unnamed else known.component
                self.found[position] = replace(known, component=component, count=known.count + fault.count)
                return
        if len(self.weak) < _MAX_WEAK:
            self.weak[len(self.found)] = unless
            self.found.append(fault)

    def without_explained(self) -> list[Fault | Clear]:
        """Return the observations without those that another one explains.

        - A loss of a GPU without an Xid is left out if an Xid 79 of the same GPU and boot reports it. If both messages
          have a time, at most five minutes may be between them.
        - A fault in `weak` is left out if the same boot has a fault that explains it.
        """
        if not self._unnumbered and not self.weak:
            return self.found
        numbered: dict[str | None, list[Fault | Clear]] = {}
        for position, one in enumerate(self.found):
            is_numbered = one.code == LOST_CODE and position not in self._unnumbered and position not in self.weak
            # What a program wrote does not replace a message of the driver.
            if is_numbered and one.attributes.get("facility") != USER:
                numbered.setdefault(one.component.pci, []).append(one)
        explained = {
            position
            for position in self._unnumbered
            if any(
                _same_time(self.found[position], one) for one in numbered.get(self.found[position].component.pci, ())
            )
        }
        strong = [
            one for position, one in enumerate(self.found) if position not in self.weak and isinstance(one, Fault)
        ]
        for position, codes in self.weak.items():
            if any(one.code in codes and _same_boot(self.found[position], one) for one in strong):
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


def _same_time(observation: Fault | Clear, other: Fault | Clear) -> bool:
    """Return whether two messages about a GPU can be from the same boot and at most five minutes apart.

    Times are compared only if both messages have a time, and uptimes only if both have an uptime.
    """
    # Most messages are of another time, and their uptimes show it fastest.
    differences = (passed(observation, other) for passed in (_uptime_passed, _passed))
    return all(one is None or abs(one) <= SAME_LOSS for one in differences) and _same_boot(observation, other)


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
