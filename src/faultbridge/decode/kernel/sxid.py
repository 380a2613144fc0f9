"""Reads SXid lines of the NVSwitch driver: an event, then its `Severity` and `Data` lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import lazy_pattern, truncate
from faultbridge.decode.frames.prefix import KernelMessage
from faultbridge.decode.kernel.xid import device_fault
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, normalize_pci
from faultbridge.model.values import replace

_SXID = lazy_pattern(
    r"(nvidia-nvswitch\d{0,4}): SXid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): "
    r"(\d{1,6})(?:, *(.*)|)$",
    re.DOTALL,
)
_EVENT = lazy_pattern(r"(Fatal|Non-fatal)\b(?:, Link (-?\d{1,4})\b)?(?:, )? ?(.*)$", re.DOTALL)
_SEVERITY = lazy_pattern(r"Severity (\d{1,3}) Engine instance (\d{1,4}) Sub-engine instance (\d{1,4})")
_DATA = lazy_pattern(r"Data \{([0-9a-fA-Fx, ]{0,400})")


@dataclass(slots=True)
class SxidReader:
    """Reads SXid lines, and appends their faults to `found`, the list of observations of the input."""

    found: list[Fault | Clear]
    _last: dict[tuple[str | None, str], int] = field(default_factory=dict)

    def read(self, message: KernelMessage) -> bool:
        """Append the fault of an SXid, or add a continuation line to its fault. Returns False for other lines.

        A continuation line without an earlier event of the same switch and number gives a fault of its own, if the
        catalog has the number.
        """
        found = _SXID.match(message.text)
        if found is None:
            return False
        name, address, number, remainder = found.groups()
        switch = Component(ComponentType.NVSWITCH, pci=normalize_pci(address), name=name)
        code = f"sxid.{int(number)}"
        details, key = _continuation(remainder or ""), (switch.pci, code)
        if details is not None and key in self._last:
            self._complete(self._last[key], details)
            return True
        if details is not None and code not in load_catalog().rows:
            return False
        self._last[key] = len(self.found)
        if details is None:
            self.found.append(_event(message, code, switch, remainder or ""))
        else:
            self.found.append(_without_event(message, code, switch, details))
        return True

    def _complete(self, position: int, details: dict[str, str]) -> None:
        fault = self.found[position]
        is_other_link = details.get("engine_instance", fault.attributes.get("link")) != fault.attributes.get("link")
        if not is_other_link:
            self.found[position] = replace(fault, attributes={**details, **fault.attributes})


def _event(message: KernelMessage, code: str, switch: Component, remainder: str) -> Fault:
    found = _EVENT.match(remainder)
    fault = device_fault(message, code, switch, remainder or code)
    if found is None:
        return fault
    severity_text, link, text = found.groups()
    first = text.endswith("(First)")
    attributes = {**fault.attributes, "severity": severity_text}
    attributes |= {"link": str(int(link))} if link else {}
    attributes |= {"first": "true"} if first else {}
    text = text.removesuffix("(First)").strip()
    return _with_severity(replace(fault, message=truncate(text or remainder), attributes=attributes), severity_text)


def _without_event(message: KernelMessage, code: str, switch: Component, details: dict[str, str]) -> Fault:
    """Return the fault of a continuation line whose event the driver did not print, because it limits its messages.

    The level of a `Severity` line is 1 if the error is fatal. A `Data` line has no level, so the catalog decides. If
    the catalog states that the printed severity decides, the error counts as not fatal.
    """
    fault = device_fault(message, code, switch, code, {**details, "event": "missing"})
    level = details.get("severity_level")
    if level is None and not load_catalog().rows[code].conflict:
        return fault
    return _with_severity(fault, "Fatal" if level == "1" else "Non-fatal")


def _with_severity(fault: Fault, severity_text: str) -> Fault:
    """Return a fault with the severity that the driver printed. A non-fatal error needs no action.

    A fault that already has a severity, because a program wrote its line, is unchanged.
    """
    if fault.severity is not None:
        return fault
    if severity_text == "Fatal":
        return replace(fault, severity=Severity.FATAL)
    return fault.classified(Severity.WARNING, Action.NONE)


def _continuation(remainder: str) -> dict[str, str] | None:
    severity = _SEVERITY.match(remainder)
    if severity:
        level, engine, sub_engine = (str(int(part)) for part in severity.groups())
        return {"severity_level": level, "engine_instance": engine, "sub_engine_instance": sub_engine}
    data = _DATA.match(remainder)
    return {"data": data[1]} if data else None
