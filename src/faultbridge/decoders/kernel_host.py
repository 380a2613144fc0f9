"""What a kernel says about the host around the GPUs, by the rules of `kernel_host_rules`: NICs, disks, memory, CPUs.

A rule's named groups say what is meant: `pci` and `name` identify the component, the others become attributes under
their own names. Lines that look alike but are another driver's, a container's or a boot's match no rule. Source:
Linux 4 to 6.
"""

from __future__ import annotations

from faultbridge.decoders.base import over
from faultbridge.decoders.kernel_host_rules import RULES, Rule
from faultbridge.decoders.kernel_prefix import KernelMessage
from faultbridge.decoders.kernel_xid import device_fault
from faultbridge.domain.faults import Clear, Component, ComponentType, Fault, normalise_pci

CARRIER_CODE = "net.carrier_lost"
_UNCORRECTED_BIT = 61


class HostReader:
    """Reads the host's messages of one input; remembers which interfaces lost their carrier in it."""

    def __init__(self, found: list[Fault | Clear]) -> None:
        """Collect into `found`, which other readers of the same input also fill."""
        self._found = found
        self._without_carrier: set[str] = set()

    def read(self, message: KernelMessage) -> None:
        """Take one message; one that no rule knows says nothing."""
        for rule in RULES:
            if rule.phrase in message.text and (told := _told(rule, message.text)) is not None:
                self._take(rule, message, told)
                return

    def _take(self, rule: Rule, message: KernelMessage, told: dict[str, str]) -> None:
        component = _component(rule, told)
        if "node" in told:
            message.node = message.node or told.pop("node")
        fault = device_fault(message, _code(rule, told), component, message.text, told)
        if rule.code != CARRIER_CODE:
            self._found.append(fault)
        elif not rule.ends:
            self._without_carrier.add(component.name or "")
            self._found.append(fault)
        elif component.name in self._without_carrier:
            # A carrier that is gained without having been lost is an interface that comes up.
            self._without_carrier.discard(component.name)
            self._found.append(over(fault))


def _told(rule: Rule, text: str) -> dict[str, str] | None:
    found = rule.pattern.match(text)
    if found is None:
        return None
    return {name: value.strip() for name, value in found.groupdict().items() if value is not None}


def _component(rule: Rule, told: dict[str, str]) -> Component:
    """Name the component and take its names out of what else was told."""
    pci, name = told.pop("pci", None), told.pop("name", None)
    if rule.type is ComponentType.CPU:
        return Component(ComponentType.CPU, name=name)
    return Component(rule.type, pci=normalise_pci(pci) if pci else None, name=name)


def _code(rule: Rule, told: dict[str, str]) -> str:
    """Choose the milder code where a machine check's status, or its reporter, says that the error was corrected."""
    if rule.corrected is None:
        return rule.code
    status = told.get("status")
    if status is not None:
        return rule.code if int(status, 16) >> _UNCORRECTED_BIT & 1 else rule.corrected
    return rule.corrected if told.get("severity") in {"corrected", "info", "CE"} else rule.code
