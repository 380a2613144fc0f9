"""A look at a node's GPUs with nvidia-smi, in whichever output: what could be read, and what of it is wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decoders.base import bounded, cut, evidence, pci_of
from faultbridge.decoders.clock import MONTHS, calendar_time
from faultbridge.decoders.nvidia_smi_checks import LOST, NEEDS_RESET, Fields, Finding, findings
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Severity, Snapshot

LOST_CODE = "smi.gpu_lost"
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")
_TIMESTAMP = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_MONTHS = frozenset(MONTHS)
_MAX_SERIAL = 32
_MAX_INDEX = 3


@dataclass(frozen=True, slots=True)
class Look:
    """What one output says of one GPU: its fields, its names, and every word in it."""

    fields: Fields
    component: Component
    words: frozenset[str] = frozenset()


def snapshot(
    source: str,
    looks: Iterable[Look],
    at: datetime | None,
    *,
    whole: bool,
    also: Iterable[Fault] = (),
    node: str | None = None,
) -> Snapshot:
    """Health snapshot every GPU that was looked at; a lost GPU is reported, and nothing else of it counts as read.

    `whole` says that these are all GPUs of the node; `also` are faults that the output states in words.
    """
    covers: defaultdict[str, list[Component]] = defaultdict(list)
    present = list(also)
    for fault in present:
        covers[fault.code].append(fault.component)
    looks = bounded(looks)
    for look in looks:
        for found in _found(look):
            covers[found.code].append(look.component)
            if found.message:
                present.append(_fault(source, found, look.component, at, node))
    # A GPU that was asked for alone (`-i`) says nothing about what else sits in the node.
    known = tuple(look.component for look in looks) if whole else ()
    readable = {code: tuple(components) for code, components in covers.items()}
    return Snapshot(source, readable, tuple(present), at, node=node, devices=known)


def gpu_component(address: str, uuid: str, serial: str, index: int | None) -> Component:
    """Name a GPU by whatever of its names can be read."""
    return Component(
        ComponentType.GPU,
        pci=pci_of(address),
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        index=index,
        serial=serial if serial.isalnum() and len(serial) <= _MAX_SERIAL else None,
    )


def index_of(text: str) -> int | None:
    """Read a GPU's index."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_INDEX else None


def local_time(text: str) -> datetime | None:
    """Read the node's local time, `Tue Feb  3 04:05:06 2026`, which names no zone, as UTC."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None or found[1] not in _MONTHS:
        return None
    return calendar_time(*found.groups())


def _found(look: Look) -> list[Finding]:
    words = look.words
    if LOST in words or f"[{LOST}]" in words:
        return [Finding(LOST_CODE, "GPU is lost.")]
    found = [Finding(LOST_CODE), *findings(look.fields)]
    if NEEDS_RESET in words or f"[{NEEDS_RESET}]" in words:
        asks = {"recovery_action": "0x1", "recovery_action_text": NEEDS_RESET}
        needs = Finding("smi.recovery_action", "GPU requires reset.", asks, Severity.FATAL, Action.RESET_GPU)
        found = [one for one in found if one.code != needs.code] + [needs]
    return found


def _fault(source: str, found: Finding, component: Component, at: datetime | None, node: str | None) -> Fault:
    told = ", ".join(f"{name}: {text}" for name, text in found.attributes.items())
    return Fault(
        source=source,
        code=found.code,
        component=component,
        message=cut(found.message),
        observed_at=at,
        evidence=evidence(told or found.message),
        attributes=found.attributes,
        severity=found.severity,
        action=found.action,
        node=node,
    )


def stated(source: str, code: str, component: Component, text: str, told: Mapping[str, str] | None = None) -> Fault:
    """Make a fault of what an output states in words."""
    return Fault(source, code, component, cut(text), evidence=evidence(text), attributes=told or {})
