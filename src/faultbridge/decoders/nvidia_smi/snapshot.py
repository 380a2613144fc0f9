"""Builds the health snapshot of a node's GPUs from the output of nvidia-smi, in any format."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.clock import MONTHS, calendar_time
from faultbridge.decoders.common.fields import bounded, evidence, pci_of, truncate
from faultbridge.decoders.nvidia_smi.checks import LOST, NEEDS_RESET, Fields, GpuCheckResult, check_results
from faultbridge.decoders.nvidia_smi.peers import width_results
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Severity, Snapshot

LOST_CODE = "smi.gpu_lost"
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")
_TIMESTAMP = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_MONTHS = frozenset(MONTHS)
_MAX_SERIAL = 32
_MAX_INDEX = 3


@dataclass(frozen=True, slots=True)
class GpuOutput:
    """The output about one GPU: its fields and its component.

    `texts` are all values and other texts in the output. nvidia-smi can replace any value by a message that the GPU is
    lost or requires a reset, so all texts are searched for these messages.
    """

    fields: Fields
    component: Component
    texts: frozenset[str] = frozenset()


def gpu_snapshot(
    source: str,
    outputs: Iterable[GpuOutput],
    at: datetime | None,
    *,
    complete: bool,
    stated_faults: Iterable[Fault] = (),
    node: str | None = None,
) -> Snapshot:
    """Return a health snapshot of the GPUs.

    - `at` is the time of the output, and `node` the host name in the output. Both are None if the output lacks them.
    - `complete` means that the output lists all GPUs of the node. The snapshot then also states which devices the node
      has.
    - `stated_faults` are the faults from error messages.
    - A lost GPU has only the fault that it is lost, and clears no fault, because nothing of it was checked.
    """
    covers: defaultdict[str, list[Component]] = defaultdict(list)
    present = list(stated_faults)
    for fault in present:
        covers[fault.code].append(fault.component)
    outputs = bounded(outputs)
    compared = dict(width_results([output.fields for output in outputs]))
    for position, output in enumerate(outputs):
        for result in _results(output, compared.get(position)):
            covers[result.code].append(output.component)
            if result.message:
                present.append(_fault(source, result, output.component, at, node))
    # A query of single GPUs (`-i`) does not list the other GPUs of the node.
    devices = tuple(output.component for output in outputs) if complete else ()
    readable = {code: tuple(components) for code, components in covers.items()}
    return Snapshot(source, readable, tuple(present), at, node=node, devices=devices)


def gpu_component(address: str, uuid: str, serial: str, index: int | None) -> Component:
    """Return a GPU component; an address, UUID or serial number that is not valid is left out."""
    return Component(
        ComponentType.GPU,
        pci=pci_of(address),
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        index=index,
        serial=serial if serial.isalnum() and len(serial) <= _MAX_SERIAL else None,
    )


def index_of(text: str) -> int | None:
    """Return the index of a GPU, or None if the text is not a number of one to three digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_INDEX else None


def local_time(text: str) -> datetime | None:
    """Return the time of a text such as `Tue Feb 3 04:05:06 2026`, or None for other text.

    The time is taken as UTC, because the text has no time zone.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None or found[1] not in _MONTHS:
        return None
    return calendar_time(*found.groups())


def _results(output: GpuOutput, compared: GpuCheckResult | None) -> list[GpuCheckResult]:
    texts = output.texts
    if LOST in texts or f"[{LOST}]" in texts:
        return [GpuCheckResult(LOST_CODE, "GPU is lost.")]
    results = [GpuCheckResult(LOST_CODE), *check_results(output.fields), *([compared] if compared else [])]
    if NEEDS_RESET in texts or f"[{NEEDS_RESET}]" in texts:
        recovery = {"recovery_action": "0x1", "recovery_action_text": NEEDS_RESET}
        needs = GpuCheckResult("smi.recovery_action", "GPU requires reset.", recovery, Severity.FATAL, Action.RESET_GPU)
        results = [item for item in results if item.code != needs.code] + [needs]
    return results


def _fault(source: str, result: GpuCheckResult, component: Component, at: datetime | None, node: str | None) -> Fault:
    details = ", ".join(f"{name}: {text}" for name, text in result.attributes.items())
    return Fault(
        source=source,
        code=result.code,
        component=component,
        message=truncate(result.message),
        observed_at=at,
        evidence=evidence(details or result.message),
        attributes=result.attributes,
        severity=result.severity,
        action=result.action,
        node=node,
    )


def stated_fault(
    source: str, code: str, component: Component, text: str, details: Mapping[str, str] | None = None
) -> Fault:
    """Return a fault with `text` as its message and its evidence, and `details` as its attributes."""
    return Fault(source, code, component, truncate(text), evidence=evidence(text), attributes=details or {})
