"""Incident page: the shared cause, the nodes of the failure domain over time, and the cases that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.answers import Answer, sentence
from faultbridge.model.event_data import ClusterIncidentData
from faultbridge.repair.registry.documents import Cluster, Incident
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, entries_with, entry_rows
from faultbridge.serve.presentation.grid import MAX_SINGLE_NODES, GridNode, natural_order
from faultbridge.serve.presentation.history import ENTRY_TIME, Bar, Chart, Lane, make_chart, periods
from faultbridge.serve.presentation.needs import incident_answer
from faultbridge.serve.presentation.tones import INCIDENT, Mark, Tone, mark


class DomainPart(Struct, frozen=True):
    """One part of the failure domain, such as a rack, with its (in a large domain, affected) nodes."""

    name: str
    total: int
    affected: int
    nodes: tuple[str, ...]

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
    cause: str
    answer: Answer
    parts: tuple[DomainPart, ...]
    unlisted: int
    growth: Chart
    rows: tuple[EntryRow, ...]
    older: bool

    @property
    def live(self) -> bool:
        """Whether the incident is not closed, so that it may still change."""
        return self.incident.closed_at is None


def incident_page(
    incident: Incident,
    cluster: Cluster,
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
    return IncidentPage(
        incident=incident,
        status=mark(status, INCIDENT),
        domain=f"{domain.type} {domain.name}",
        cause=sentence(f"{fault}{about}: {incident.reason}"),
        answer=incident_answer(incident, cluster),
        parts=parts,
        unlisted=max(incident.domain_nodes - shown, 0),
        growth=_growth(entries, opened, closed or max([now, *(row.at for row in rows)])),
        rows=rows,
        older=older,
    )


def _growth(entries: Entries, start: datetime, end: datetime) -> Chart:
    """Return how many nodes the incident affected over time."""
    bars = (
        Bar(one.at, until, str(one.data.nodes.count), mark(one.data.to, INCIDENT).tone, target=one.target)
        for one, until, _ in periods(entries_with(entries, ClusterIncidentData), ENTRY_TIME, end)
    )
    return make_chart(start, end, (Lane("affected nodes", tuple(bars)),))


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
            nodes=tuple(name for name in names if name in concerned),
        )
        for part, names in sorted(members.items(), key=lambda one: natural_order(one[0]))
    )
    return tuple(one for one in parts if one.nodes)
