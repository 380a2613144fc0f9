"""Drafts the entries that record a change of an incident, and the start or end of its hold on repairs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.cluster.incidents import CorrelationLimits, Incident, IncidentStatus
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.times import to_text
from faultbridge.pipeline.correlate.life_cycle import IncidentChange
from faultbridge.pipeline.node_list import node_list
from faultbridge.repair.controls import control_draft


def incident_drafts(change: IncidentChange, at: datetime, limits: CorrelationLimits, waiting: int) -> tuple[Draft, ...]:
    """Draft the entries of one change of an incident, at the time `at`, for the cluster's stream.

    If the incident starts or stops delaying repairs, a second entry records this. `waiting` is the number of cases that
    wait for the incident.
    """
    entry = Draft(EntryType.CLUSTER_INCIDENT, at, _data(change, at, waiting), subject=change.after.id)
    held_before = change.before is not None and change.before.status.holds
    if held_before is change.after.status.holds:
        return (entry,)
    return entry, _hold_draft(change.after, at, limits, held_before=held_before)


def _data(change: IncidentChange, at: datetime, waiting: int) -> dict[str, Any]:
    after = change.after
    return {
        "incident_id": after.id,
        "change": change.kind.value,
        "from": change.before.status.value if change.before else None,
        "to": after.status.value,
        "reason": after.reason,
        "family": after.family.value,
        "cause": {"code": after.code, "component": None, "text": _cause(after)},
        "domain": {"type": after.domain.kind.value, "name": after.domain.name},
        "domain_nodes": after.of,
        "nodes": node_list(after.nodes, after.affected),
        "doubled": change.doubled,
        "added": node_list(change.added),
        "removed": node_list(change.removed),
        "absorbed_cases": waiting,
        "opened_at": to_text(after.opened_at),
        "operator": after.operator,
        "phases": _phases(after, after.closed_at or at) if after.status is IncidentStatus.CLOSED else {},
    }


def _cause(incident: Incident) -> str:
    about = f" about {incident.subject}" if incident.subject else ""
    return f"{incident.code}{about} on many nodes of {incident.domain.text} at once"


def _phases(incident: Incident, closed_at: datetime) -> dict[str, int]:
    """Return the durations of an incident's phases in milliseconds, by phase.

    In the phase `open`, the incident delays repairs. The phase `expired` follows only if the incident reached its
    maximum age before it was closed.
    """
    held_until = incident.expired_at or closed_at
    phases = {"open": held_until - incident.opened_at}
    if incident.expired_at is not None:
        phases["expired"] = closed_at - incident.expired_at
    return {name: length // timedelta(milliseconds=1) for name, length in phases.items()}


def _hold_draft(incident: Incident, at: datetime, limits: CorrelationLimits, *, held_before: bool) -> Draft:
    before, after = ("held", "released") if held_before else (None, "held")
    return control_draft(
        "hold",
        before,
        after,
        at,
        reason=incident.reason,
        domain=incident.domain.name,
        counts={"affected": incident.affected, "of": incident.of},
        operator=incident.operator,
        until=None if held_before else incident.opened_at + limits.max_age,
        name=f"{incident.id}:hold",
        incident=incident.id,
    )
