"""Xid lines of the NVIDIA driver: every spelling from 2013 to NVLink5, and the recovery action of Xid 154."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.decoders.base import cut, evidence, over
from faultbridge.decoders.kernel_prefix import USER, KernelMessage
from faultbridge.domain.faults import Action, Clear, Component, ComponentType, Fault, Severity, normalise_pci

SOURCE = "kernel-log"
RECOVERY_CODE = "xid.154"

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
    r"(?: GPU-I:([0-9a-fA-F]{1,2}))?(?: GPU-CI:([0-9a-fA-F]{1,2}))?\): (\d{1,5})(?:[, ] *(.*)|)$",
    re.DOTALL,
)
_PROCESS = re.compile(r"(?:pid=([^,]{1,64})(?:, |$))?(?:name=(.{1,64}?)(?:, |$))?", re.DOTALL)
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,5})\s*$")
_NVLINK5 = re.compile(
    r"(\S{1,64}) +(Fatal|Nonfatal) +XC(\d{1,3}) +i(\d{1,3}) +Link +(-?\d{1,4})(?: +\(([0-9a-fA-Fx ]{0,200}))?"
)
_NVLINK = re.compile(r"link (\d{1,3}) ?\(([0-9a-fA-Fx, ]{1,200})\)")
_RECOVERY = re.compile(
    r"GPU recovery action changed from (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\) to (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\)"
)
_UNKNOWN = frozenset({"'<unknown>'", "<unknown>"})
_NVLINK5_CODES = range(144, 151)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one value of the driver's recovery action asks for."""

    severity: Severity
    action: Action


# NVML's enumeration; the words beside the number changed between driver branches, the numbers did not.
RECOVERY_ACTIONS: Mapping[int, Verdict] = {
    1: Verdict(Severity.FATAL, Action.RESET_GPU),
    2: Verdict(Severity.FATAL, Action.REBOOT_NODE),
    3: Verdict(Severity.ERROR, Action.RESET_GPU),
    4: Verdict(Severity.ERROR, Action.RESET_GPU),
}


def read_xid(message: KernelMessage) -> Fault | Clear | None:
    """Read one kernel message as an Xid, or return None where it is none."""
    found = _XID.match(message.text)
    if found is None:
        return None
    address, instance, compute, number, rest = found.groups()
    process = _PROCESS.match(rest or "")
    text = (rest or "")[process.end() if process else 0 :].strip()
    told = _attributes(message, int(number), text)
    told |= _process(process) | _present(mig_gpu_instance=instance, mig_compute_instance=compute)
    gpu = Component(ComponentType.GPU, pci=normalise_pci(address))
    fault = Fault(
        source=SOURCE,
        code=f"xid.{int(number)}",
        component=gpu,
        message=cut(text) or f"Xid {int(number)}",
        observed_at=message.observed_at,
        evidence=evidence(message.text),
        attributes=told,
        node=message.node,
        count=message.count,
    )
    return _judged(fault)


def device_fault(message: KernelMessage, code: str, component: Component, text: str) -> Fault:
    """Make a fault of a kernel message that is no Xid."""
    fault = Fault(
        source=SOURCE,
        code=code,
        component=component,
        message=cut(text),
        observed_at=message.observed_at,
        evidence=evidence(message.text),
        attributes=_origin(message),
        node=message.node,
        count=message.count,
    )
    return fault.classified(Severity.INFO, Action.NONE) if message.facility == USER else fault


def _attributes(message: KernelMessage, number: int, text: str) -> dict[str, str]:
    told = _origin(message)
    caused = _CAUSED_BY.search(text)
    if caused:
        told["caused_by"] = f"xid.{int(caused[1])}"
    if number in _NVLINK5_CODES:
        return told | _nvlink5(text)
    if number == 154:  # noqa: PLR2004 - the Xid that this branch is about
        return told | _recovery(text)
    found = _NVLINK.search(text)
    return told | ({"link": str(int(found[1])), "registers": found[2]} if found else {})


def _nvlink5(text: str) -> dict[str, str]:
    found = _NVLINK5.match(text)
    if found is None:
        return {}
    unit, severity, crossing, injected, link, registers = found.groups()
    words = (registers or "").split()
    told = {"unit": unit, "severity": severity, "xc": crossing, "injected": injected, "link": str(int(link))}
    names = ("intrinfo", "errorstatus")
    return told | dict(zip(names, words, strict=False)) | ({"words": " ".join(words[2:])} if words[2:] else {})


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


def _judged(fault: Fault) -> Fault | Clear:
    """State what the line itself states: who wrote it, what caused it, which recovery the driver asks for."""
    if fault.attributes.get("facility") == USER:
        # Whoever may write /dev/kmsg could otherwise have the node replaced.
        return fault.classified(Severity.INFO, Action.NONE)
    if "caused_by" in fault.attributes:
        return fault.classified(Severity.INFO, Action.NONE)
    asked = fault.attributes.get("recovery_action")
    if asked is None:
        return fault
    number = int(asked, 16)
    if number == 0:
        return over(fault)
    verdict = RECOVERY_ACTIONS.get(number)
    return fault.classified(verdict.severity, verdict.action) if verdict else fault


def _process(found: re.Match[str] | None) -> dict[str, str]:
    pid, name = found.groups() if found else (None, None)
    return _present(pid=None if pid in _UNKNOWN else pid, process=None if name in _UNKNOWN else name)


def _origin(message: KernelMessage) -> dict[str, str]:
    facility = message.facility if message.facility == USER else None
    return _present(uptime=message.uptime, boot_id=message.boot_id, facility=facility)


def _present(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
