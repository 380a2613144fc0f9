"""Reads Xid and SXid lines of the NVIDIA driver, from 2013 to NVLink5, with the recovery action of Xid 154.

Grammar: `NVRM: Xid (PCI:dddd:bb:dd[ GPU-I:nn[ GPU-CI:nn]]): CODE[, pid=P][, name=N][, TEXT][ caused by previous Xid
C]`. Old drivers omit `PCI:`. Some codes have no comma after the number. A process name can contain any character.
Source: open-gpu-kernel-modules and captures. The catalog defines the meaning of each number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

from faultbridge.decode.data import load_catalog, table
from faultbridge.decode.frames.decoder import attributes_of, evidence, to_clear, truncate
from faultbridge.decode.frames.prefix import USER, KernelMessage
from faultbridge.decode.frames.values import EMPTY, lazy_pattern
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, normalize_pci
from faultbridge.model.records import OF_SYSLOG
from faultbridge.model.values import replace

# Reads the details of NVLink errors: Xid 74, and Xid 144 to 150 of NVLink5.
#
# Xid 74 (Hopper and older) ends with `link N(r1, r2, ..., r7)`. NVIDIA's catalog (`WORKFLOW_NVLINK_ERR`, for Hopper)
# defines bits of the registers 1, 3, 4 and 5. The attribute `findings` names the meanings of the set bits, worst first.
#
# An NVLink5 error is `UNIT[/SUB] Fatal|Nonfatal XCn iN Link L (intrInfo errorStatus w w ...)`; the numbers can be cut
# off. Since driver branch R575, bits 0 to 6 of intrInfo are the number of the unit. Before R575, bits 0 to 9 are the
# number, and the units have other numbers. Except 0 of Xid 150, no number occurs in both numberings of one Xid, so the
# number shows which branch the driver has. Bits 20 to 25 are the cause of a link event.
#
# Source: NVIDIA's Xid catalog, NVLink5 sheet (`data/tables/nvlink5_units.json`).

_NVLINK = lazy_pattern(r"link (\d{1,3}) ?\(([0-9a-fA-Fx, ]{1,200})\)")
_REGISTERS = 7


def nvlink_attributes(text: str) -> dict[str, str]:
    """Return the link, registers and findings of an NVLink error, such as Xid 74, as attributes.

    The result is empty if the line has no registers, as with older drivers.
    """
    found = _NVLINK.search(text)
    if found is None:
        return {}
    attributes = {"link": str(int(found[1])), "registers": found[2]}
    findings = list(dict.fromkeys(_findings(found[2])))
    return attributes | {"findings": ", ".join(findings)} if findings else attributes


def _findings(text: str) -> Iterator[str]:
    words = [_number(word) for word in text.split(",")]
    if len(words) != _REGISTERS or None in words:
        return
    remaining = [word or 0 for word in words]
    for register, bits, meaning in table("kernel")["registers"]:
        mask = sum(1 << bit for bit in bits)
        if remaining[register - 1] & mask:
            remaining[register - 1] &= ~mask
            yield meaning
    if any(remaining):
        yield "undescribed"


_ERROR = lazy_pattern(
    r"(\S{1,64}) +(Fatal|Nonfatal) +XC(\d{1,3}) +i(\d{1,3}) +Link +(-?\d{1,4})(?: +\(([0-9a-fA-Fx ]{0,200}))?"
)
_CAUSE_SHIFT, _CAUSE_MASK = 20, 0x3F
_UNIT_MASKS = {"before": 0x3FF, "since": 0x7F}
BRANCHES = {"before": "before r575", "since": "r575"}
_WORDS = ("intrinfo", "errorstatus")


def nvlink5_attributes(code: int, text: str) -> dict[str, str]:
    """Return the attributes of an Xid 144 to 150, or an empty mapping if the text has another form.

    The message names its unit, and encodes it as a number too. `driver_branch` is the driver branch that the number
    implies. `decoded_unit` is the unit that the number stands for, given only if the catalog does not contain the name.
    `exception` is the reason why the rules of the catalog for the unit do not apply.
    """
    found = _ERROR.match(text)
    if found is None:
        return {}
    unit, severity, xc, injected, link, registers = found.groups()
    words = (registers or "").split()
    attributes = {"unit": unit, "severity": severity, "xc": xc, "injected": injected, "link": str(int(link))}
    attributes |= dict(zip(_WORDS, words, strict=False))
    if len(words) > len(_WORDS):
        attributes["words"] = " ".join(words[2:])
    if len(words) >= len(_WORDS):
        attributes |= _decoded(code, unit, _number(words[0]), _number(words[1]))
    return attributes


def _decoded(code: int, printed_unit: str, intr_info: int | None, status: int | None) -> dict[str, str]:
    attributes: dict[str, str] = {}
    if intr_info is None:
        return attributes
    if cause := intr_info >> _CAUSE_SHIFT & _CAUSE_MASK:
        attributes["cause"] = f"{cause:#04x}"
    units = table("nvlink5_units")["units"].get(str(code), {})
    printed_matches = [name for name in units if printed_unit in {name, *re.split(r"[/ ]", name)}]
    for branch, mask in _UNIT_MASKS.items():
        matching = [name for name in printed_matches or units if units[name][branch] == intr_info & mask]
        if not matching or all(units[name]["before"] == units[name]["since"] for name in matching):
            continue
        attributes["driver_branch"] = BRANCHES[branch]
        if not printed_matches:
            attributes["decoded_unit"] = matching[0]
        exception = units[matching[0]].get("unless_bit")
        if exception and status in exception["statuses"] and intr_info >> exception[branch] & 1:
            attributes["exception"] = f"bit {exception[branch]} of intrInfo is set"
    return attributes


def _number(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


SOURCE = "kernel-log"

_XID = re.compile(
    r"NVRM: Xid ?\((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
    r"(?: GPU-I:([0-9a-fA-F]{1,2}))?(?: GPU-CI:([0-9a-fA-F]{1,2}))?\): ?(\d{1,5})"
    r"(?:[, ] *(?:pid=([^,]{1,64})(?:, |$))?(?:name=(.{1,64}?)(?:, |$))?(.*)|)$",
    re.DOTALL,
)
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,5})\s*$")
_RECOVERY = re.compile(
    r"GPU recovery action changed from (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\) to (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\)"
)
_UNKNOWN = frozenset({"'<unknown>'", "<unknown>"})
_NVLINK_ERROR, _RECOVERY_CHANGED = 74, 154


def read_xid(message: KernelMessage) -> Fault | Clear | None:
    """Return the fault or clear of an Xid message, or None for other messages."""
    line = message.text
    found = _XID.match(line)
    if found is None:
        return None
    address, instance, compute, digits, pid, name, remainder = found.groups()
    text = remainder.strip() if remainder else ""
    details = origin(message)
    if pid is not None and pid not in _UNKNOWN:
        details["pid"] = pid
    if name is not None and name not in _UNKNOWN:
        details["process"] = name
    if instance is not None:
        details |= attributes_of(mig_gpu_instance=instance, mig_compute_instance=compute)
    number = int(digits)
    if number in _DETAILS:
        details |= _DETAILS[number](text)
    elif "NVLink" in text:
        details |= nvlink_attributes(text)
    if "caused by" in text and (cause := _CAUSED_BY.search(text)):
        details["caused_by"] = f"xid.{int(cause[1])}"
    code = _code(number)
    fault = Fault(
        SOURCE,
        code,
        gpu_at(address),
        truncate(text) or code,
        message.observed_at,
        evidence(line),
        details or EMPTY,
        None,
        None,
        message.node,
        message.count,
    )
    return _judged(fault) if details else fault


@lru_cache(1024)
def _code(number: int) -> str:
    """Return the fault code of an Xid, cached so that thousands of equal Xids share one string."""
    return f"xid.{number}"


@lru_cache(1024)
def gpu_at(address: str) -> Component:
    """Return the GPU at a PCI address, which may have any of the driver's spellings."""
    return Component(ComponentType.GPU, pci=normalize_pci(address))


def device_fault(
    message: KernelMessage, code: str, component: Component, text: str, details: Mapping[str, str] = EMPTY
) -> Fault:
    """Return the fault of a device that a kernel message without an Xid reports.

    `text` is the message of the fault, and `details` are further attributes. If a program wrote the kernel message, the
    fault has severity `info` and needs no action. Otherwise, the catalog determines severity and action.
    """
    attributes = {**origin(message), **details}
    at, raw, stated = message.observed_at, evidence(message.text), attributes or EMPTY
    fault = Fault(SOURCE, code, component, truncate(text), at, raw, stated, node=message.node, count=message.count)
    return fault.classified(Severity.INFO, Action.NONE) if message.facility == USER else fault


def origin(message: KernelMessage) -> dict[str, str]:
    """Return what the prefix of a message states about its origin, as attributes.

    The attributes are the uptime, the boot id, the facility `user` if a program wrote the message, and the transport
    `syslog` if any program can have written it.
    """
    details: dict[str, str] = dict(OF_SYSLOG) if message.claimed else {}
    if message.uptime is not None:
        details["uptime"] = message.uptime
    if message.boot_id is not None:
        details["boot_id"] = message.boot_id
    if message.facility == USER:
        details["facility"] = USER
    return details


def _recovery(text: str) -> dict[str, str]:
    found = _RECOVERY.match(text)
    if found is None:
        return {}
    before, before_text, now, now_text = found.groups()
    return {
        "recovery_action": f"{int(now, 16):#x}",
        "recovery_action_text": now_text,
        "recovery_action_before": f"{int(before, 16):#x}",
        "recovery_action_before_text": before_text,
    }


_DETAILS: Mapping[int, Callable[[str], dict[str, str]]] = {
    _NVLINK_ERROR: nvlink_attributes,
    _RECOVERY_CHANGED: _recovery,
    **{code: partial(nvlink5_attributes, code) for code in range(144, 151)},
}


def _judged(fault: Fault) -> Fault | Clear:
    """Return the fault with the severity and action that follow from its line, or a clear.

    If a program wrote the line, or the line names an earlier Xid as the cause, the fault gets severity `info` and no
    action. The line of an Xid 154 states a recovery action: the value 0 gives a clear, and other known values determine
    severity and action.
    """
    details = fault.attributes
    if details.get("facility") == USER or "caused_by" in details:
        # Otherwise a user with access to /dev/kmsg could cause a replacement.
        return fault.classified(Severity.INFO, Action.NONE)
    recovery = details.get("recovery_action")
    if recovery is None:
        return fault
    number = int(recovery, 16)
    if number == 0:
        return to_clear(fault)
    verdict = recovery_verdict(number)
    return fault.classified(*verdict) if verdict else fault


def recovery_verdict(number: int) -> tuple[Severity, Action] | None:
    """Return the severity and action that follow from a value of the driver's recovery action, or None.

    Driver branches changed the text after the number; the numbers stayed the same.
    """
    found = table("kernel")["recovery_actions"].get(str(number))
    return (Severity(found[0]), Action(found[1])) if found else None


# Reads SXid lines of the NVSwitch driver: an event, then its `Severity` and `Data` lines.

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
