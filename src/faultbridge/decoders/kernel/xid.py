"""Reads Xid lines of the NVIDIA driver, from 2013 to NVLink5, with the recovery action of Xid 154.

Grammar: `NVRM: Xid (PCI:dddd:bb:dd[ GPU-I:nn[ GPU-CI:nn]]): CODE[, pid=P][, name=N][, TEXT][ caused by previous Xid
C]`. Old drivers omit `PCI:`. Some codes have no comma after the number. A process name can contain any character.
Source: open-gpu-kernel-modules and captures. The catalog defines the meaning of each number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.decoder import to_clear
from faultbridge.decoders.common.fields import evidence, truncate
from faultbridge.decoders.common.prefix import USER, KernelMessage
from faultbridge.decoders.kernel.nvlink import nvlink5_attributes, nvlink_attributes
from faultbridge.domain.faults import Action, Clear, Component, ComponentType, Fault, Severity, normalize_pci
from faultbridge.domain.records import OF_SYSLOG

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


@dataclass(frozen=True, slots=True)
class RecoveryVerdict:
    """The severity and action that follow from one value of the driver's recovery action (Xid 154)."""

    severity: Severity
    action: Action


# NVML's enumeration. Driver branches changed the text after the number; the numbers stayed the same.
RECOVERY_ACTIONS: Mapping[int, RecoveryVerdict] = {
    1: RecoveryVerdict(Severity.FATAL, Action.RESET_GPU),
    2: RecoveryVerdict(Severity.FATAL, Action.REBOOT_NODE),
    3: RecoveryVerdict(Severity.ERROR, Action.RESET_GPU),
    4: RecoveryVerdict(Severity.ERROR, Action.RESET_GPU),
}


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
        details |= _mig(instance, compute)
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


EMPTY: Mapping[str, str] = {}


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
    by_user = message.facility == USER
    return Fault(
        SOURCE,
        code,
        component,
        truncate(text),
        message.observed_at,
        evidence(message.text),
        attributes or EMPTY,
        Severity.INFO if by_user else None,
        Action.NONE if by_user else None,
        message.node,
        message.count,
    )


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


def _mig(instance: str, compute: str | None) -> dict[str, str]:
    details = {"mig_gpu_instance": instance}
    return details | {"mig_compute_instance": compute} if compute is not None else details


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
    verdict = RECOVERY_ACTIONS.get(number)
    return fault.classified(verdict.severity, verdict.action) if verdict else fault
