"""Xid lines of the NVIDIA driver: every spelling from 2013 to NVLink5, and the recovery action of Xid 154.

Grammar: `NVRM: Xid (PCI:dddd:bb:dd[ GPU-I:nn[ GPU-CI:nn]]): CODE[, pid=P][, name=N][, TEXT][ caused by previous Xid
C]`; old drivers leave out `PCI:`, some codes have no comma behind the number, a process name may hold anything.
Source: open-gpu-kernel-modules and captures; the meaning of numbers is the catalogue's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from faultbridge.decoders.base import cut, evidence, over
from faultbridge.decoders.kernel_nvlink import nvlink_attributes
from faultbridge.decoders.kernel_nvlink5 import nvlink5_attributes
from faultbridge.decoders.kernel_prefix import USER, KernelMessage
from faultbridge.domain.faults import Action, Clear, Component, ComponentType, Fault, Severity, normalise_pci

SOURCE = "kernel-log"
RECOVERY_CODE = "xid.154"

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
    r"(?: GPU-I:([0-9a-fA-F]{1,2}))?(?: GPU-CI:([0-9a-fA-F]{1,2}))?\): (\d{1,5})"
    r"(?:[, ] *(?:pid=([^,]{1,64})(?:, |$))?(?:name=(.{1,64}?)(?:, |$))?(.*)|)$",
    re.DOTALL,
)
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,5})\s*$")
_RECOVERY = re.compile(
    r"GPU recovery action changed from (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\) to (0x[0-9a-fA-F]{1,8}) \(([^)]{0,64})\)"
)
_UNKNOWN = frozenset({"'<unknown>'", "<unknown>"})
_NVLINK_ERROR, _RECOVERY_CHANGED = 74, 154


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
    line = message.text
    found = _XID.match(line)
    if found is None:
        return None
    address, instance, compute, digits, pid, name, rest = found.groups()
    text = rest.strip() if rest else ""
    told = origin(message)
    if pid is not None and pid not in _UNKNOWN:
        told["pid"] = pid
    if name is not None and name not in _UNKNOWN:
        told["process"] = name
    if instance is not None:
        told |= _mig(instance, compute)
    number = int(digits)
    if number in _DETAILS:
        told |= _DETAILS[number](text)
    elif "NVLink" in text:
        told |= nvlink_attributes(text)
    if "caused by" in text and (caused := _CAUSED_BY.search(text)):
        told["caused_by"] = f"xid.{int(caused[1])}"
    code = f"xid.{number}"
    fault = Fault(
        SOURCE,
        code,
        gpu_at(address),
        cut(text) or code,
        message.observed_at,
        evidence(line),
        told or NOTHING,
        None,
        None,
        message.node,
        message.count,
    )
    return _judged(fault) if told else fault


NOTHING: Mapping[str, str] = {}


@lru_cache(1024)
def gpu_at(address: str) -> Component:
    """Return the GPU at a PCI address, in whichever spelling the driver printed it."""
    return Component(ComponentType.GPU, pci=normalise_pci(address))


def device_fault(
    message: KernelMessage, code: str, component: Component, text: str, told: Mapping[str, str] = NOTHING
) -> Fault:
    """Make a fault of a kernel message that is no Xid; what a user wrote into the log is noted and moves nothing."""
    attributes = {**origin(message), **told}
    written = message.facility == USER
    return Fault(
        SOURCE,
        code,
        component,
        cut(text),
        message.observed_at,
        evidence(message.text),
        attributes or NOTHING,
        Severity.INFO if written else None,
        Action.NONE if written else None,
        message.node,
        message.count,
    )


def origin(message: KernelMessage) -> dict[str, str]:
    """Return what the prefixes said beyond time and node: seconds since boot, the boot, a user as the writer."""
    told: dict[str, str] = {}
    if message.uptime is not None:
        told["uptime"] = message.uptime
    if message.boot_id is not None:
        told["boot_id"] = message.boot_id
    if message.facility == USER:
        told["facility"] = USER
    return told


def _mig(instance: str, compute: str | None) -> dict[str, str]:
    told = {"mig_gpu_instance": instance}
    return told | {"mig_compute_instance": compute} if compute is not None else told


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
    """State what the line itself states: who wrote it, what caused it, which recovery the driver asks for."""
    told = fault.attributes
    if told.get("facility") == USER or "caused_by" in told:
        # Whoever may write /dev/kmsg could otherwise have the node replaced.
        return fault.classified(Severity.INFO, Action.NONE)
    asked = told.get("recovery_action")
    if asked is None:
        return fault
    number = int(asked, 16)
    if number == 0:
        return over(fault)
    verdict = RECOVERY_ACTIONS.get(number)
    return fault.classified(verdict.severity, verdict.action) if verdict else fault
