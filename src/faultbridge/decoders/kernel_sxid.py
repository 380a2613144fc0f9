"""SXid lines of the NVSwitch driver: one event, then `Severity` and `Data` lines of the same code that belong to it."""

from __future__ import annotations

import re
from dataclasses import replace

from faultbridge.decoders.base import cut
from faultbridge.decoders.kernel_prefix import KernelMessage
from faultbridge.decoders.kernel_xid import device_fault
from faultbridge.domain.faults import Action, Clear, Component, ComponentType, Fault, Severity, normalise_pci

_SXID = re.compile(
    r"(nvidia-nvswitch\d{0,4}): SXid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): "
    r"(\d{1,6})(?:, *(.*)|)$",
    re.DOTALL,
)
_EVENT = re.compile(r"(Fatal|Non-fatal)\b(?:, Link (-?\d{1,4})\b)?(?:, )? ?(.*)$", re.DOTALL)
_SEVERITY = re.compile(r"Severity (\d{1,3}) Engine instance (\d{1,4}) Sub-engine instance (\d{1,4})")
_DATA = re.compile(r"Data \{([0-9a-fA-Fx, ]{0,400})")


class SxidReader:
    """Reads the SXid lines of one input; remembers where the last event of each switch and code stands."""

    def __init__(self, found: list[Fault | Clear]) -> None:
        """Collect into `found`, which other readers of the same input also fill."""
        self._found = found
        self._last: dict[tuple[str | None, str], int] = {}

    def read(self, message: KernelMessage) -> None:
        """Add an event, or complete the event that a continuation line belongs to."""
        found = _SXID.match(message.text)
        if found is None:
            return
        name, address, number, rest = found.groups()
        switch = Component(ComponentType.NVSWITCH, pci=normalise_pci(address), name=name)
        code = f"sxid.{int(number)}"
        more = _continuation(rest or "")
        if more is None:
            self._last[switch.pci, code] = len(self._found)
            self._found.append(_event(message, code, switch, rest or ""))
        elif (switch.pci, code) in self._last:
            self._complete(self._last[switch.pci, code], more)

    def _complete(self, place: int, more: dict[str, str]) -> None:
        fault = self._found[place]
        of_another_link = more.get("engine_instance", fault.attributes.get("link")) != fault.attributes.get("link")
        if not of_another_link:
            self._found[place] = replace(fault, attributes={**more, **fault.attributes})


def _event(message: KernelMessage, code: str, switch: Component, rest: str) -> Fault:
    found = _EVENT.match(rest)
    fault = device_fault(message, code, switch, rest or code)
    if found is None:
        return fault
    word, link, text = found.groups()
    first = text.endswith("(First)")
    told = {**fault.attributes, "severity": word}
    told |= {"link": str(int(link))} if link else {}
    told |= {"first": "true"} if first else {}
    text = text.removesuffix("(First)").strip()
    return _worded(replace(fault, message=cut(text or rest), attributes=told), word)


def _worded(fault: Fault, word: str) -> Fault:
    """Trust the driver's word for this very event: what it calls non-fatal asks for nothing."""
    if fault.severity is not None:
        return fault
    if word == "Fatal":
        return replace(fault, severity=Severity.FATAL)
    return fault.classified(Severity.WARNING, Action.NONE)


def _continuation(rest: str) -> dict[str, str] | None:
    severity = _SEVERITY.match(rest)
    if severity:
        level, engine, sub_engine = (str(int(part)) for part in severity.groups())
        return {"severity_level": level, "engine_instance": engine, "sub_engine_instance": sub_engine}
    data = _DATA.match(rest)
    return {"data": data[1]} if data else None
