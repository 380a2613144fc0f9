"""Reads kernel messages about NICs, disks, memory and CPUs, by the rules of `host_rules`.

A rule's groups `pci` and `name` identify the component; its other groups become attributes. Similar lines of other
drivers, of containers or of a boot match no rule. Source: Linux 4 to 6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from faultbridge.decoders.common.decoder import to_clear
from faultbridge.decoders.common.prefix import USER, KernelMessage
from faultbridge.decoders.kernel.host_rules import RULES
from faultbridge.decoders.kernel.os_rules import OOPS, PANIC
from faultbridge.decoders.kernel.rule import Rule
from faultbridge.decoders.kernel.xid import device_fault
from faultbridge.domain.faults import Clear, Component, ComponentType, Fault, normalize_pci

CARRIER_CODE = "net.carrier_lost"
_CRASHES = frozenset({OOPS, PANIC})
# An operator or a test crashed the kernel; what follows in the same boot is no fault.
_REQUESTED_CRASH = re.compile(r"sysrq: (?:SysRq : )?Trigger a crash", re.IGNORECASE)
_SAME_CRASH_SECONDS = 2.0
_UNCORRECTED_BIT = 61


@dataclass(slots=True)
class HostReader:
    """Appends the host faults of one input to `found`, the input's list of observations."""

    found: list[Fault | Clear]
    _without_carrier: set[str] = field(default_factory=set)
    _last_crash: float | None = None
    _crash_requested: bool = False

    def read(self, message: KernelMessage) -> bool:
        """Append the observation of the first rule that matches a message; return False if none does."""
        if "rigger a crash" in message.text and _REQUESTED_CRASH.match(message.text) and message.facility != USER:
            self._crash_requested = True
            return True
        for rule in RULES:
            if rule.phrase in message.text and (details := _details(rule, message.text)) is not None:
                self._append(rule, message, details)
                return True
        return False

    def _append(self, rule: Rule, message: KernelMessage, details: dict[str, str]) -> None:
        component = _component(rule, details)
        if "node" in details:
            message.node = message.node or details.pop("node")
        if rule.code in _CRASHES and (self._crash_requested or (rule.code == OOPS and self._is_same_crash(message))):
            return
        fault = device_fault(message, _code(rule, details), component, message.text, details)
        if rule.code == CARRIER_CODE:
            self._flap(fault, component.name or "", is_up=rule.ends)
        else:
            self.found.append(to_clear(fault) if rule.ends else fault)

    def _is_same_crash(self, message: KernelMessage) -> bool:
        """Return whether an oops was read at the same time; the kernel prints several lines about one."""
        at = (
            float(message.uptime) if message.uptime else message.observed_at.timestamp() if message.observed_at else 0.0
        )
        last, self._last_crash = self._last_crash, at
        return last is not None and abs(at - last) <= _SAME_CRASH_SECONDS

    def _flap(self, fault: Fault, name: str, *, is_up: bool) -> None:
        """Append a loss of carrier and its end; a loss that both the kernel and networkd report counts once."""
        if is_up and name in self._without_carrier:
            # A gained carrier without a loss before is an interface that starts up.
            self._without_carrier.discard(name)
            self.found.append(to_clear(fault))
        elif not is_up and name not in self._without_carrier:
            self._without_carrier.add(name)
            self.found.append(fault)


def _details(rule: Rule, text: str) -> dict[str, str] | None:
    found = rule.pattern.match(text)
    if found is None:
        return None
    return {name: value.strip() for name, value in found.groupdict().items() if value is not None}


def _component(rule: Rule, details: dict[str, str]) -> Component:
    """Return the component that a rule's match names, and remove its identifiers from the details."""
    pci, name = details.pop("pci", None), details.pop("name", None)
    if rule.type is ComponentType.CPU:
        return Component(ComponentType.CPU, name=name)
    return Component(rule.type, pci=normalize_pci(pci) if pci else None, name=name)


def _code(rule: Rule, details: dict[str, str]) -> str:
    """Return the rule's code for corrected errors if the message reports a corrected one, else its usual code."""
    if rule.corrected is None:
        return rule.code
    status = details.get("status")
    if status is not None:
        return rule.code if int(status, 16) >> _UNCORRECTED_BIT & 1 else rule.corrected
    return rule.corrected if details.get("severity") in {"corrected", "info", "CE"} else rule.code
