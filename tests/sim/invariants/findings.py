"""Checks that findings (signs of gray failures) cause nothing, begin once, and end at most once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.model.enums import EntryType
from tests.sim.invariants.view import Invariant, SystemView


def _about(body: Mapping[str, Any]) -> str | None:
    """Return the id of the finding if the entry is a note about a finding, else None."""
    data = body["data"]
    is_note = body["metadata"]["event_type"] == EntryType.NOTE.value
    return (data.get("facts") or {}).get("finding_id") if is_note else None


def _with_effects(view: SystemView) -> Iterator[str]:
    """Yield entries whose cause is a note about a finding: in the simulation, findings have no effect.

    Notes about findings are left out: their cause may be another note about a finding.
    """
    everything = [body for bodies in view.bodies.values() for body in bodies]
    findings = {body["metadata"]["event_id"]: name for body in everything if (name := _about(body))}
    for body in everything:
        cause = findings.get(body["metadata"]["causation_id"])
        if cause is not None and _about(body) is None:
            metadata = body["metadata"]
            yield f"{metadata['event_type']} {metadata['event_id']} of {metadata['node']} follows from {cause}"


def _with_wrong_stages(view: SystemView) -> Iterator[str]:
    stages: dict[str, list[str]] = {}
    for bodies in view.bodies.values():
        for body in bodies:
            name = _about(body)
            if name is not None and body["data"]["kind"] == "shadow":
                stages.setdefault(name, []).append(body["data"]["stage"])
    yield from (f"{name}: {found}" for name, found in stages.items() if found not in (["begun"], ["begun", "over"]))


INVARIANTS = (
    Invariant("neither a finding nor its mark causes anything", _with_effects),
    Invariant("a finding begins once and ends at most once", _with_wrong_stages),
)
