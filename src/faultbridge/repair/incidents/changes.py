"""Commits changes of incidents, together with the holds that delay repairs and the entries about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.correlate.life_cycle import IncidentChange, close_incident, hold_of
from faultbridge.decide.correlate.shared_causes import AffectedNode
from faultbridge.decide.entry_builder import component_data, node_list
from faultbridge.model import event_data
from faultbridge.model.cluster.incidents import CorrelationLimits, Hold, Incident
from faultbridge.model.cluster.state import Control
from faultbridge.model.conditions import parse_component
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, EntryType, IncidentChangeKind, IncidentStatus, SafetyKind, SafetyState
from faultbridge.model.errors import Rejected
from faultbridge.model.event_data import ClusterIncidentData, IncidentCause
from faultbridge.model.fault_enums import Severity
from faultbridge.model.log import log_cause
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.record.ports import Table
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.controls import ControlChange, Controls, control_draft
from faultbridge.repair.requests import RequestKey


def incident_drafts(change: IncidentChange, at: datetime, limits: CorrelationLimits, waiting: int) -> tuple[Draft, ...]:
    """Draft the entries of an incident's change, and of the hold that starts or ends with it."""
    entry = Draft(EntryType.CLUSTER_INCIDENT, at, _data(change, at, waiting), subject=change.after.id)
    held_before = change.before is not None and change.before.status.holds
    if held_before is change.after.status.holds:
        return (entry,)
    return entry, _hold_draft(change.after, at, limits, held_before=held_before)


def _data(change: IncidentChange, at: datetime, waiting: int) -> ClusterIncidentData:
    after = change.after
    return ClusterIncidentData(
        incident_id=after.id,
        change=change.kind,
        from_=change.before.status if change.before else None,
        to=after.status,
        reason=after.reason,
        family=after.family,
        cause=_cause(after),
        domain=event_data.Domain(type=after.domain.kind, name=after.domain.name),
        domain_nodes=after.of,
        nodes=node_list(after.nodes, after.affected),
        doubled=change.doubled,
        finds_origin=change.finds_origin,
        added=node_list(change.added),
        removed=node_list(change.removed),
        absorbed_cases=waiting,
        opened_at=after.opened_at,
        operator=after.operator,
        phases=_phases(after, after.closed_at or at) if after.status is IncidentStatus.CLOSED else {},
    )


def _cause(incident: Incident) -> IncidentCause:
    origin = incident.origin
    about = f" about {incident.subject}" if incident.subject else ""
    text = f"{incident.code}{about} on many nodes of {incident.domain.text} at once; {incident.origin_text}"
    component = parse_component(origin.site.component) if origin else None
    return IncidentCause(
        code=origin.code if origin else incident.code,
        node=origin.node if origin else None,
        component=component_data(component) if component else None,
        text=text,
    )


def _phases(incident: Incident, closed_at: datetime) -> dict[str, int]:
    """Return the milliseconds in which the incident held repairs and, after its maximum age, did not."""
    held_until = incident.expired_at or closed_at
    phases = {"open": held_until - incident.opened_at}
    if incident.expired_at is not None:
        phases["expired"] = closed_at - incident.expired_at
    return {name: length // timedelta(milliseconds=1) for name, length in phases.items()}


def _hold_draft(incident: Incident, at: datetime, limits: CorrelationLimits, *, held_before: bool) -> Draft:
    before, after = (SafetyState.HELD, SafetyState.RELEASED) if held_before else (None, SafetyState.HELD)
    return control_draft(
        SafetyKind.HOLD,
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


VERIFICATION_MARGIN = timedelta(hours=1)
"""How much longer than the policy's `verify_deadline` a verification may take until its failure is recorded."""

MAX_CHANGES = 20
"""Maximum changes of one commit; the next run makes the others. A change is at most five writes."""

Decide = Callable[[Sequence[Incident], Control, datetime], Iterable[IncidentChange]]
"""Computes changes from the incidents that are not closed, the controls and the time."""


class IncidentChanges(Struct, frozen=True):
    """Reads and commits the incidents of a cluster.

    The hold of an incident prevents repairs of the affected nodes. Holds are stored in the cluster's control item. A
    repair that is admitted while a new hold is committed therefore fails with a conflict.
    """

    table: Table
    controls: Controls

    def read(self, control: Control) -> tuple[Incident, ...]:
        """Return the incidents of a cluster that are not closed, according to the holds in `control`."""
        wanted = [name for name, hold in control.holds.items() if hold.ended_at is None]
        found = self.table.get_many(stored_incidents.incident_key(control.cluster, name) for name in wanted)
        return tuple(stored_incidents.read_incident(row) for row in found.values())

    def commit(
        self,
        cluster: str,
        decide: Decide,
        limits: CorrelationLimits,
        *,
        waiting: Callable[[Incident], int] = lambda _: 0,
        severity: Severity | None = None,
        cause: str | None = None,
        actor: Actor = Actor.CORRELATE,
        affected: Iterable[AffectedNode] | None = None,
        verify_deadline: timedelta = timedelta(),
        request: RequestKey | None = None,
    ) -> tuple[IncidentChange, ...]:
        """Commit at most `MAX_CHANGES` changes of `decide`, once under the key of a request.

        With `affected`, holds that are not used are dropped.
        """
        committed: tuple[IncidentChange, ...] = ()

        def revise(control: Control, now: datetime) -> ControlChange:
            nonlocal committed
            incidents = self.read(control)
            committed = tuple(decide(incidents, control, now))[:MAX_CHANGES]
            holds = dict(control.holds)
            if affected is not None and committed:
                kept = max(verify_deadline + VERIFICATION_MARGIN, limits.max_age)
                holds = {name: hold for name, hold in holds.items() if _is_used(hold, affected, kept, now)}
            holds |= {one.id: hold_of(one, limits, now) for one in (*incidents, *(one.after for one in committed))}
            drafts = tuple(
                draft for change in committed for draft in incident_drafts(change, now, limits, waiting(change.after))
            )
            writes = tuple(Put(stored_incidents.incident_item(change.after, now)) for change in committed)
            ended = control.holds.keys() - holds.keys()
            events = {name: event for name, event in control.events.items() if name.split(":")[0] not in ended}
            return ControlChange(replace(control, holds=holds, events=events), drafts, severity, cause, writes)

        self.controls.change(cluster, revise, actor, request)
        _log(committed)
        return committed


def _is_used(hold: Hold, affected: Iterable[AffectedNode], kept: timedelta, now: datetime) -> bool:
    """Return whether the hold of an incident is still needed.

    - A hold is needed until its incident is closed, and for the time `kept` afterwards. In this time, the incident may
      explain a failed verification that started before the close, and the cause of the incident may return.
    - Later, the hold is needed only while a node in `affected` has a fault that the incident explains.
    """
    if hold.ended_at is None or now < hold.ended_at + kept:
        return True
    until = hold.explains_until
    return until is not None and any(
        one.family is hold.family and hold.domain in one.domains and one.since <= until for one in affected
    )


def _log(changes: Iterable[IncidentChange]) -> None:
    for change in changes:
        after = change.after
        log_cause(
            f"incident_{change.kind.value}",
            reason=after.reason,
            cluster=after.cluster,
            incident=after.id,
            domain=after.domain.text,
            affected=after.affected,
            of=after.of,
        )


class IncidentOrders(Struct, frozen=True):
    """Accepts operator orders about incidents, and records each order with the operator's name."""

    changes: IncidentChanges
    rulebook: Rulebook

    def close(self, cluster: str, incident_id: str, order: OperatorOrder) -> None:
        """Close an open or expired incident by order of an operator.

        Faults that started before the close and that the incident explains open no further incident. `Correlate` then
        releases the cases that wait for the incident, the oldest first. Raises Rejected `incident_over` if no open or
        expired incident has this id.
        """

        def decide(incidents: Sequence[Incident], _: Control, now: datetime) -> Iterable[IncidentChange]:
            text = f"closed by an operator{': ' if order.reason else ''}{order.reason}"
            return [
                IncidentChange(IncidentChangeKind.CLOSED, one, close_incident(one, now, text, order.operator))
                for one in incidents
                if one.id == incident_id
            ]

        limits = rules_of(self.rulebook, cluster).policy.incidents
        closed = self.changes.commit(cluster, decide, limits, actor=Actor.CLI, request=order.request)
        if not closed and not (order.request and order.request.is_executed(self.changes.table)):
            raise Rejected("incident_over", f"no open incident: {incident_id}; run 'faultbridge incident list'")
