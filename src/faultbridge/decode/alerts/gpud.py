"""Decodes `gpud`: the responses of GPUd's `/v1/states` and `/v1/events`.

Severity and action of a fault come from the catalog. An exception is a state `Degraded` whose reason contains no Xid or
SXid: its fault is a warning. The repair actions that GPUd suggests become an attribute.

Grammar: a JSON list of components, each with `states` or `events`; `time` can be null. Times: RFC 3339 with a time
zone. Units: none. Errors: `Rejected(no_framing)` if the body has no component. Source: GPUd's API description and
captures.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.instance_type import gpu_named_in, identifiers
from faultbridge.decode.frames.values import elements, members, objects_in, text
from faultbridge.decode.line_source import status_code
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.model.values import replace

SOURCE = "gpud"
_XID_IN_TEXT = re.compile(r"\b(S?XID):? (\d{1,5})\b(?! to \d)", re.IGNORECASE)
_UNHEALTHY = frozenset({"Unhealthy", "Degraded"})
# GPUd uses other event types for information that needs no repair.
_BAD_EVENTS = frozenset({"Warning", "Critical", "Fatal"})
_OTHER = {"code": "agent.condition"}
_GPU = Component(ComponentType.GPU)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of the component states, and a fault for each event that reports a problem."""
    mapped = mapping("gpud", hints.mappings)
    documents = [document for _, document in objects(text_of(body)) if "component" in document]
    components = [
        one for one in documents if isinstance(one.get("states"), list) or isinstance(one.get("events"), list)
    ]
    if not components:
        raise Rejected("no_framing", "no component of GPUd with `states` or `events`")
    events = [fault for component in components for fault in _events(component, mapped)]
    return (*_snapshot(components, mapped), *sorted(events, key=lambda fault: str(fault.observed_at)))


def _snapshot(components: Sequence[Mapping[str, Any]], mapped: Mapping[str, Any]) -> Iterator[Snapshot]:
    covers: defaultdict[str, list[Component]] = defaultdict(list)
    present: list[Fault] = []
    for component in components:
        row = mapped["components"].get(component["component"], _OTHER)
        for state in objects_in(component.get("states")):
            health = text(state.get("health"), 32)
            if health in _UNHEALTHY:
                present.append(_state(component, state, row))
            # A healthy state does not name the Xid that ended, so it covers no Xid; a verified repair ends the fault.
            if health in {"Healthy", *_UNHEALTHY} and row is not _OTHER:
                covers[row["code"]].append(_component(row))
                for stated in row.get("texts", ()):
                    covers[stated["code"]].append(_GPU)
    if covers or present:
        yield Snapshot(SOURCE, {code: tuple(set(found)) for code, found in covers.items()}, tuple(present))


def _state(component: Mapping[str, Any], state: Mapping[str, Any], row: Mapping[str, Any]) -> Fault:
    reason = text(state.get("reason")) or text(state.get("error")) or text(state.get("name"), 128) or ""
    repairs = elements(members(state.get("suggested_actions")).get("repair_actions"))
    actions = ", ".join([action for action in repairs if isinstance(action, str)][:8])
    stated = {"name": text(state.get("name"), 128), "health": text(state.get("health"), 32), "repair_actions": actions}
    fault = _fault(component, row, reason, state.get("time"), **stated)
    degraded = state.get("health") == "Degraded" and _XID_IN_TEXT.search(reason) is None
    return replace(fault, severity=Severity.WARNING) if degraded else fault


def _events(component: Mapping[str, Any], mapped: Mapping[str, Any]) -> Iterator[Fault]:
    for event in objects_in(component.get("events")):
        name, kind = text(event.get("name"), 128), text(event.get("type"), 32)
        row = mapped["components"].get(component["component"], _OTHER)
        row = {**row, "code": mapped["events"].get(name, row["code"])}
        if kind in _BAD_EVENTS:
            yield _fault(
                component, row, text(event.get("message")) or name or "", event.get("time"), name=name, type=kind
            )


def _fault(
    component: Mapping[str, Any], row: Mapping[str, Any], message: str, at: object, **stated: str | None
) -> Fault:
    """Return the fault that a message reports: an Xid or SXid, a known text, or else what its component is about.

    A GPU that a known text names becomes attributes, because the component of such a fault names no GPU. GPUd's later
    healthy state names no GPU either, and a clear ends only a fault of the same component.
    """
    found, gpu = _XID_IN_TEXT.search(message), gpu_named_in(message)
    texts = (text["code"] for text in row.get("texts", ()) if text["contains"] in message)
    known = next(texts, None) or status_code(message)
    code, where = known or row["code"], _GPU if known else _component(row)
    if found:
        is_switch = found[1].lower() == "sxid"
        code = f"{found[1].lower()}.{int(found[2])}"
        where = replace(gpu, type=ComponentType.NVSWITCH if is_switch else ComponentType.GPU)
    name = text(component["component"], 128)
    summary = message or f"{str(component['component'])[:128]} is unhealthy."
    details = {**(identifiers(gpu) if known else {}), "component": name, **stated}
    return fault_of(SOURCE, code, where, summary, message, instant(at), **details)


def _component(row: Mapping[str, Any]) -> Component:
    return Component(ComponentType(row["component"])) if "component" in row else NODE_COMPONENT
