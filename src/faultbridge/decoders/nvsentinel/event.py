"""Reads NVSentinel's health events, and translates their error codes into fault codes.

A field that is zero or false can be absent, because protobuf JSON omits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.clock import instant
from faultbridge.decoders.common.fault_codes import CODES, code_of_number
from faultbridge.decoders.common.fields import elements, members, objects_in, pci_of, text
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType

_HOLDERS = ("events", "healthEvents", "health_events", "event", "HealthEvent", "healthEvent", "data", "healthevent")
_MAX_NESTED = 6
_UUID = re.compile(r"GPU-[0-9a-zA-Z-]{1,48}")


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """One health event: the result of one check on a node, about one component of the node.

    `errors` are the error codes, and `action` is the recommended action, both in the terms of NVSentinel.
    """

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


def health_events(document: object, depth: int = 0) -> Iterator[HealthEvent]:
    """Yield the health events in a JSON document. Up to six levels of other objects may contain them."""
    if isinstance(document, list):
        for item in document:
            yield from health_events(item, depth + 1) if depth < _MAX_NESTED else ()
    elif isinstance(document, dict):
        if "checkName" in document or ("agent" in document and "componentClass" in document):
            yield _event(document)
            return
        for name in _HOLDERS:
            if depth < _MAX_NESTED and isinstance(document.get(name), dict | list):
                yield from health_events(document[name], depth + 1)


def entity(kind: str, value: str) -> tuple[str, str | int] | None:
    """Return a field of `Component` and its value, from an impacted entity of an event.

    `kind` is the type of the entity, and `value` its value. For example, the type `PCI` and an address give (`pci`,
    address). The result is None for other types, and for a value that does not fit the type.
    """
    kind = kind.upper()
    pci = pci_of(value) if kind in {"PCI", "PCI_ADDRESS"} else None
    if pci is not None:
        return "pci", pci
    if kind == "GPU_UUID" and _UUID.fullmatch(value):
        return "uuid", value
    if kind == "GPU" and value.isascii() and value.isdigit() and len(value) <= 3:  # noqa: PLR2004 - an index
        return "index", int(value)
    return ("name", value[:64]) if kind in {"NIC", "NIC_PORT", "INTERFACE"} else None


def component_of(names: Mapping[str, Any]) -> Component:
    """Return the component that an event is about, from the identifiers of its entities.

    With a `name`, the component is a NIC. With only other identifiers, it is a GPU. Without any, it is the node.
    """
    if "name" in names:
        return Component(ComponentType.NIC, name=names["name"], pci=names.get("pci"))
    return Component(ComponentType.GPU, **names) if names else NODE_COMPONENT


def _event(document: Mapping[str, Any]) -> HealthEvent:
    found: dict[str, Any] = {}
    for item in objects_in(document.get("entitiesImpacted")):
        identifier = entity(text(item.get("entityType"), 32) or "", text(item.get("entityValue"), 128) or "")
        if identifier is not None:
            found.setdefault(*identifier)
    # An event of class GPU without entities is about an unnamed GPU.
    component = component_of(found)
    if component == NODE_COMPONENT and document.get("componentClass") == "GPU":
        component = Component(ComponentType.GPU)
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


def code_of(error: str, event: HealthEvent, mapped: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the fault code of an error code of an event, and the NVLink unit in the error code.

    - The error code is an Xid or SXid, such as `149.NETIR_LINK_EVT`. The unit is the text after the dot, or None if
      there is no dot.
    - Any other error code is translated by the mapping `mapped` or is the name of a DCGM error. If it stands for any
      Xid, the Xid is taken from the message of the event. The unit is None.
    - The fault code of an unknown error is `agent.condition`.
    """
    number = _NUMBER.fullmatch(error)
    if number:
        switch = event.check.upper().startswith("SYSLOGSSXID")
        return f"{'sxid' if switch else 'xid'}.{int(number[1])}", number[2]
    code = mapped["errors"].get(error) or "dcgm." + error.removeprefix("DCGM_FR_").lower()
    identifier = _XID_IN_TEXT.search(event.message)
    if code == "dcgm.xid_error" and identifier:
        return f"xid.{int(identifier[1])}", None
    if code in CODES or error in mapped["errors"]:
        return code, None
    return "agent.condition", None


def code_without_error(event: HealthEvent, mapped: Mapping[str, Any]) -> str:
    """Return the fault code of an event that has no error code.

    The code is the first of these that exists:

    - the code that the mapping `mapped` has for the check of the event
    - the code of an Xid in the message of the event
    - `agent.condition`
    """
    by_check = mapped["check_codes"].get(event.check)
    identifier = _XID_IN_TEXT.search(event.message)
    return str(by_check) if by_check else f"xid.{int(identifier[1])}" if identifier else "agent.condition"


def condition_events(text: str) -> Iterator[HealthEvent]:
    """Yield an unhealthy event for each error in the message of a node condition.

    The message has the form `ErrorCode:79 PCI:... ;ErrorCode:...`. If the text also states that the condition is False,
    which means healthy, nothing is yielded.
    """
    found = _CONDITION.search(text)
    if found and found[2] == "False":
        return
    for part in text.split("ErrorCode:")[1:]:
        names: dict[str, Any] = {}
        # The quoted kernel line repeats the device in another format; the first value of each field is used.
        fields = dict(reversed(_PART.findall("ErrorCode:" + part[:4096])))
        for kind, value in fields.items():
            identifier = entity(kind, value)
            if identifier is not None:
                names.setdefault(*identifier)
        advice = _ADVICE.search(part[:4096])
        yield HealthEvent(
            node=None,
            check=found[1] if found else "",
            healthy=False,
            fatal=False,
            message=part[:4096].strip(),
            action=advice[1] if advice else "",
            errors=(fields["ErrorCode"].rstrip(";,"),) if "ErrorCode" in fields else (),
            component=component_of(names),
            at=None,
        )


def diagnostic_code(number: object) -> str:
    """Return the fault code of the DCGM error number that a preflight diagnostic reports.

    The result is `agent.condition` if `number` is not an integer.
    """
    return code_of_number(number) if isinstance(number, int) and not isinstance(number, bool) else "agent.condition"
