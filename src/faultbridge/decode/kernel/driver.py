"""Reads messages of the NVIDIA driver that a pattern alone cannot: losses on several lines, and the names of GPUs.

The rows of `data/texts/kernel.json` describe the driver's other messages without an Xid. `found` is the list of
observations of one input, and positions in it identify them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import nan

from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.prefix import USER, KernelMessage
from faultbridge.decode.kernel.xid import device_fault, gpu_at
from faultbridge.model.fault_enums import ComponentType
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
