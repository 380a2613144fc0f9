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
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.decode.frames.values import digits, elements, members
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, Fault, Observation, Snapshot

# Reads the table of `dcgmi health -c`.
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
_DEPTH = 3
_Incident = tuple[str, str, str, str, list[str]]
"""The kind and number of a device, its watched system, the health of that system, and the pieces of its text."""


def _of_table(text: str) -> Iterator[_Incident]:
    """Yield the incidents of a table. The pieces of a text are complete when the next incident is yielded."""
    device, pieces = None, list[str]()
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        device = _DEVICE.match(name) or device
        if device is not None and (system := _SYSTEM.match(cell)) is not None:
            pieces = []
            yield device[1], device[2], system[1], system[2].capitalize(), pieces
        elif not name and cell:
            pieces.append(cell)


def _of_nested_table(text: str) -> Iterator[_Incident]:
    levels, pieces = list[tuple[int, str]](), list[str]()
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        if name:
            indent = len(row[1]) - len(row[1].lstrip()) if name.startswith("->") else 0
            levels = [level for level in levels if level[0] < indent] + [(indent, name.removeprefix("->").strip())]
            pieces, path = [], [one for _, one in levels if one != "Errors"]
            if len(path) == _DEPTH:
                yield path[0], path[1], path[2], cell, pieces
        elif cell:
            pieces.append(cell)


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
    overall, incidents = _report(text_of(body))
    present: list[Fault] = []
    unknown: set[tuple[str, Component]] = set()
    for (entity, name, system), (health, pieces) in incidents.items():
        component = _component(entity, name)
        if component is not None and health in _UNHEALTHY:
            present.append(_fault(component, system, health, " ".join(pieces)))
        elif component is not None and health != "Healthy":
            unknown.add((health_code(system), component))
    others = tuple(fault.component for fault in present if fault.component.type is not ComponentType.GPU)
    codes = frozenset(fault.code for fault in present)
    covers = _covers(frozenset(unknown), codes, others) if overall in {"Healthy", *_UNHEALTHY} else {}
    return (Snapshot(SOURCE, covers, tuple(present)),)


def _is_table(text: str) -> bool:
    return _TITLE in text and "|" in text and _OVERALL.search(text) is not None


def _report(text: str) -> tuple[str, dict[tuple[str, str, str], tuple[str, list[str]]]]:
    """Return the overall health, and the health and text of each system of each device that the report lists."""
    if "Health watches not enabled" in text:
        raise Rejected("watches_not_enabled", "DCGM watches nothing on this node; run `dcgmi health -s a`")
    if _is_table(text) and (found := _OVERALL.search(text)) is not None:
        overall, incidents = found[1].capitalize(), _of_nested_table(text) if _NESTED.search(text) else _of_table(text)
    else:
        document = embedded(text)
        if document is None:
            raise Rejected("malformed_json", "no complete JSON object")
        report = document.get("body")
        if not isinstance(report, dict) or "Overall Health" not in report:
            raise Rejected("wrong_shape", "no `body` with an `Overall Health`")
        overall, incidents = _value(report["Overall Health"]), _of_json(report)
    return overall, {(kind.lower(), name, system): (health, text) for kind, name, system, health, text in incidents}


def _of_json(report: Mapping[str, Any]) -> Iterator[_Incident]:
    for entity, group in report.items():
        for name, device in _children(group):
            systems = dict(_children(device))
            for system, node in _children(systems["Errors"]) if "Errors" in systems else systems.items():
                pieces = elements(members(node).get("overflow"))
                yield entity, name, system, _value(node), [str(piece).strip() for piece in pieces]


def _component(entity: str, name: str) -> Component | None:
    kind, index = _ENTITIES.get(entity), digits(name, 4)
    if kind is ComponentType.GPU and index is not None and index < MAX_GPUS:
        return _GPUS[index]
    return Component(kind, index=index, name=None if index is not None else name[:64]) if kind else None


def _children(node: object) -> Iterator[tuple[str, Any]]:
    return iter(members(members(node).get("children")).items())


def _value(node: object) -> str:
    value = node.get("value") if isinstance(node, dict) else node
    return value.strip() if isinstance(value, str) else ""


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
