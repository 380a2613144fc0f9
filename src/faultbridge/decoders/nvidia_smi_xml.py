"""`nvidia-smi-xml`: `nvidia-smi -q -x` as a survey: what of each GPU could be read, and what of that is wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime
from xml.etree.ElementTree import Element

from faultbridge.decoders.base import Decoder, Hints, cut, evidence, pci_of
from faultbridge.decoders.clock import MONTHS, calendar_time
from faultbridge.decoders.nvidia_smi_checks import LOST, NEEDS_RESET, Finding, findings
from faultbridge.decoders.nvidia_smi_tree import read_log, texts, value
from faultbridge.domain.faults import (
    Action,
    Component,
    ComponentType,
    Fault,
    Observation,
    Severity,
    Survey,
)
from faultbridge.errors import Rejected

SOURCE = "nvidia-smi-xml"
LOST_CODE = "smi.gpu_lost"
_TIMESTAMP = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_MONTHS = frozenset(MONTHS)
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Survey every GPU of the document; a lost GPU is reported, and nothing else of it counts as read."""
    root = read_log(body)
    gpus = root.findall("gpu")
    if not gpus:
        raise Rejected("no_framing", "the document names no GPU")
    whole = value(root, "attached_gpus") in {None, str(len(gpus))}
    covers: defaultdict[str, list[Component]] = defaultdict(list)
    present: list[Fault] = []
    devices: list[Component] = []
    at = _observed_at(root)
    for index, gpu in enumerate(gpus):
        component = _component(gpu, index if whole else None)
        devices.append(component)
        for found in _found(gpu, body):
            covers[found.code].append(component)
            if found.message:
                present.append(_fault(found, component, at))
    # A GPU that was asked for alone (`-i`) says nothing about what else sits in the node.
    known = tuple(devices) if whole else ()
    readable = {code: tuple(components) for code, components in covers.items()}
    return (Survey(SOURCE, readable, tuple(present), at, devices=known),)


def recognise(body: bytes) -> bool:
    """Tell whether the root element or its DOCTYPE is nvidia-smi's."""
    return b"<nvidia_smi_log" in body or b"DOCTYPE nvidia_smi_log" in body


def _found(gpu: Element, body: bytes) -> list[Finding]:
    """Return the findings on one GPU; the search through all fields is made only where the words occur at all."""
    words = {text for _, text in texts(gpu)} if LOST.encode() in body or NEEDS_RESET.encode() in body else set()
    if LOST in words or f"[{LOST}]" in words:
        return [Finding(LOST_CODE, "GPU is lost.")]
    found = [Finding(LOST_CODE), *findings(gpu)]
    if NEEDS_RESET in words or f"[{NEEDS_RESET}]" in words:
        asks = {"recovery_action": "0x1", "recovery_action_text": NEEDS_RESET}
        needs = Finding("smi.recovery_action", "GPU requires reset.", asks, Severity.FATAL, Action.RESET_GPU)
        found = [one for one in found if one.code != needs.code] + [needs]
    return found


def _fault(found: Finding, component: Component, at: datetime | None) -> Fault:
    told = ", ".join(f"{name}: {text}" for name, text in found.attributes.items())
    return Fault(
        source=SOURCE,
        code=found.code,
        component=component,
        message=cut(found.message),
        observed_at=at,
        evidence=evidence(told or found.message),
        attributes=found.attributes,
        severity=found.severity,
        action=found.action,
    )


def _component(gpu: Element, index: int | None) -> Component:
    address, uuid, serial = gpu.get("id", ""), value(gpu, "uuid") or "", value(gpu, "serial") or ""
    return Component(
        ComponentType.GPU,
        pci=pci_of(address) or pci_of(value(gpu, "pci/pci_bus_id") or ""),
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        index=index,
        serial=serial if serial.isalnum() and len(serial) <= 32 else None,  # noqa: PLR2004 - serials have 13 digits
    )


def _observed_at(root: Element) -> datetime | None:
    """Read the node's local time, which names no zone, as UTC."""
    found = _TIMESTAMP.fullmatch(value(root, "timestamp") or "")
    if found is None or found[1] not in _MONTHS:
        return None
    return calendar_time(*found.groups())


DECODER = Decoder(
    name=SOURCE,
    summary="nvidia-smi -q -x: a survey of every GPU's health fields",
    example='<nvidia_smi_log><gpu id="00000000:53:00.0"><gpu_recovery_action>Reset</gpu_recovery_action></gpu>'
    "</nvidia_smi_log>",
    recognise=recognise,
    decode=decode,
)
