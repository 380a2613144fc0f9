"""Entry text: short texts for events and their parts, such as components, durations and capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from faultbridge.model.cases import Phase
from faultbridge.model.cluster import state
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import (
    CaseStatusData,
    ClusterIncidentData,
    ClusterSafetyData,
    ClusterStatusData,
    Component,
    EventData,
    FaultData,
    JobCheckpointData,
    JobData,
    JobExplainedData,
    NodeStatusData,
    NoteData,
    ProviderCondition,
    ReplacementStepData,
)
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.times import to_text

Change = NodeStatusData | CaseStatusData | ClusterStatusData | ClusterIncidentData | ClusterSafetyData


class EntryText(Struct, frozen=True):
    """The text of an event: what happened and why. `why` can be empty."""

    what: str
    why: str


def entry_text(event_type: str, data: EventData | None) -> EntryText:
    """Return the text of an event. Without data, as for an unknown type, `what` is only the type."""
    build = _TEXTS.get(event_type)
    return EntryText(event_type, "") if build is None or data is None else build(data)


def component_text(component: Component | None) -> str:
    """Return a component's type, best known name and link, such as `gpu 0000:c1:00`; empty for None."""
    if component is None:
        return ""
    index = None if component.index is None else f"#{component.index}"
    name = next(filter(None, (component.pci, component.uuid, index, component.name)), "")
    link = "" if component.link is None else f"link {component.link}"
    return " ".join(filter(None, (component.type, name, link)))


def condition_text(condition: ProviderCondition | state.ProviderCondition) -> str:
    """Return the text of a provider's condition, such as `no capacity in group a: message`."""
    group = f" in group {condition.group}" if condition.group else ""
    return f"{condition.kind.replace('_', ' ')}{group}: {condition.message}"


def nodes_text(registered: int, target: int) -> str:
    """Return how many nodes are registered: `6 of 8 registered`, or `8 registered` if none are missing."""
    return f"{registered} registered" if target <= registered else f"{registered} of {target} registered"


WITH_FACTS = (NoteData, ReplacementStepData)
"""The classes of event data that have facts."""


def source_answers(events: Iterable[RecordedEvent[Any]]) -> list[dict[str, object]]:
    """Return the answers of the capacity sources from the latest event with answers, in order of the queries."""
    found = ((one.metadata.occurred_at, one.data) for one in events if isinstance(one.data, WITH_FACTS))
    answers = [(at, data.facts["capacity_sources"]) for at, data in found if data.facts.get("capacity_sources")]
    return list(max(answers, key=lambda one: one[0])[1]) if answers else []


def answer_text(answer: Mapping[str, object]) -> str:
    """Return one capacity source's answer as text, such as `own reservation: counts, 3 free`."""
    free = "" if answer.get("free") is None else f", {answer['free']} free"
    reason = f" ({answer['reason']})" if answer.get("reason") else ""
    decision = _DECISIONS.get(str(answer["decision"]), str(answer["decision"]))
    return f"{str(answer['source']).replace('_', ' ')}: {decision}{free}{reason}"


def duration_text(milliseconds: int) -> str:
    """Return a duration as text in one unit, such as `5.3 s`, `12 min` or `3.4 h`."""
    seconds = milliseconds / 1000
    unit, size = next((unit, size) for unit, size, below in _UNITS if seconds < below)
    digits = 1 if seconds / size < 10 else 0  # noqa: PLR2004 - two digits are enough to compare durations
    return f"{seconds / size:.{digits}f}".removesuffix(".0") + f" {unit}"


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
_UNITS = (("s", 1, 60), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, float("inf")))
"""The units of durations, each with its seconds and the duration in seconds from which the next unit is used."""


def _move(data: Change) -> str:
    return f"{data.from_ or 'new'} -> {data.to}"


def _fault(verb: str) -> Callable[[FaultData], EntryText]:
    def build(data: FaultData) -> EntryText:
        mode = f"({data.failure_mode})" if data.failure_mode not in {"", data.code} else ""
        fault = " ".join(filter(None, (data.code, mode, component_text(data.component))))
        verb_text = f"{verb}, also reported as {data.added_code}" if data.added_code else verb
        count = f" (seen {data.count} times)" if verb == "changed" and data.count else ""
        return EntryText(f"{data.severity} {fault} {verb_text}{count}", data.reason or data.message or "")

    return build


def _node(data: NodeStatusData) -> EntryText:
    if data.from_ == data.to:  # only the isolation changed
        cordoned = "cordoned" if data.isolation == "confirmed" else "uncordoned"
        return EntryText(f"node {data.to}, in service, {cordoned}", data.reason)
    return EntryText(f"node {_move(data)}{' (never verified)' if data.unverified else ''}", data.reason)


def _case(data: CaseStatusData) -> EntryText:
    wait = "waiting period" if data.waiting_for == "wait" else f"waiting for {data.waiting_for}"
    extra = f" ({data.resolution})" if data.resolution else f" ({wait})" if data.waiting_for else ""
    return EntryText(f"case {_move(data)}{extra}", data.reason)


def _cluster(data: ClusterStatusData) -> EntryText:
    return EntryText(f"cluster {f'still {data.to}' if data.from_ == data.to else _move(data)}", data.reason)


def _step(data: ReplacementStepData) -> EntryText:
    instances = [one for one in (data.old_instance, data.new_instance) if one]
    swap = f", {' -> '.join(instances)}" if instances else ""
    return EntryText(f"{data.step} {data.outcome} (attempt {data.attempt}{swap})", data.reason or "")


def _incident(data: ClusterIncidentData) -> EntryText:
    return EntryText(f"incident {data.change}: {_move(data)}", data.cause.text or data.reason)


def _safety(data: ClusterSafetyData) -> EntryText:
    return EntryText(f"{data.kind} {_move(data)}", data.reason)


def _job(data: JobData) -> EntryText:
    return EntryText(f"job {data.job_id} {data.change}", data.reason)


def _job_checkpoint(data: JobCheckpointData) -> EntryText:
    what = f"job {data.job_id} asked for a checkpoint by {to_text(data.deadline)}"
    return EntryText(what, f"{data.risk.node}: {data.risk.message or 'no message'}")


def _job_explained(data: JobExplainedData) -> EntryText:
    nodes = ", ".join(data.nodes.listed)
    what = f"job {data.job_id} explained: {data.verdict} {nodes}".rstrip()
    return EntryText(what, f"{data.mechanism or 'unknown'}: {data.summary}")


def _note(data: NoteData) -> EntryText:
    about = data.about
    fault = " ".join(filter(None, (about.code, component_text(about.component)))) if about else ""
    return EntryText(f"{(data.kind or 'note').replace('_', ' ')}{': ' if fault else ''}{fault}", data.text)


_TEXTS: Mapping[str, Callable[[Any], EntryText]] = {
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
    EntryType.JOB_CHECKPOINT: _job_checkpoint,
    EntryType.JOB_EXPLAINED: _job_explained,
    EntryType.NOTE: _note,
}
