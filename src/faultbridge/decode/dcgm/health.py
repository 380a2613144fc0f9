"""Decodes `dcgm-health`: `dcgmi health -c` (JSON or table), as a health snapshot of watched systems.

Grammar: a tree of `children` and `value` that lists only devices with incidents. DCGM splits a message of more than 54
characters between words, into the list `overflow`. `Internal error` means that the health is unknown: neither healthy
nor faulty.

Times: the report has none. Units: none; DCGM's texts are unchanged. Errors: `Rejected(watches_not_enabled)` if DCGM
watches nothing; `Rejected` for a body that is no report. Source: dcgmi's Health.cpp, DCGM 2 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from faultbridge.decode.dcgm.texts import code_of_text, codes_of_texts, xid_named_in
from faultbridge.decode.frames.decoder import Hints, digits, fault_of
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, Fault, Observation, Snapshot

# Converts the table of `dcgmi health -c` to the structure of its JSON output.
#
# Grammar: `| GPU 3 | Memory: Failure |` starts the entry of one watched system (`Memory`) of one device (`GPU 3`). A
# row with an empty first cell continues the text of the row above. Newer versions print each level of the tree as a
# row, with `->` before its name: `| -> 3 | Failure |`. Source: dcgmi's Health.cpp and DCGM's documentation.

_TITLE = "Health Monitor Report"
_ROW = re.compile(r"^\|([^|\n]{0,64})\|([^|\n]{0,256})\|", re.MULTILINE)
_OVERALL = re.compile(
    r"Overall Health(?:: {0,8}| {0,64}\|(?: {0,8}))(Healthy|Warning|Failure|Internal error)", re.IGNORECASE
)
_NESTED = re.compile(r"^\|(?P<indent> {1,16})-> ", re.MULTILINE)
_DEVICE = re.compile(r"(GPU|NvSwitch|CPU|NIC|ConnectX)(?: ID:?)? {0,4}(\d{1,4})$", re.IGNORECASE)
_SYSTEM = re.compile(
    r"([A-Za-z][\w ]{1,40}?)(?: system)?: {0,4}(Healthy|Warning|Failure|Internal error)$", re.IGNORECASE
)


def is_health_table(text: str) -> bool:
    """Return whether a text is the table of `dcgmi health -c`."""
    return _TITLE in text and _OVERALL.search(text) is not None and "|" in text


def report_of_table(text: str) -> Mapping[str, Any] | None:
    """Convert the table of a health report to the structure of its JSON output; None for other text."""
    overall = _OVERALL.search(text)
    if overall is None or not is_health_table(text):
        return None
    report: dict[str, Any] = {"Overall Health": {"value": overall[1].capitalize()}}
    if _NESTED.search(text) is not None:
        return _nested(text) | report
    systems: dict[str, Any] | None = None
    overflow: list[str] = []
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        device, system = _DEVICE.match(name), _SYSTEM.match(cell)
        if device is not None:
            group = report.setdefault(device[1], {"children": {}})["children"]
            systems = group.setdefault(device[2], {"children": {"Errors": {"children": {}}}})["children"]["Errors"][
                "children"
            ]
        if systems is not None and system is not None:
            overflow = []
            systems[system[1]] = {"value": system[2].capitalize(), "overflow": overflow}
        elif systems is not None and not name and cell:
            overflow.append(cell)
    return report


def _nested(text: str) -> dict[str, Any]:
    report: dict[str, Any] = {}
    # The open levels: the indentation of each, and its children.
    levels: list[tuple[int, dict[str, Any]]] = []
    overflow: list[str] = []
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        if not name:
            overflow += [cell] if cell else []
            continue
        indent = len(row[1]) - len(row[1].lstrip()) if name.startswith("->") else 0
        while levels and levels[-1][0] >= indent:
            levels.pop()
        overflow = []
        children: dict[str, Any] = {}
        parent = levels[-1][1] if levels else report
        parent[name.removeprefix("->").strip()] = {"value": cell, "overflow": overflow, "children": children}
        levels.append((indent, children))
    return report


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
    """Return the fault code of a system that DCGM watches, such as `dcgm.health_memory`."""
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
    others = tuple(fault.component for fault in present if fault.component.type is not ComponentType.GPU)
    is_checked = _value(report.get("Overall Health")) in {"Healthy", *_UNHEALTHY}
    codes = frozenset(fault.code for fault in present)
    covers = _covers(frozenset(unknown), codes, others) if is_checked else {}
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
    groups = {name.lower(): group for name, group in [*report.items()][::-1]}
    for entity, kind in _ENTITIES.items():
        for name, device in _children(groups.get(entity)):
            index = digits(name, 4)
            if kind is ComponentType.GPU and index is not None and index < MAX_GPUS:
                component = _GPUS[index]
            else:
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
    stated = xid_named_in(text) or code_of_text(text)
    code, message, raw = stated or health_code(system), text or f"{system}: {health}", f"{system}: {health} {text}"
    fault = fault_of(SOURCE, code, component, message, raw.strip(), system=system[:64], health=health)
    # The catalog rates a fault code that the text implies; any other warning needs no action.
    return fault.classified(Severity.WARNING, Action.NONE) if health == "Warning" and stated is None else fault


@lru_cache(maxsize=256)
def _covers(
    unknown: frozenset[tuple[str, Component]], found: frozenset[str], others: tuple[Component, ...]
) -> Mapping[str, tuple[Component, ...]]:
    covered = (*_GPUS, *others)
    codes = {f"dcgm.health_{system}" for system in _SYSTEMS} | found | codes_of_texts()
    covers = dict.fromkeys(sorted(codes), covered)
    for code in codes.intersection(code for code, _ in unknown):
        covers[code] = tuple(component for component in covered if (code, component) not in unknown)
    return covers
