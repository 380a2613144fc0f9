"""Telling: one line for people from an event: what happened, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.cases import Phase
from faultbridge.domain.entries import EntryType

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What happened and why, a few words each."""

    what: str
    why: str


def tell(event: Mapping[str, Any]) -> Told:
    """Tell an event; one of a kind or shape that is not known here is named by its type alone."""
    metadata, data = event["metadata"], event.get("data") or {}
    teller = _TELLERS.get(str(metadata["event_type"]))
    if teller is None or not data:
        return Told(str(metadata["event_type"]), "")
    return teller(data)


def component_text(component: Data | None) -> str:
    """Name a component as a person would look for it."""
    if not component:
        return ""
    kind = str(component.get("type") or "")
    names = (
        component.get("pci"),
        component.get("uuid"),
        None if component.get("index") is None else f"#{component['index']}",
        component.get("name"),
    )
    name = next((str(one) for one in names if one), "")
    link = "" if component.get("link") is None else f"link {component['link']}"
    return " ".join(part for part in (kind, name, link) if part)


def duration_text(milliseconds: int) -> str:
    """Render a duration with the two largest of its units, such as `2m 05s`."""
    seconds, rest = divmod(int(milliseconds), 1000)
    if seconds < _MINUTE:
        return f"{seconds}.{rest // 100}s"
    for unit, below, size, part in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // part:02d}{below}"
    raise AssertionError  # pragma: no cover - the last unit takes the rest


def in_phase_order(phases: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Sort the phases of a case as a case passes them: JSON with sorted keys does not keep their order."""
    return tuple(sorted(phases.items(), key=lambda phase: (_PHASES.get(phase[0], len(_PHASES)), phase[0])))


_PHASES = {
    name: place
    for place, name in enumerate(
        ("detected", "open", "absorbed", "queued", "in_progress", *(phase.value for phase in Phase), "escalated")
    )
}
_MINUTE = 60
_UNITS = (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1))


def _move(data: Data) -> str:
    return f"{data.get('from') or 'new'} -> {data.get('to')}"


def _fault(verb: str) -> Callable[[Data], Told]:
    def told(data: Data) -> Told:
        where = component_text(data.get("component"))
        about = " ".join(part for part in (str(data.get("code")), where) if part)
        why = data.get("reason") or data.get("message") or ""
        count = f" (seen {data['count']} times)" if verb == "changed" and data.get("count") else ""
        return Told(f"{data.get('severity')} {about} {verb}{count}", str(why))

    return told


def _node(data: Data) -> Told:
    unverified = " (unverified)" if data.get("unverified") else ""
    return Told(f"node {_move(data)}{unverified}", str(data.get("reason") or ""))


def _case(data: Data) -> Told:
    waiting, resolution = data.get("waiting_for"), data.get("resolution")
    extra = f" ({resolution})" if resolution else f" (waiting for {waiting})" if waiting else ""
    return Told(f"case {_move(data)}{extra}", str(data.get("reason") or ""))


def _cluster(data: Data) -> Told:
    same = data.get("from") == data.get("to")
    return Told(f"cluster {'still ' + str(data['to']) if same else _move(data)}", str(data.get("reason") or ""))


def _step(data: Data) -> Told:
    old, new = data.get("old_instance"), data.get("new_instance")
    swap = "".join(f", {' -> '.join(ids)}" for ids in [[one for one in (old, new) if one]] if ids)
    reason = data.get("reason") or data.get("operation") or ""
    return Told(f"{data.get('step')} {data.get('outcome')} (attempt {data.get('attempt')}{swap})", str(reason))


def _incident(data: Data) -> Told:
    cause = data.get("cause") or {}
    return Told(f"incident {data.get('change')}: {_move(data)}", str(cause.get("text") or data.get("reason") or ""))


def _safety(data: Data) -> Told:
    return Told(f"{data.get('kind')} {_move(data)}", str(data.get("reason") or ""))


def _job(data: Data) -> Told:
    return Told(f"job {data.get('job_id')} {data.get('change')}", str(data.get("reason") or ""))


def _note(data: Data) -> Told:
    about = data.get("about") or {}
    kind = str(data.get("kind") or "note").replace("_", " ")
    code = " ".join(part for part in (str(about.get("code") or ""), component_text(about.get("component"))) if part)
    return Told(f"{kind}{': ' + code if code else ''}", str(data.get("text") or ""))


_TELLERS: Mapping[str, Callable[[Data], Told]] = {
    EntryType.FAULT_DETECTED: _fault("detected"),
    EntryType.FAULT_UPDATED: _fault("changed"),
    EntryType.FAULT_CLEARED: _fault("cleared"),
    EntryType.NODE_STATUS: _node,
    EntryType.CLUSTER_STATUS: _cluster,
    EntryType.CASE_STATUS: _case,
    EntryType.REPLACEMENT_STEP: _step,
    EntryType.CLUSTER_INCIDENT: _incident,
    EntryType.CLUSTER_SAFETY: _safety,
    EntryType.JOB: _job,
    EntryType.NOTE: _note,
}
