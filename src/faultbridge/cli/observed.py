"""Observations as the JSON documents that scripts depend on; the fields of a fault and a clear are a contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from faultbridge.cli.output import Document
from faultbridge.domain.catalogue import Catalogue
from faultbridge.domain.faults import Clear, Component, CounterSample, Fault, Observation, Snapshot
from faultbridge.domain.times import to_text

# The incarnation that an input names; a decoder leaves it among the attributes.
_INCARNATION = ("record_id", "instance_id", "boot_id")


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller says about where the input comes from, for whatever the input does not say itself."""

    catalogue: Catalogue
    cluster: str | None = None
    node: str | None = None


def documents(observations: Iterable[Observation], caller: Caller, *, everything: bool) -> Iterator[Document]:
    """Yield a document for each fault and clear, and for each health snapshot and reading when `everything` is asked for."""
    for observation in observations:
        if isinstance(observation, Fault | Clear):
            yield _judgement(observation, caller)
        elif isinstance(observation, Snapshot):
            yield from (_judgement(fault, caller) for fault in observation.present)
            if everything:
                yield _snapshot(observation, caller)
        elif everything:
            yield _reading(observation, caller)


def _judgement(told: Fault | Clear, caller: Caller) -> dict[str, Any]:
    fault = caller.catalogue.classify(told) if isinstance(told, Fault) else None
    return {
        "kind": "fault" if fault else "clear",
        "source": told.source,
        "code": told.code,
        "severity": fault.severity if fault else None,
        "action": fault.action if fault else None,
        "component": _component(told.component),
        "observed_at": _time(told.observed_at),
        "node": told.node or caller.node,
        "cluster": caller.cluster,
        "message": told.message,
        "evidence": told.evidence,
        "attributes": {name: value for name, value in told.attributes.items() if name not in _INCARNATION},
        "catalogue": caller.catalogue.version,
        "count": fault.count if fault else 1,
    } | {name: told.attributes.get(name) for name in _INCARNATION}


def _snapshot(snapshot: Snapshot, caller: Caller) -> dict[str, Any]:
    return {
        "kind": "snapshot",
        "source": snapshot.source,
        "observed_at": _time(snapshot.observed_at),
        "node": snapshot.node or caller.node,
        "cluster": caller.cluster,
        "covers": {code: [_component(one) for one in components] for code, components in snapshot.covers.items()},
        "present": [fault.code for fault in snapshot.present],
        "devices": [_component(device) for device in snapshot.devices],
    }


def _reading(sample: CounterSample, caller: Caller) -> dict[str, Any]:
    return {
        "kind": "counter_sample",
        "source": sample.source,
        "component": _component(sample.component),
        "observed_at": _time(sample.observed_at),
        "node": sample.node or caller.node,
        "cluster": caller.cluster,
        "values": dict(sample.values),
    }


def _component(component: Component) -> dict[str, Any]:
    return asdict(component)


def _time(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(instant)


def component_name(component: Document) -> str:
    """Name a component for people: its type and the first name that it has."""
    names = ("pci", "name", "index", "uuid", "link")
    found = next((component[name] for name in names if component[name] is not None), None)
    return component["type"] if found is None else f"{component['type']} {found}"
