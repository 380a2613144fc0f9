"""Life cycle: how cluster incidents are opened, grow, shrink, expire and are closed.

The input is the time and the affected nodes of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import (
    MAX_NODES,
    CorrelationLimits,
    Hold,
    Incident,
    IncidentChangeKind,
    IncidentStatus,
)
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import DomainKind
from faultbridge.pipeline.correlate.exempt_nodes import exempt_nodes, recently_left
from faultbridge.pipeline.correlate.openings import close_incident, superseded_incidents, with_shared_causes
from faultbridge.pipeline.correlate.snapshot import AffectedNode, ClusterSnapshot, shared_subject

NOTICE_INTERVAL = timedelta(minutes=15)
"""Minimum time between the page of an incident, the first notice of its growth, and each further notice."""

_QUIET = "no node has been affected for the quiet period"


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One change of an incident: the incident before and after it. `before` is None for a new incident."""

    kind: IncidentChangeKind
    before: Incident | None
    after: Incident

    @property
    def added(self) -> tuple[str, ...]:
        """Return the names of the nodes that joined the incident, sorted."""
        return tuple(sorted(set(self.after.nodes) - set(self.before.nodes if self.before else ())))

    @property
    def removed(self) -> tuple[str, ...]:
        """Return the names of the nodes that left the incident, sorted."""
        return tuple(sorted(set(self.before.nodes if self.before else ()) - set(self.after.nodes)))

    @property
    def doubled(self) -> bool:
        """Return whether the incident has doubled since its last page or notice, so that a notice is due."""
        return self.before is not None and self.before.announced_at != self.after.announced_at


def correlate(
    snapshot: ClusterSnapshot,
    incidents: Iterable[Incident],
    ended: Iterable[Hold],
    limits: CorrelationLimits,
    now: datetime,
) -> tuple[IncidentChange, ...]:
    """Return the changes of a cluster's incidents that follow from its affected nodes and the time.

    `incidents` are the incidents that are not closed. `ended` are closed incidents: the faults that they explain open
    no further incident. After the changes are applied, a second call at the same time returns no change.
    """
    known = sorted((one for one in incidents if _is_known(one, snapshot)), key=lambda one: (one.opened_at, one.id))
    before = {one.id: one for one in known}
    live = [_close_if_over(one, snapshot, limits, now) for one in known]
    ended = (*ended, *(one.hold for one in live if one.status is IncidentStatus.CLOSED))
    # An incident that reaches its maximum age now exempts its nodes at once.
    over = [one for one in (_advance(one, snapshot, limits, now) for one in live) if not one.status.holds]
    held = snapshot.without(exempt_nodes(over, limits, now))
    after = with_shared_causes(held, live, ended, limits, now)
    superseded = superseded_incidents(held, after, limits)
    kept = frozenset((one.family, name) for one in after if one.id in superseded for name in (*one.nodes, *one.left))
    others = held.without(kept)
    of = dict.fromkeys(superseded, held) | dict.fromkeys((one.id for one in over), snapshot)
    changes = (
        _change(before.get(one.id), _advance(one, of.get(one.id, others), limits, now, grows=one.id not in superseded))
        for one in after
    )
    return tuple(change for change in changes if change is not None)


def _is_known(incident: Incident, snapshot: ClusterSnapshot) -> bool:
    """Return whether the snapshot contains the data that a change of this incident requires.

    An incident of the intake (the path of records to the table) may change only if the snapshot states whether records
    arrive. Any other incident may always change.
    """
    return snapshot.knows_intake or incident.domain.kind is not DomainKind.INTAKE


def _close_if_over(incident: Incident, snapshot: ClusterSnapshot, limits: CorrelationLimits, now: datetime) -> Incident:
    """Close an incident whose quiet period ended before its nodes began to fail again.

    Any other incident is returned unchanged. The time of closure is the end of the quiet period. Usually, a call of
    `correlate` closes the incident at that time. If no call was made before the new faults, this function closes it.
    The new faults can then open another incident, with a maximum age of its own.
    """
    members = tuple(_members(snapshot, incident, limits, now))
    quiet_since = _recovered_at(incident, members) or incident.quiet_since
    if quiet_since is None or now < (end := quiet_since + incident.quiet_period(limits)):
        return incident
    begun = [at for one in members for at in (one.since, one.first or one.since) if at >= incident.evidence_since]
    if not begun or min(begun) <= end:
        return incident
    return close_incident(replace(incident, quiet_since=quiet_since), end, _QUIET)


def _recovered_at(incident: Incident, members: Iterable[AffectedNode]) -> datetime | None:
    """Return when the last node of an incident recovered before the current faults, or None.

    The time is computed from the nodes, because `correlate` may not have run between the recovery and the new faults.
    It is None unless all nodes of the incident are faulty again, and each of them had no fault of the incident's family
    between its earlier and its current faults.
    """
    known = frozenset((*incident.nodes, *incident.left))
    ended = {one.node: one.ended for one in members if one.ended is not None and one.ended < (one.first or one.since)}
    times = [at for name, at in ended.items() if name in known and at > incident.opened_at]
    return max(times) if known and len(times) == len(known) else None


def _advance(
    incident: Incident, snapshot: ClusterSnapshot, limits: CorrelationLimits, now: datetime, *, grows: bool = True
) -> Incident:
    """Return the incident with its current affected nodes and its next status.

    At most `MAX_NODES` nodes are named. With `grows` False, no further node joins the incident, unless it is an
    incident of the intake.
    """
    if incident.status is IncidentStatus.CLOSED:
        return incident
    members = tuple(_members(snapshot, incident, limits, now, grows=grows))
    size = snapshot.sizes.get(incident.domain, incident.of)
    incident = replace(
        incident,
        nodes=(nodes := tuple(sorted(one.node for one in members))[:MAX_NODES]),
        left=recently_left(incident, nodes, limits, now),
        affected=len(members),
        of=max(size, len(members)),
        subject=incident.subject or shared_subject(members, limits.explains),
        quiet_since=None if members else incident.quiet_since or now,
    )
    if incident.quiet_since is not None and now >= incident.quiet_since + incident.quiet_period(limits):
        return close_incident(incident, now, _QUIET)
    if incident.status.holds and now >= incident.opened_at + limits.max_age:
        reason = "maximum age reached; the cases that it held continue"
        return replace(incident, status=IncidentStatus.EXPIRED, expired_at=now, reason=reason)
    if incident.status.holds:
        status = IncidentStatus.OPEN if members else IncidentStatus.RECOVERING
        return _announce_growth(replace(incident, status=status, reason=incident.summary), now)
    return incident


def _announce_growth(incident: Incident, now: datetime) -> Incident:
    if not incident.announced:
        return replace(incident, announced=incident.affected)
    due = now >= (incident.announced_at or incident.opened_at) + NOTICE_INTERVAL
    if not due or incident.affected < 2 * incident.announced:
        return incident
    return replace(incident, announced=incident.affected, announced_at=now)


def _members(
    snapshot: ClusterSnapshot, incident: Incident, limits: CorrelationLimits, now: datetime, *, grows: bool = True
) -> Iterator[AffectedNode]:
    """Yield the members of an incident: the affected nodes that belong to it.

    If the incident has expired or `grows` is False, only the nodes that it already contained, or that left it recently,
    still belong to it. A failed intake affects all nodes, including nodes that were added later.
    """
    grows = (grows and incident.status.holds) or incident.domain.kind is DomainKind.INTAKE
    known = frozenset((*incident.nodes, *recently_left(incident, incident.nodes, limits, now)))
    for one in snapshot.of_family(incident.family):
        belongs = incident.domain in one.domains and one.since >= incident.evidence_since
        if belongs and (grows or one.node in known):
            yield one


def _change(before: Incident | None, after: Incident) -> IncidentChange | None:
    if before is None:
        return IncidentChange(IncidentChangeKind.OPENED, None, after)
    if after.status is not before.status and after.status in _FINAL_KINDS:
        return IncidentChange(_FINAL_KINDS[after.status], before, after)
    if _content(before) == _content(after):
        return None
    compared = ((one.domain, one.subject, one.announced_at) for one in (before, after))
    learned = len(set(compared)) > 1
    grown = learned or set(after.nodes) - set(before.nodes)
    return IncidentChange(IncidentChangeKind.GROWN if grown else IncidentChangeKind.SHRUNK, before, after)


def _content(incident: Incident) -> tuple[object, ...]:
    """Return the nodes, failure domain, status and subject of an incident, and when its growth was last announced.

    A change of one of these values is recorded. A change of only other values, such as the counts of nodes, is not.
    """
    return incident.nodes, incident.domain, incident.status, incident.subject, incident.announced_at


_FINAL_KINDS = {
    IncidentStatus.EXPIRED: IncidentChangeKind.EXPIRED,
    IncidentStatus.CLOSED: IncidentChangeKind.CLOSED,
}
