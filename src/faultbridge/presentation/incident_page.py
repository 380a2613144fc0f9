"""Incident page: the shared cause, the nodes of its failure domain with the affected ones marked, growth and cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.times import from_text
from faultbridge.presentation.areas import Area, incident_area
from faultbridge.presentation.entry_rows import Document, EntryRow, entry_rows
from faultbridge.presentation.grid import GridNode, natural_order
from faultbridge.presentation.tones import INCIDENT, Mark, mark

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


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node of the failure domain, whether the incident affects it, and the case that waits for the incident."""

    node: str
    affected: bool
    case_id: str | None


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """What the page of an incident shows."""

    cluster: str
    incident_id: str
    status: Mark
    cause: str
    domain: str
    affected: int
    domain_nodes: int
    opened_at: datetime
    closed_at: datetime | None
    now: str
    action: str
    commands: tuple[str, ...]
    nodes: tuple[DomainNode, ...]
    unlisted: int
    area: Area | None
    rows: tuple[EntryRow, ...]
    older: bool

    @property
    def live(self) -> bool:
        """Return whether the incident may still change."""
        return self.closed_at is None


def incident_page(
    incident: Document, nodes: Sequence[GridNode], entries: Sequence[Document], now: datetime, *, older: bool
) -> IncidentPage:
    """Return the page of an incident; `nodes` are the nodes of its failure domain, as far as they are registered."""
    rows, status, domain = entry_rows(entries), str(incident["status"]), incident["domain"]
    closed = from_text(str(incident["closed_at"])) if incident["closed_at"] else None
    opened = from_text(str(incident["opened_at"]))
    affected, held = set(incident["nodes"]), incident["held_cases"]
    names = sorted({one.node for one in nodes} | affected | set(held), key=natural_order)
    shown = tuple(DomainNode(name, name in affected, held.get(name)) for name in names)
    about = f" about {incident['subject']}" if incident["subject"] else ""
    return IncidentPage(
        cluster=str(incident["cluster"]),
        incident_id=str(incident["incident_id"]),
        status=mark(status, INCIDENT),
        cause=f"{incident['code']}{about}: {incident['reason']}",
        domain=f"{domain['type']} {domain['name']}",
        affected=int(incident["affected"]),
        domain_nodes=int(incident["domain_nodes"]),
        opened_at=opened,
        closed_at=closed,
        now=_NOW.get(status, f"The incident is {status}."),
        action=_ACTION.get(status, "Nothing."),
        commands=(f"faultbridge incident close {incident['incident_id']}",) if status == "open" else (),
        nodes=shown,
        unlisted=max(int(incident["domain_nodes"]) - len(shown), 0),
        area=incident_area(entries, opened, closed or max([now, *(row.at for row in rows)])),
        rows=rows,
        older=older,
    )
