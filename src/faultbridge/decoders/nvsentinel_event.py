"""One health event of NVSentinel, in protobuf's JSON: fields that are zero or false are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.base import pci_of
from faultbridge.decoders.fields import elements, members, objects_in, text
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType

_HOLDERS = ("events", "healthEvents", "health_events", "event", "HealthEvent", "healthEvent", "data", "healthevent")
_MAX_NESTED = 6
_UUID = re.compile(r"GPU-[0-9a-zA-Z-]{1,48}")


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """One event of one check about one or several devices of one node."""

    node: str | None
    check: str
    healthy: bool
    fatal: bool
    message: str
    action: str
    errors: tuple[str, ...]
    component: Component
    at: datetime | None


def health_events(written: object, depth: int = 0) -> Iterator[HealthEvent]:
    """Yield the health events in a document, however deep its envelopes put them."""
    if isinstance(written, list):
        for one in written:
            yield from health_events(one, depth + 1) if depth < _MAX_NESTED else ()
    elif isinstance(written, dict):
        if "checkName" in written or ("agent" in written and "componentClass" in written):
            yield _event(written)
            return
        for name in _HOLDERS:
            if depth < _MAX_NESTED and isinstance(written.get(name), dict | list):
                yield from health_events(written[name], depth + 1)


def entity(kind: str, value: str) -> tuple[str, str | int] | None:
    """Return which name of a component an impacted entity is, and its value."""
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
    """Make the component that all entities of an event name together."""
    if "name" in names:
        return Component(ComponentType.NIC, name=names["name"], pci=names.get("pci"))
    return Component(ComponentType.GPU, **names) if names else NODE_COMPONENT


def _event(written: Mapping[str, Any]) -> HealthEvent:
    found: dict[str, Any] = {}
    for one in objects_in(written.get("entitiesImpacted")):
        named = entity(text(one.get("entityType"), 32) or "", text(one.get("entityValue"), 128) or "")
        if named is not None:
            found.setdefault(*named)
    # A GPU class without any entity still speaks of some GPU.
    component = component_of(found)
    if component == NODE_COMPONENT and written.get("componentClass") == "GPU":
        component = Component(ComponentType.GPU)
    action = written.get("recommendedAction", 0)
    return HealthEvent(
        node=text(written.get("nodeName"), 253),
        check=text(written.get("checkName"), 128) or "",
        healthy=written.get("isHealthy") is True,
        fatal=written.get("isFatal") is True,
        message=text(written.get("message")) or "",
        action=str(action)[:32] if isinstance(action, str | int) else "",
        errors=tuple(one[:128] for one in elements(written.get("errorCode"))[:16] if isinstance(one, str) and one),
        component=component,
        at=instant(members(written.get("generatedTimestamp")) or written.get("generatedTimestamp")),
    )
