"""`dcgm-health`: `dcgmi health -c -j` as a health snapshot: DCGM's verdict on each watched system of each device.

Grammar: a tree of `children` and `value`; only devices with incidents are listed; a message that is longer than 54
characters is split at words into `overflow`. `Internal error` is unknown, neither well nor ill. Times: the report
carries none. Errors: `Rejected(watches_not_enabled)` where DCGM watches nothing, else for anything that is no report.
Source: dcgmi's Health.cpp, DCGM 2 to 4. Units: none; DCGM's texts stay as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import embedded, text_of
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Observation, Severity, Snapshot
from faultbridge.errors import Rejected

SOURCE = "dcgm-health"
# A report lists only the devices that have incidents; the others, at most this many, are well.
MAX_GPUS = 16
_SYSTEMS: Mapping[str, str] = {
    "pcie": "pcie",
    "nvlink": "nvlink",
    "pmu": "pmu",
    "mcu": "mcu",
    "memory": "memory",
    "sm": "sm",
    "inforom": "inforom",
    "thermal": "thermal",
    "power": "power",
    "driver": "driver",
    "connectx": "connectx",
    "nvswitch": "nvswitch",
}
_ENTITIES: Mapping[str, ComponentType] = {
    "gpu": ComponentType.GPU,
    "nvswitch": ComponentType.NVSWITCH,
    "cpu": ComponentType.CPU,
    "nic": ComponentType.NIC,
    "connectx": ComponentType.NIC,
}
_UNHEALTHY = frozenset({"Warning", "Failure"})


def health_code(system: str) -> str:
    """Name the code of a watched system as DCGM prints it (`Memory system`, `NVLINK`)."""
    word = (system.lower().split() or [""])[0]
    return f"dcgm.health_{_SYSTEMS.get(word, 'other')}"


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot all watched systems; what DCGM could not evaluate (`Internal error`) is not covered."""
    report = _report(body)
    present: list[Fault] = []
    unknown: set[tuple[str, Component]] = set()
    for component, system, verdict, text in _incidents(report):
        if verdict in _UNHEALTHY:
            present.append(_fault(component, system, verdict, text))
        elif verdict != "Healthy":
            unknown.add((health_code(system), component))
    covers = {} if _value(report.get("Overall Health")) not in {"Healthy", *_UNHEALTHY} else _covers(unknown, present)
    return (Snapshot(SOURCE, covers, tuple(present)),)


def recognize(body: bytes) -> bool:
    """Tell whether the report's own words are there."""
    return b'"Overall Health"' in body or b"Health watches not enabled" in body


def _report(body: bytes) -> Mapping[str, Any]:
    text = text_of(body)
    if "Health watches not enabled" in text:
        raise Rejected(
            "watches_not_enabled", "DCGM watches nothing on this node (enable them with `dcgmi health -s a`)"
        )
    written = embedded(text)
    if written is None:
        raise Rejected("malformed_json", "no whole JSON object in it")
    report = written.get("body")
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
            for system, told in _children(systems["Errors"]) if "Errors" in systems else systems.items():
                yield component, system, _value(told), _text(told)


def _children(node: object) -> Iterator[tuple[str, Any]]:
    children = node.get("children") if isinstance(node, dict) else None
    return iter(children.items() if isinstance(children, dict) else ())


def _value(node: object) -> str:
    value = node.get("value") if isinstance(node, dict) else node
    return value.strip() if isinstance(value, str) else ""


def _text(node: object) -> str:
    """Join a message that was split at word boundaries to fit a table."""
    pieces = node.get("overflow") if isinstance(node, dict) else None
    return " ".join(str(piece).strip() for piece in pieces) if isinstance(pieces, list) else ""


def _fault(component: Component, system: str, verdict: str, text: str) -> Fault:
    fault = Fault(
        source=SOURCE,
        code=health_code(system),
        component=component,
        message=cut(text or f"{system}: {verdict}"),
        evidence=evidence(f"{system}: {verdict} {text}".strip()),
        attributes={"system": system[:64], "health": verdict},
    )
    return fault.classified(Severity.WARNING, Action.NONE) if verdict == "Warning" else fault


def _covers(unknown: set[tuple[str, Component]], present: list[Fault]) -> dict[str, tuple[Component, ...]]:
    gpus = [Component(ComponentType.GPU, index=index) for index in range(MAX_GPUS)]
    others = [fault.component for fault in present if fault.component.type is not ComponentType.GPU]
    codes = {f"dcgm.health_{system}" for system in _SYSTEMS.values()} | {fault.code for fault in present}
    return {
        code: tuple(component for component in (*gpus, *others) if (code, component) not in unknown)
        for code in sorted(codes)
    }


DECODER = Decoder(
    name=SOURCE,
    summary="dcgmi health -c -j: DCGM's watches on each GPU",
    example='{"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}',
    recognize=recognize,
    decode=decode,
)
