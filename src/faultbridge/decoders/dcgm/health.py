"""Decodes `dcgm-health`: `dcgmi health -c` (JSON or table), as a health snapshot of watched systems.

Grammar: a tree of `children` and `value` that lists only devices with incidents. DCGM splits a message of more than 54
characters between words, into the list `overflow`. `Internal error` means that the health is unknown: neither healthy
nor faulty.

Times: the report has none. Units: none; DCGM's texts are unchanged. Errors: `Rejected(watches_not_enabled)` if DCGM
watches nothing; `Rejected` for a body that is no report. Source: dcgmi's Health.cpp, DCGM 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import embedded, text_of
from faultbridge.decoders.common.fields import evidence, truncate
from faultbridge.decoders.dcgm.health_table import is_health_table, report_of_table
from faultbridge.decoders.dcgm.texts import code_of_text, codes_of_texts
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Observation, Severity, Snapshot
from faultbridge.errors import Rejected

SOURCE = "dcgm-health"
# A report lists only devices with incidents; all other GPUs, at most this many, are healthy.
MAX_GPUS = 16
_GPUS = tuple(Component(ComponentType.GPU, index=index) for index in range(MAX_GPUS))
_SYSTEMS = frozenset(
    "pcie nvlink pmu mcu memory sm inforom thermal power driver connectx nvswitch".split()  # noqa: SIM905 - one line
)
_ENTITIES: Mapping[str, ComponentType] = {
    "gpu": ComponentType.GPU,
    "nvswitch": ComponentType.NVSWITCH,
    "cpu": ComponentType.CPU,
    "nic": ComponentType.NIC,
    "connectx": ComponentType.NIC,
}
_UNHEALTHY = frozenset({"Warning", "Failure"})


def health_code(system: str) -> str:
    """Return the fault code of a system that DCGM watches, such as `dcgm.health_memory`.

    `system` is the printed name, such as `Memory system` or `NVLINK`. The code of an unknown system is
    `dcgm.health_other`.
    """
    first_word = (system.lower().split() or [""])[0]
    return f"dcgm.health_{first_word if first_word in _SYSTEMS else 'other'}"


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return one health snapshot of all watched systems (the parts of devices that DCGM monitors).

    A system with `Internal error` was not checked, so the snapshot does not clear its faults. If the overall health is
    missing or `Internal error`, the snapshot clears no fault.
    """
    report = _report(body)
    present: list[Fault] = []
    unknown: set[tuple[str, Component]] = set()
    for component, system, health, text in _incidents(report):
        if health in _UNHEALTHY:
            present.append(_fault(component, system, health, text))
        elif health != "Healthy":
            unknown.add((health_code(system), component))
    covers = {} if _value(report.get("Overall Health")) not in {"Healthy", *_UNHEALTHY} else _covers(unknown, present)
    return (Snapshot(SOURCE, covers, tuple(present)),)


def recognize(body: bytes) -> bool:
    """Return whether a body is probably a DCGM health report, as JSON or as a table."""
    is_json = b'"Overall Health"' in body
    return is_json or b"Health watches not enabled" in body or is_health_table(text_of(body))


def _report(body: bytes) -> Mapping[str, Any]:
    text = text_of(body)
    if "Health watches not enabled" in text:
        raise Rejected("watches_not_enabled", "DCGM watches nothing on this node; run `dcgmi health -s a`")
    if (table := report_of_table(text)) is not None:
        return table
    document = embedded(text)
    if document is None:
        raise Rejected("malformed_json", "no complete JSON object")
    report = document.get("body")
    if not isinstance(report, dict) or "Overall Health" not in report:
        raise Rejected("wrong_shape", "no `body` with an `Overall Health`")
    return report


def _incidents(report: Mapping[str, Any]) -> Iterator[tuple[Component, str, str, str]]:
    for entity, kind in _ENTITIES.items():
        group = next((found for name, found in report.items() if name.lower() == entity), None)
        for name, device in _children(group):
            index = int(name) if name.isascii() and name.isdigit() and len(name) <= 4 else None  # noqa: PLR2004 - a small number
            component = Component(kind, index=index, name=None if index is not None else name[:64])
            systems = dict(_children(device))
            for system, system_node in _children(systems["Errors"]) if "Errors" in systems else systems.items():
                yield component, system, _value(system_node), _text(system_node)


def _children(node: object) -> Iterator[tuple[str, Any]]:
    children = node.get("children") if isinstance(node, dict) else None
    return iter(children.items() if isinstance(children, dict) else ())


def _value(node: object) -> str:
    value = node.get("value") if isinstance(node, dict) else node
    return value.strip() if isinstance(value, str) else ""


def _text(node: object) -> str:
    pieces = node.get("overflow") if isinstance(node, dict) else None
    return " ".join(str(piece).strip() for piece in pieces) if isinstance(pieces, list) else ""


def _fault(component: Component, system: str, health: str, text: str) -> Fault:
    stated = code_of_text(text)
    fault = Fault(
        source=SOURCE,
        code=stated or health_code(system),
        component=component,
        message=truncate(text or f"{system}: {health}"),
        evidence=evidence(f"{system}: {health} {text}".strip()),
        attributes={"system": system[:64], "health": health},
    )
    # The catalog rates a fault code that the text implies; any other warning needs no action.
    return fault.classified(Severity.WARNING, Action.NONE) if health == "Warning" and stated is None else fault


def _covers(unknown: set[tuple[str, Component]], present: list[Fault]) -> dict[str, tuple[Component, ...]]:
    others = (fault.component for fault in present if fault.component.type is not ComponentType.GPU)
    covered = (*_GPUS, *others)
    codes = {f"dcgm.health_{system}" for system in _SYSTEMS} | {fault.code for fault in present} | codes_of_texts()
    covers = dict.fromkeys(sorted(codes), covered)
    for code in codes.intersection(code for code, _ in unknown):
        covers[code] = tuple(component for component in covered if (code, component) not in unknown)
    return covers


DECODER = Decoder(
    name=SOURCE,
    summary="dcgmi health -c, as JSON (-j) or as a table: DCGM's watches on each GPU",
    example='{"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}',
    recognize=recognize,
    decode=decode,
)
