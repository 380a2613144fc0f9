"""Incident page: the shared cause, the nodes of the failure domain over time, and the cases that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.answers import sentence
from faultbridge.repair.registry.documents import Incident
from faultbridge.serve.presentation.areas import Area, incident_area
from faultbridge.serve.presentation.case_answers import ACTION, NOW, Answer, todo_first
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, entry_rows
from faultbridge.serve.presentation.grid import MAX_SINGLE_NODES, GridNode, natural_order
from faultbridge.serve.presentation.tones import INCIDENT, Mark, Tone, mark

_NOW = {
    "open": "Repairs of its nodes wait, because replacing a node does not fix a shared cause.",
    "recovering": "No node is affected any more. The incident closes after a quiet period.",
    "expired": "The incident reached its maximum age. It holds no repairs, and closes when its nodes are healthy.",
    "closed": "Nothing: the incident is closed, and the cases that it held continued.",
}
_ACTION = {
    "open": "Fix the shared cause. If there is none, close the incident: its cases then continue.",
    "expired": "Check the shared cause. The repairs of its nodes continue within the limits.",
}


class DomainNode(Struct, frozen=True):
    """A node of the failure domain: whether the incident affects it, and its case that waits, if any."""

    node: str
    affected: bool
    case_id: str | None


class DomainPart(Struct, frozen=True):
    """One part of the failure domain, such as a rack, with its (in a large domain, affected) nodes."""

    name: str
    total: int
    affected: int
    nodes: tuple[DomainNode, ...]

    @property
    def mark(self) -> Mark:
        """The number of affected nodes of the part as a mark (text with a tone)."""
        text = f"{self.affected} of {self.total} affected"
        return Mark(text, Tone.GOOD if not self.affected else Tone.BAD)


class IncidentPage(Struct, frozen=True):
    """The content of the page of an incident."""

    incident: Incident
    status: Mark
    domain: str
    todo: Answer | None
    answers: tuple[Answer, ...]
    parts: tuple[DomainPart, ...]
    unlisted: int
    area: Area | None
    rows: tuple[EntryRow, ...]
    older: bool

    @property
    def live(self) -> bool:
        """Whether the incident is not closed, so that it may still change."""
        return self.incident.closed_at is None


def incident_page(
    incident: Incident,
    nodes: Sequence[GridNode],
    entries: Entries,
    now: datetime,
    *,
    older: bool,
    meaning: str = "",
) -> IncidentPage:
    """Return the page of an incident; `nodes` are those of its domain, `meaning` is its code's name."""
    rows, status, domain = entry_rows(entries), incident.status, incident.domain
    closed = incident.closed_at
    opened = incident.opened_at
    parts = _parts(incident, nodes)
    shown = sum(len(one.nodes) for one in parts)
    fault = f"{meaning} ({incident.code})" if meaning else incident.code
    about = f" about {incident.subject}" if incident.subject else ""
    commands = (f"faultbridge incident close {incident.incident_id}",) if status == "open" else ()
    todo, answers = todo_first(
        (
            Answer("What is the shared cause?", (sentence(f"{fault}{about}: {incident.reason}"),)),
            Answer(NOW, (_now(status, incident.origin),)),
            Answer(ACTION, (_ACTION.get(status, "Nothing."),), commands, "incident" if commands else ""),
        )
    )
    return IncidentPage(
        incident=incident,
        status=mark(status, INCIDENT),
        domain=f"{domain.type} {domain.name}",
        todo=todo,
        answers=answers,
        parts=parts,
        unlisted=max(incident.domain_nodes - shown, 0),
        area=incident_area(entries, opened, closed or max([now, *(row.at for row in rows)])),
        rows=rows,
        older=older,
    )


def _now(status: str, origin: str | None) -> str:
    if status != "open":
        return _NOW.get(status, f"The incident is {status}.")
    if origin is None:
        return f"{_NOW[status]} The origin is unknown: no fault of one of its nodes explains those of the others."
    return (
        f"The origin is {origin}. Only its node is repaired. The others return when it is out of service and their own "
        "faults were not observed for the quiet period."
    )


def _parts(incident: Incident, nodes: Sequence[GridNode]) -> tuple[DomainPart, ...]:
    affected, held = set(incident.nodes), incident.held_cases
    whole, of = incident.domain.name, {one.node: one.domain for one in nodes}
    members: dict[str, list[str]] = defaultdict(list)
    for name in sorted({*of, *affected, *held}, key=natural_order):
        members[of.get(name) or whole].append(name)
    concerned = {*affected, *held} if len(of) > MAX_SINGLE_NODES else {*of, *affected, *held}
    parts = (
        DomainPart(
            name=part,
            total=len(names),
            affected=sum(name in affected for name in names),
            nodes=tuple(DomainNode(name, name in affected, held.get(name)) for name in names if name in concerned),
        )
        for part, names in sorted(members.items(), key=lambda one: natural_order(one[0]))
    )
    return tuple(one for one in parts if one.nodes)
