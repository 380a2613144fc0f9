"""`gpud`: answers of its `/v1/states` and `/v1/events`.

The code of an Xid or SXid that a text names is judged by the catalogue, which weighs gpud's advice with that of
others; what gpud itself suggests goes along as an attribute.

Grammar: a JSON list of components, each with `states` or `events`; `time` may be null. Times: RFC 3339 with a zone.
Units: none. Errors: `Rejected(no_framing)` where no component is there. Source: gpud's API description and captures.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Decoder, Hints, cut, evidence, pci_of
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import elements, members, objects_in, text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import (
    NODE_COMPONENT,
    Component,
    ComponentType,
    Fault,
    Observation,
    Severity,
    Snapshot,
)
from faultbridge.errors import Rejected

SOURCE = "gpud"
_NAMED = re.compile(r"\b(S?XID) (\d{1,5}) ?\(", re.IGNORECASE)
_ON = re.compile(r"\bon (PCI:[0-9a-fA-F:.]{7,20}|GPU-[0-9a-fA-F-]{1,48})")
_WRONG = frozenset({"Unhealthy", "Degraded"})
# An event of another type is gpud's own word for something that needs nobody.
_BAD_EVENTS = frozenset({"Warning", "Critical", "Fatal"})
_OTHER = {"code": "agent.condition"}


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot the states and report the events of each component; neither in it is `Rejected`."""
    known = mapping("gpud", hints.mappings)
    components = [written for _, written in objects(text_of(body)) if _is_component(written)]
    if not components:
        raise Rejected("no_framing", "no component of gpud with states or events in it")
    events = [fault for one in components for fault in _events(one, known)]
    return (*_snapshot(components, known), *sorted(events, key=lambda fault: str(fault.observed_at)))


def recognize(body: bytes) -> bool:
    """Tell whether a component with states or events is there."""
    return b'"component"' in body and (b'"states"' in body or b'"events"' in body) and b'"nodeName"' not in body


def _is_component(written: Mapping[str, Any]) -> bool:
    return "component" in written and (
        isinstance(written.get("states"), list) or isinstance(written.get("events"), list)
    )


def _snapshot(components: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> Iterator[Snapshot]:
    covers: defaultdict[str, list[Component]] = defaultdict(list)
    present: list[Fault] = []
    for component in components:
        row = known["components"].get(component["component"], _OTHER)
        for state in objects_in(component.get("states")):
            health = text(state.get("health"), 32)
            if health in _WRONG:
                present.append(_state(component, state, row))
            # Which Xid is over, a healthy state does not say: that is for the repair to prove.
            if health in {"Healthy", *_WRONG} and row is not _OTHER:
                covers[row["code"]].append(_component(row))
    if covers or present:
        yield Snapshot(SOURCE, {code: tuple(set(found)) for code, found in covers.items()}, tuple(present))


def _state(component: Mapping[str, Any], state: Mapping[str, Any], row: Mapping[str, Any]) -> Fault:
    reason = text(state.get("reason")) or text(state.get("error")) or text(state.get("name"), 128) or ""
    suggested = members(state.get("suggested_actions"))
    actions = [action for action in elements(suggested.get("repair_actions")) if isinstance(action, str)]
    degraded = state.get("health") == "Degraded" and _NAMED.search(reason) is None
    return replace(
        _fault(reason, row, component),
        observed_at=instant(state.get("time")),
        severity=Severity.WARNING if degraded else None,
        attributes=told(
            component=text(component["component"], 128),
            name=text(state.get("name"), 128),
            health=text(state.get("health"), 32),
            repair_actions=", ".join(actions[:8]),
        ),
    )


def _events(component: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Fault]:
    for event in objects_in(component.get("events")):
        name, kind = text(event.get("name"), 128), text(event.get("type"), 32)
        row = known["components"].get(component["component"], _OTHER)
        row = {**row, "code": known["events"].get(name, row["code"])}
        if kind in _BAD_EVENTS:
            yield replace(
                _fault(text(event.get("message")) or name or "", row, component),
                observed_at=instant(event.get("time")),
                attributes=told(component=text(component["component"], 128), name=name, type=kind),
            )


def _fault(said: str, row: Mapping[str, Any], component: Mapping[str, Any]) -> Fault:
    """Name the Xid or SXid that a text names, else the component's own trouble."""
    found = _NAMED.search(said)
    code = f"{found[1].lower()}.{int(found[2])}" if found else str(row["code"])
    where = _device(said, code) if found else _component(row)
    message = cut(said or f"{str(component['component'])[:128]} is unhealthy.")
    return Fault(SOURCE, code, where, message, evidence=evidence(said))


def _device(said: str, code: str) -> Component:
    kind = ComponentType.NVSWITCH if code.startswith("sxid.") else ComponentType.GPU
    found = _ON.search(said)
    if found is None:
        return Component(kind)
    return Component(kind, uuid=found[1]) if found[1].startswith("GPU-") else Component(kind, pci=pci_of(found[1]))


def _component(row: Mapping[str, Any]) -> Component:
    return Component(ComponentType(row["component"])) if "component" in row else NODE_COMPONENT


DECODER = Decoder(
    name=SOURCE,
    summary="gpud's GET /v1/states and GET /v1/events",
    example='[{"component": "accelerator-nvidia-error-xid", "states": [{"time": null, "name": "error_xid", "health": '
    '"Unhealthy", "reason": "XID 79 (GPU has fallen off the bus) detected on PCI:0000:c1:00", '
    '"suggested_actions": {"repair_actions": ["REBOOT_SYSTEM"]}}]}]',
    recognize=recognize,
    decode=decode,
)
