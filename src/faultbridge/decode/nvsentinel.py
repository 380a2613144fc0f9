"""Decodes `nvsentinel`: health events from JSON logs, CloudEvents and node condition messages.

The catalog determines severity and action of known Xid and DCGM codes, because NVSentinel rates some harmless errors as
fatal. The recommendation of NVSentinel becomes an attribute. It determines the action only for an error that the
catalog does not contain.

Grammar: an event alone, in a list, in `events` of a log line, or in `data` of a CloudEvent; fields that are false or
zero are omitted. Also a Kubernetes node with conditions of NVSentinel. Times: `generatedTimestamp` as seconds and
nanoseconds since 1970, or as RFC 3339; `lastHeartbeatTime` of a condition. Units: none. Errors: `Rejected(no_framing)`
without a health event. Source: NVSentinel's protocol and logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.dcgm.texts import CODES, code_of_number, expand_families
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.instance_type import identifiers
from faultbridge.decode.frames.values import digits, elements, members, objects_in, pci_of, text
from faultbridge.decode.kubernetes.node_objects import NodeConditions, is_node, items_of, node_conditions
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.model.values import replace

# Reads NVSentinel's health events, and translates their error codes into fault codes.
#
# A field that is zero or false can be absent, because protobuf JSON omits it.

_HOLDERS = ("events", "healthEvents", "health_events", "event", "HealthEvent", "healthEvent", "data", "healthevent")
_MAX_NESTED = 6
_UUID = re.compile(r"GPU-[0-9a-zA-Z-]{1,48}")


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """One health event: the result of one check on a node, about one component of the node."""

    node: str | None
    check: str
    healthy: bool
    fatal: bool
    message: str
    action: str
    errors: tuple[str, ...]
    component: Component
    at: datetime | None
    named: Component | None = None
    """The device that the message of a node condition identifies, or None.

    If it is set, `component` has no identifiers, so that a healthy condition, which names no device, ends the fault.
    """


def _health_events(document: object, depth: int = 0) -> Iterator[HealthEvent]:
    """Yield the health events in a JSON document. Up to six levels of other objects may contain them."""
    if isinstance(document, list):
        for item in document:
            yield from _health_events(item, depth + 1) if depth < _MAX_NESTED else ()
    elif isinstance(document, dict):
        if "checkName" in document or ("agent" in document and "componentClass" in document):
            yield _event(document)
            return
        for name in _HOLDERS:
            if depth < _MAX_NESTED and isinstance(document.get(name), dict | list):
                yield from _health_events(document[name], depth + 1)


def _component(entities: Iterable[tuple[str, str]]) -> Component:
    """Return the component that the entities of an event name, by their kinds and values; the first value counts."""
    names: dict[str, Any] = {}
    for kind, value in ((kind.upper(), value) for kind, value in entities):
        pci = pci_of(value) if kind in {"PCI", "PCI_ADDRESS"} else None
        index = digits(value, 3) if kind == "GPU" else None
        uuid = value if kind == "GPU_UUID" and _UUID.fullmatch(value) else None
        name = value[:64] if kind in {"NIC", "NIC_PORT", "INTERFACE"} else None
        stated = {"pci": pci, "index": index, "uuid": uuid, "name": name}
        names = {field: found for field, found in stated.items() if found is not None} | names
    if "name" in names:
        return Component(ComponentType.NIC, name=names["name"], pci=names.get("pci"))
    return Component(ComponentType.GPU, **names) if names else NODE_COMPONENT


def _event(document: Mapping[str, Any]) -> HealthEvent:
    entities = objects_in(document.get("entitiesImpacted"))
    component = _component(
        (text(one.get("entityType"), 32) or "", text(one.get("entityValue"), 128) or "") for one in entities
    )
    if component == NODE_COMPONENT and document.get("componentClass") == "GPU":
        component = Component(ComponentType.GPU)  # an event of class GPU without entities is about an unnamed GPU
    action = document.get("recommendedAction", 0)
    return HealthEvent(
        node=text(document.get("nodeName"), 253),
        check=text(document.get("checkName"), 128) or "",
        healthy=document.get("isHealthy") is True,
        fatal=document.get("isFatal") is True,
        message=text(document.get("message")) or "",
        action=str(action)[:32] if isinstance(action, str | int) else "",
        errors=tuple(item[:128] for item in elements(document.get("errorCode"))[:16] if isinstance(item, str) and item),
        component=component,
        at=instant(members(document.get("generatedTimestamp")) or document.get("generatedTimestamp")),
    )


_XID_IN_TEXT = re.compile(r"\bXID (\d{1,5})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(\d{1,5})(?:\.(\w{1,64}))?")
_PART = re.compile(r"\b(ErrorCode|PCI|GPU_UUID|GPU|NIC):(\S{1,128})")
_ADVICE = re.compile(r"Recommended Action=(\w{1,32})")
_CONDITION = re.compile(r"^(\w{1,64}) = (True|False) +reason=(\w{1,64})", re.MULTILINE)


def _code(error: str | None, event: HealthEvent, mapped: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the fault code of an error code of an event, and the NVLink unit in the error code.

    - The error code is an Xid or SXid, such as `149.NETIR_LINK_EVT`. The unit is the text after the dot, or None if
      there is no dot.
    - Any other error code is translated by the mapping `mapped` or is the name of a DCGM error. If it stands for any
      Xid, the Xid is taken from the message of the event. The unit is None.
    - Without an error code, the check determines the fault code, or an Xid in the message.
    - The fault code of an unknown error is `agent.condition`.
    """
    number, identifier = _NUMBER.fullmatch(error or ""), _XID_IN_TEXT.search(event.message)
    xid = f"xid.{int(identifier[1])}" if identifier else None
    if number:
        switch = event.check.upper().startswith("SYSLOGSSXID")
        return f"{'sxid' if switch else 'xid'}.{int(number[1])}", number[2]
    if not error:
        return str(mapped["check_codes"].get(event.check) or xid or "agent.condition"), None
    code = mapped["errors"].get(error) or "dcgm." + error.removeprefix("DCGM_FR_").lower()
    if code == "dcgm.xid_error" and xid:
        return xid, None
    return code if code in CODES or error in mapped["errors"] else "agent.condition", None


def _condition_events(text: str) -> Iterator[HealthEvent]:
    """Yield an unhealthy event for each error in the message of a node condition.

    The message has the form `ErrorCode:79 PCI:... ;ErrorCode:...`. If the text also states that the condition is False,
    which means healthy, nothing is yielded.
    """
    found = _CONDITION.search(text)
    if found and found[2] == "False":
        return
    for part in text.split("ErrorCode:")[1:]:
        # The quoted kernel line repeats the device in another format; the first value of each field is used.
        fields = dict(reversed(_PART.findall("ErrorCode:" + part[:4096])))
        advice = _ADVICE.search(part[:4096])
        yield HealthEvent(
            node=None,
            check=found[1] if found else "",
            healthy=False,
            fatal=False,
            message=part[:4096].strip(),
            action=advice[1] if advice else "",
            errors=(fields["ErrorCode"].rstrip(";,"),) if "ErrorCode" in fields else (),
            component=_component(fields.items()),
            at=None,
        )


# Reads the conditions that NVSentinel writes to a Kubernetes node.
#
# The type of a condition is the name of the check, and status True means unhealthy. The reason is the type followed by
# `IsNotHealthy` or `IsHealthy`. The message lists the errors. NVSentinel truncates the message, so an error can exist
# even if the message does not contain it. The heartbeat time is the time of the last health event of the check.

_UNNAMED = {kind: Component(kind) for kind in (ComponentType.GPU, ComponentType.NIC)}


def is_check(condition: Mapping[str, Any]) -> bool:
    """Return whether a node condition is the result of a check by NVSentinel."""
    kind, reason = condition.get("type"), condition.get("reason")
    return isinstance(kind, str) and reason in (f"{kind}IsNotHealthy", f"{kind}IsHealthy")


def _condition_events_of(node: NodeConditions) -> Iterator[HealthEvent]:
    """Yield events for the conditions of a node: one for each error, and several for a healthy condition.

    A healthy event ends a fault only if both have the same component. A healthy condition does not identify a device.
    The component of an unhealthy event is therefore a GPU, a NIC or the node without an identifier, so that a later
    healthy event can end its fault. The field `named` has the device that the error identifies. A healthy condition
    gives one event for each of these three components.
    """
    for one in node.conditions:
        if not is_check({"type": one.type, "reason": one.reason}):
            continue
        check, at = one.type[:64], one.checked_at or one.changed_at
        if one.status == "False":
            for component in (NODE_COMPONENT, *_UNNAMED.values()):
                yield HealthEvent(node.name, check, True, False, "", "", (), component, at)
            continue
        for event in _condition_events(one.message or ""):
            unnamed = _UNNAMED.get(event.component.type, NODE_COMPONENT)
            yield replace(event, check=check, node=node.name, at=at, component=unnamed, named=event.component)


def joined(observations: Iterable[Observation]) -> Iterator[Snapshot]:
    """Yield one health snapshot for each node, with the faults and clears of all its conditions.

    In separate snapshots, a healthy check could clear a fault that another check of the node reports.
    """
    covers: defaultdict[str | None, dict[str, dict[Component, None]]] = defaultdict(dict)
    present: defaultdict[str | None, list[Fault]] = defaultdict(list)
    sources = dict[str | None, str]()
    for one in observations:
        sources.setdefault(one.node, one.source)
        if isinstance(one, Fault):
            present[one.node].append(one)
        elif isinstance(one, Snapshot):
            present[one.node] += one.present
            for code, components in one.covers.items():
                covers[one.node].setdefault(code, {}).update(dict.fromkeys(components))
    for node, source in sources.items():
        covered = {code: tuple(components) for code, components in covers[node].items()}
        yield Snapshot(source, covered, tuple(present[node]), node=node)


SOURCE = "nvsentinel"
_PREFLIGHT = "preflight-dcgm-diag"
_Recoveries = defaultdict[tuple[str | None, datetime | None, str], dict[Component, None]]


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each error of the unhealthy events, and health snapshots for the healthy events."""
    mapped, body_text = mapping("nvsentinel", hints.mappings), text_of(body)
    events: list[HealthEvent] = []
    of_nodes: list[HealthEvent] = []
    has_documents, diagnostics = False, []
    for item in (item for _, document in objects(body_text) for item in items_of(document)):
        has_documents = True
        events += _health_events(item)
        node = node_conditions(item) if item.get("kind") == "Node" else None
        of_nodes += _condition_events_of(node) if node else ()
        if item.get("module") == _PREFLIGHT or "error_code" in item:
            diagnostics.append(item)
    if not (events or of_nodes or diagnostics) and "ErrorCode:" not in body_text:
        raise Rejected("no_framing", "no health event of NVSentinel")
    if not has_documents:
        events = list(_condition_events(body_text))
    # A condition does not identify its device, so a healthy check could end the fault that another check reports.
    unhealthy = {event.node for event in of_nodes if not event.healthy}
    certain = [event for event in of_nodes if not event.healthy or event.node not in unhealthy]
    return (
        *_observations([*events, *certain], mapped),
        *(_diagnostic(item) for item in diagnostics if "error_code" in item),
    )


def node_observations(nodes: Iterable[NodeConditions], source: str, hints: Hints) -> Iterator[Observation]:
    """Yield the observations in NVSentinel's conditions of nodes, with `source` as their source."""
    events = [event for node in nodes for event in _condition_events_of(node)]
    for one in _observations(events, mapping("nvsentinel", hints.mappings)) if events else ():
        yield replace(one, source=source)


def _observations(events: Sequence[HealthEvent], mapped: Mapping[str, Any]) -> Iterator[Fault | Snapshot]:
    yield from _faults(dict.fromkeys(event for event in events if not event.healthy), mapped)
    yield from _snapshots((event for event in events if event.healthy), mapped)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has a health event or a condition message of NVSentinel.

    Returns False for a complete Kubernetes node, because the source `kubernetes-node` also reads NVSentinel's
    conditions.
    """
    if is_node(body) or b"LastTransitionTime" in body:
        return False
    events = b'"checkName"' in body and (b'"entitiesImpacted"' in body or b'"componentClass"' in body)
    return events or b"ErrorCode:" in body[:4096] or _PREFLIGHT.encode() in body


def _faults(events: Mapping[HealthEvent, None], mapped: Mapping[str, Any]) -> Iterator[Fault]:
    for event in events:
        for error in event.errors or (None,):
            code, unit = _code(error, event, mapped)
            advised = mapped["actions"].get(event.action)
            is_unknown = code == "agent.condition"
            message = event.message or f"{event.check} reports {error or 'an error'}."
            raw = event.message or f"{event.check}: {error or ''}"
            details = {
                "check_name": event.check,
                "error_code": error,
                "error_unit": unit,
                "recommended_action": event.action,
                "is_fatal": "true" if event.fatal else "false",
                **(identifiers(event.named) if event.named else {}),
            }
            fault = fault_of(SOURCE, code, event.component, message, raw, event.at, event.node, **details)
            severity = Severity.ERROR if event.fatal else Severity.WARNING
            action = Action(advised) if advised else None
            yield replace(fault, severity=severity, action=action) if is_unknown else fault


def _snapshots(events: Iterator[HealthEvent], mapped: Mapping[str, Any]) -> Iterator[Snapshot]:
    """Yield one health snapshot for each check, node and time that has healthy events."""
    recovered: _Recoveries = defaultdict(dict)
    for event in events:
        recovered[event.node, event.at, event.check][event.component] = None
    for (node, at, check), components in recovered.items():
        row = next((row for row in mapped["checks"] if re.fullmatch(row["pattern"], check)), None)
        codes = (*expand_families(row["clears"] if row else ()), "agent.condition")
        yield Snapshot(SOURCE, dict.fromkeys(codes, tuple(components)), (), at, node=node, part=check)


def _diagnostic(document: Mapping[str, Any]) -> Fault:
    uuid, detail = text(document.get("gpu"), 64), text(document.get("detail")) or ""
    gpu = Component(ComponentType.GPU, uuid=uuid if uuid and uuid.startswith("GPU-") else None)
    number, at = document["error_code"], instant(document.get("timestamp"))
    code = code_of_number(number) if isinstance(number, int) and not isinstance(number, bool) else "agent.condition"
    stated = {"test": text(document.get("test"), 64), "status": text(document.get("event"), 64)}
    return fault_of(SOURCE, code, gpu, detail or "DCGM diagnostic failed", detail, at, **stated)
