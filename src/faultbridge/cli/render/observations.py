"""Convert decoded observations to JSON documents; the fields of faults and clears are a contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from faultbridge.cli.render.output import Document
from faultbridge.decode.frames.decoder import Decoded
from faultbridge.model.catalog import Catalog
from faultbridge.model.faults import Clear, CounterSample, Fault, Observation, Snapshot
from faultbridge.model.times import to_text

# A decoder returns these as attributes. The document has them as fields of their own.
_INCARNATION = ("record_id", "instance_id", "boot_id")


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller knows about an input: the catalog, the cluster, and the node of unnamed observations."""

    catalog: Catalog
    cluster: str | None = None
    node: str | None = None


def documents(observations: Iterable[Observation], caller: Caller, *, everything: bool) -> Iterator[Document]:
    """Yield a document for each fault and clear; `everything` adds health snapshots and counter samples."""
    for observation in observations:
        if isinstance(observation, Fault | Clear):
            yield _fault_document(observation, caller)
        elif isinstance(observation, Snapshot):
            yield from (_fault_document(fault, caller) for fault in observation.present)
            if everything:
                yield _snapshot_document(observation, caller)
        elif everything:
            yield _sample_document(observation, caller)


def _fault_document(found: Fault | Clear, caller: Caller) -> dict[str, Any]:
    fault = caller.catalog.classify(found) if isinstance(found, Fault) else None
    row = caller.catalog.row_of(found) if isinstance(found, Fault) else caller.catalog.row(found.code)
    return {
        "kind": "fault" if fault else "clear",
        "source": found.source,
        "code": found.code,
        "severity": fault.severity if fault else None,
        "action": fault.action if fault else None,
        "component": asdict(found.component),
        "observed_at": _time(found.observed_at),
        "node": found.node or caller.node,
        "cluster": caller.cluster,
        "message": found.message,
        "evidence": found.evidence,
        "attributes": {name: value for name, value in found.attributes.items() if name not in _INCARNATION},
        "catalog": caller.catalog.version,
        "known": row.code in caller.catalog.rows,
        "count": fault.count if fault else 1,
    } | {name: found.attributes.get(name) for name in _INCARNATION}


def _snapshot_document(snapshot: Snapshot, caller: Caller) -> dict[str, Any]:
    return {
        "kind": "snapshot",
        "source": snapshot.source,
        "observed_at": _time(snapshot.observed_at),
        "node": snapshot.node or caller.node,
        "cluster": caller.cluster,
        "covers": {code: [asdict(one) for one in components] for code, components in snapshot.covers.items()},
        "present": [fault.code for fault in snapshot.present],
        "devices": [asdict(device) for device in snapshot.devices],
    }


def _sample_document(sample: CounterSample, caller: Caller) -> dict[str, Any]:
    return {
        "kind": "counter_sample",
        "source": sample.source,
        "component": asdict(sample.component),
        "observed_at": _time(sample.observed_at),
        "node": sample.node or caller.node,
        "cluster": caller.cluster,
        "values": dict(sample.values),
    }


def summary_document(source: str, decoded: Decoded) -> Document:
    """Return the number of observations (`parsed`) and of parts not understood (`unparsed`)."""
    counts = {"parsed": len(decoded.observations), "unparsed": decoded.unparsed}
    return {"kind": "summary", "source": source, "observed_at": None, "node": None, **counts, "notes": decoded.notes}


def _time(at: datetime | None) -> str | None:
    return None if at is None else to_text(at)


def component_name(component: Document) -> str:
    """Return the type of a component and its first known identifier, as in `gpu 0000:c1:00`."""
    names = ("pci", "name", "index", "uuid", "link")
    found = next((component[name] for name in names if component[name] is not None), None)
    return component["type"] if found is None else f"{component['type']} {found}"


def what_text(document: Document) -> str:
    """Return a short text for a document: its code or kind, its component, and `cleared` for a clear."""
    component = component_name(document["component"]) if "component" in document else ""
    ended = "cleared" if document["kind"] == "clear" else ""
    return " ".join(part for part in (document.get("code") or document["kind"], component, ended) if part)
