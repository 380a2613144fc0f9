"""Entry text: short texts for events and their parts, such as components, durations and capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from faultbridge.model.cases import Phase
from faultbridge.model.cluster import state
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import Component, ProviderCondition, plain

Data = Mapping[str, Any]


class EntryText(Struct, frozen=True):
    """The text of an event: what happened and why. `why` can be empty."""

    what: str
    why: str


def entry_text(event: Mapping[str, Any]) -> EntryText:
    """Return the text of an event. If its type is unknown or its data is missing, `what` is only the type."""
    metadata, data = event["metadata"], event.get("data") or {}
    build = _TEXTS.get(str(metadata["event_type"]))
    if build is None or not data:
        return EntryText(str(metadata["event_type"]), "")
    return build(data)


def component_text(component: Component | Data | None) -> str:
    """Return a component's type, best known name and link, such as `gpu 0000:c1:00`; empty for None."""
    if not component:
        return ""
    if isinstance(component, Component):
        component = plain(component)
    component_type = str(component.get("type") or "")
    names = (
        component.get("pci"),
        component.get("uuid"),
        None if component.get("index") is None else f"#{component['index']}",
        component.get("name"),
    )
    name = next((str(one) for one in names if one), "")
    link = "" if component.get("link") is None else f"link {component['link']}"
    return " ".join(part for part in (component_type, name, link) if part)


def condition_text(condition: ProviderCondition | state.ProviderCondition) -> str:
    """Return the text of a provider's condition, such as `no capacity in group a: message`."""
    group = f" in group {condition.group}" if condition.group else ""
    return f"{condition.kind.replace('_', ' ')}{group}: {condition.message}"


def nodes_text(registered: int, target: int) -> str:
    """Return how many nodes are registered: `6 of 8 registered`, or `8 registered` if none are missing."""
    return f"{registered} registered" if target <= registered else f"{registered} of {target} registered"


def source_answers(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of the capacity sources from the latest entry with answers, in order of the queries."""
    found = [one for one in entries if ((one.get("data") or {}).get("facts") or {}).get("capacity_sources")]
    latest = max(found, key=lambda one: str(one["metadata"]["occurred_at"]), default=None)
    return list(latest["data"]["facts"]["capacity_sources"]) if latest else []


def answer_text(answer: Mapping[str, Any]) -> str:
    """Return one capacity source's answer as text, such as `own reservation: counts, 3 free`."""
    free = "" if answer.get("free") is None else f", {answer['free']} free"
    reason = f" ({answer['reason']})" if answer.get("reason") else ""
    decision = _DECISIONS.get(str(answer["decision"]), str(answer["decision"]))
    return f"{str(answer['source']).replace('_', ' ')}: {decision}{free}{reason}"


def duration_text(milliseconds: int) -> str:
    """Return a duration as text in its two largest units (`2m 05s`), or in seconds (`5.3s`)."""
    seconds, rest = divmod(int(milliseconds), 1000)
    if seconds < _MINUTE:
        return f"{seconds}.{rest // 100}s"
    for unit, smaller_unit, size, smaller_size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller_size:02d}{smaller_unit}"
    raise AssertionError  # pragma: no cover - the last unit takes the rest


def in_phase_order(phases: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a case's durations in the order of its phases. Stored JSON has them in alphabetical order."""
    return tuple(sorted(phases.items(), key=lambda phase: (_PHASES.get(phase[0], len(_PHASES)), phase[0])))


_DECISIONS: Mapping[str, str] = {
    "used": "counts",
    "none_free": "nothing free",
    "unknown": "unknown",
    "absent": "not applicable",
}
_PHASES = {
    name: position
    for position, name in enumerate(
        ("detected", "open", "absorbed", "queued", "in_progress", *(phase.value for phase in Phase), "escalated")
    )
}
_MINUTE = 60
_UNITS = (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1))


def _move(data: Data) -> str:
    return f"{data.get('from') or 'new'} -> {data.get('to')}"


def _fault(verb: str) -> Callable[[Data], EntryText]:
    def build(data: Data) -> EntryText:
        component = component_text(data.get("component"))
        fault = " ".join(part for part in (str(data.get("code")), component) if part)
        reported = data.get("reported_code")
        verb_text = f"{verb}, reported as {reported}" if reported else verb
        why = data.get("reason") or data.get("message") or ""
        count = f" (seen {data['count']} times)" if verb == "changed" and data.get("count") else ""
        return EntryText(f"{data.get('severity')} {fault} {verb_text}{count}", str(why))

    return build


def _node(data: Data) -> EntryText:
    unverified = " (never verified)" if data.get("unverified") else ""
    return EntryText(f"node {_move(data)}{unverified}", str(data.get("reason") or ""))


def _case(data: Data) -> EntryText:
    waiting, resolution = data.get("waiting_for"), data.get("resolution")
    wait = "waiting period" if waiting == "wait" else f"waiting for {waiting}"
    extra = f" ({resolution})" if resolution else f" ({wait})" if waiting else ""
    return EntryText(f"case {_move(data)}{extra}", str(data.get("reason") or ""))


def _cluster(data: Data) -> EntryText:
    same = data.get("from") == data.get("to")
    return EntryText(f"cluster {'still ' + str(data['to']) if same else _move(data)}", str(data.get("reason") or ""))


def _step(data: Data) -> EntryText:
    instances = [one for one in (data.get("old_instance"), data.get("new_instance")) if one]
    swap = f", {' -> '.join(instances)}" if instances else ""
    what = f"{data.get('step')} {data.get('outcome')} (attempt {data.get('attempt')}{swap})"
    return EntryText(what, str(data.get("reason") or ""))


def _incident(data: Data) -> EntryText:
    cause = data.get("cause") or {}
    return EntryText(
        f"incident {data.get('change')}: {_move(data)}", str(cause.get("text") or data.get("reason") or "")
    )


def _safety(data: Data) -> EntryText:
    return EntryText(f"{data.get('kind')} {_move(data)}", str(data.get("reason") or ""))


def _job(data: Data) -> EntryText:
    return EntryText(f"job {data.get('job_id')} {data.get('change')}", str(data.get("reason") or ""))


def _job_explained(data: Data) -> EntryText:
    nodes = ", ".join((data.get("nodes") or {}).get("listed", ()))
    what = f"job {data.get('job_id')} explained: {data.get('verdict')} {nodes}".rstrip()
    return EntryText(what, f"{data.get('mechanism') or 'unknown'}: {data.get('summary')}")


def _note(data: Data) -> EntryText:
    about = data.get("about") or {}
    kind = str(data.get("kind") or "note").replace("_", " ")
    fault = " ".join(part for part in (str(about.get("code") or ""), component_text(about.get("component"))) if part)
    return EntryText(f"{kind}{': ' + fault if fault else ''}", str(data.get("text") or ""))


_TEXTS: Mapping[str, Callable[[Data], EntryText]] = {
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
    EntryType.JOB_EXPLAINED: _job_explained,
    EntryType.NOTE: _note,
}
