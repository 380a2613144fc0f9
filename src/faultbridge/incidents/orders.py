"""Lets operators close an incident, so that the cases that wait for it continue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import Incident, IncidentChangeKind
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import Actor
from faultbridge.errors import Rejected
from faultbridge.incidents.changes import IncidentChanges
from faultbridge.pipeline.correlate.life_cycle import IncidentChange
from faultbridge.pipeline.correlate.openings import close_incident
from faultbridge.rules.rulebook import Rulebook, rules_of


@dataclass(frozen=True, slots=True)
class IncidentOrders:
    """Accepts operator orders about incidents, and records each order with the operator's name."""

    changes: IncidentChanges
    rulebook: Rulebook

    def close(self, cluster: str, incident_id: str, operator: str | None, reason: str = "") -> Incident:
        """Close an open or expired incident by order of an operator, and return the closed incident.

        Faults that started before the close and that the incident explains open no further incident. `Correlate` then
        releases the cases that wait for the incident, the oldest first. Raises Rejected `incident_over` if no open or
        expired incident has this id.
        """

        def decide(incidents: Sequence[Incident], _: Control, now: datetime) -> Iterable[IncidentChange]:
            text = f"closed by an operator{': ' if reason else ''}{reason}"
            return [
                IncidentChange(IncidentChangeKind.CLOSED, one, close_incident(one, now, text, operator))
                for one in incidents
                if one.id == incident_id
            ]

        limits = rules_of(self.rulebook, cluster).policy.incidents
        closed = self.changes(cluster, decide, limits, actor=Actor.CLI)
        if not closed:
            raise Rejected("incident_over", f"no open incident: {incident_id}; run 'faultbridge incident list'")
        return closed[0].after
