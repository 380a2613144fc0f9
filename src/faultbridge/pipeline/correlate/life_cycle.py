"""Life cycle: how cluster incidents open, grow, shrink, expire and close.

The input is the time and the affected nodes of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import (
    MAX_NODES,
    CorrelationLimits,
    Hold,
    Incident,
    IncidentChangeKind,
    IncidentStatus,
    incident_id,
)
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.pipeline.correlate.exempt_nodes import exempt_nodes, recently_left
from faultbridge.pipeline.correlate.shared_causes import SharedCause, find_shared_causes
from faultbridge.pipeline.correlate.snapshot import AffectedNode, ClusterSnapshot, most_frequent, shared_subject

_QUIET = "no node has been affected for the quiet period"


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One change of an incident: its values before and after, and the nodes that joined and left."""

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


def correlate(
    snapshot: ClusterSnapshot,
    incidents: Iterable[Incident],
    ended: Iterable[Hold],
    limits: CorrelationLimits,
    now: datetime,
) -> tuple[IncidentChange, ...]:
    """Return the changes of a cluster's incidents that its affected nodes cause now.

    `incidents` are those that are not closed. `ended` are closed incidents: faults that started before their end open
    no further incident. After the changes are applied, a second call at the same time returns no change.
    """
    known = sorted((one for one in incidents if _is_known(one, snapshot)), key=lambda one: (one.opened_at, one.id))
    before = {one.id: one for one in known}
    live = [_close_if_over(one, snapshot, limits, now) for one in known]
    ended = (*ended, *(one.hold for one in live if one.status is IncidentStatus.CLOSED))
    # An incident that reaches its maximum age now exempts its nodes at once.
    over = [one for one in (_advance(one, snapshot, limits, now) for one in live) if not one.status.holds]
    held = snapshot.without(exempt_nodes(over, limits, now))
    of = {one.id: snapshot for one in over}
    after = _with_shared_causes(held, live, ended, limits, now)
    changes = (_change(before.get(one.id), _advance(one, of.get(one.id, held), limits, now)) for one in after)
    return tuple(change for change in changes if change is not None)


def _is_known(incident: Incident, snapshot: ClusterSnapshot) -> bool:
    """Return whether the snapshot shows the current state of an incident, so that it may change.

    An incident of the intake requires that the snapshot states whether records arrive.
    """
    return snapshot.knows_intake or incident.domain.kind is not DomainKind.INTAKE


def close_incident(incident: Incident, now: datetime, reason: str, operator: str | None = None) -> Incident:
    """Return the incident with the status `closed`, so that no repair waits for it any longer."""
    return replace(incident, status=IncidentStatus.CLOSED, closed_at=now, reason=reason, operator=operator)


def _with_shared_causes(
    snapshot: ClusterSnapshot,
    live: Sequence[Incident],
    ended: tuple[Hold, ...],
    limits: CorrelationLimits,
    now: datetime,
) -> list[Incident]:
    """Return a cluster's incidents after a search for shared causes of new faults.

    A shared cause opens a new incident, or extends an open one to a wider failure domain. If one incident now covers
    others, those are closed. An incident whose failure domain contains the cause also explains its earlier faults,
    which were recorded late.
    """
    found = {one.id: one for one in live}
    for family in Family:
        for cause in _causes(snapshot, family, live, ended, limits, now):
            holding = [one for one in found.values() if one.family is family and one.status.holds]
            containing = next((one for one in holding if _contains(one, cause)), None)
            if containing is not None:
                since = min(containing.evidence_since, _evidence_since(snapshot, cause, family, limits))
                found[containing.id] = replace(containing, evidence_since=since)
                continue
            narrower = [one for one in holding if one.nodes and cause.names.issuperset(one.nodes)]
            opened = narrower[0] if narrower else _open(snapshot, cause, family, limits, now)
            found[opened.id] = replace(opened, domain=cause.domain, of=cause.of)
            for merged in narrower[1:]:
                found[merged.id] = close_incident(merged, now, f"joined {opened.id}: {cause.domain.text}")
    return list(found.values())


def _causes(
    snapshot: ClusterSnapshot,
    family: Family,
    live: Sequence[Incident],
    ended: tuple[Hold, ...],
    limits: CorrelationLimits,
    now: datetime,
) -> tuple[SharedCause, ...]:
    """Return the shared causes of one fault family that no expired or closed incident explains.

    The nodes that no open incident contains are also searched alone. Otherwise a large incident would hide a smaller
    group of later faults in the same wide failure domain.
    """
    fresh = [one for one in snapshot.of_family(family) if not _ignored(one, live, ended)]
    explained = {name for one in live if one.family is family and one.status.holds for name in one.nodes}
    others = [one for one in fresh if one.node not in explained] if explained else []
    return (*find_shared_causes(snapshot, fresh, limits, now), *find_shared_causes(snapshot, others, limits, now))


def _contains(incident: Incident, cause: SharedCause) -> bool:
    if cause.domain.kind is DomainKind.INTAKE:
        return incident.domain == cause.domain  # a failed intake holds more nodes than those that it affects
    return all(incident.domain in one.domains for one in cause.affected)


def _ignored(node: AffectedNode, incidents: Iterable[Incident], ended: Iterable[Hold]) -> bool:
    """Return whether a node's fault belongs to an expired or closed incident, so that it opens none."""
    past = [(one.family, one.domain, one.expired_at) for one in incidents]
    past += [(one.family, one.domain, one.explains_until) for one in ended]
    return any(
        family is node.family and domain in node.domains and at is not None and node.since <= at
        for family, domain, at in past
    )


def _open(
    snapshot: ClusterSnapshot, cause: SharedCause, family: Family, limits: CorrelationLimits, now: datetime
) -> Incident:
    affected = cause.affected
    return Incident(
        id=incident_id(snapshot.stack_id, snapshot.cluster, family, cause.domain, now),
        cluster=snapshot.cluster,
        family=family,
        domain=cause.domain,
        status=IncidentStatus.OPEN,
        opened_at=now,
        evidence_since=_evidence_since(snapshot, cause, family, limits),
        code=most_frequent(one.code for one in affected),
        of=cause.of,
        subject=shared_subject(affected, limits.explains),
    )


def _evidence_since(
    snapshot: ClusterSnapshot, cause: SharedCause, family: Family, limits: CorrelationLimits
) -> datetime:
    """Return the start of the period whose faults in the failure domain belong to the incident.

    The period includes each earlier fault that started at most `limits.window` before the next one.
    """
    start = min(one.since for one in cause.affected)
    in_domain = (one.since for one in snapshot.of_family(family) if cause.domain in one.domains)
    for since in sorted(in_domain, reverse=True):
        if start - limits.window <= since < start:
            start = since
    return start - limits.window


def _close_if_over(incident: Incident, snapshot: ClusterSnapshot, limits: CorrelationLimits, now: datetime) -> Incident:
    """Close an incident whose quiet period ended before its next fault started.

    This applies if no earlier run recorded the end. The next fault is then another incident, with a maximum age of its
    own.
    """
    if incident.quiet_since is None or now < (end := incident.quiet_since + limits.quiet):
        return incident
    members = tuple(_members(snapshot, incident, limits, now))
    begun = [at for one in members for at in (one.since, one.first or one.since) if at >= incident.evidence_since]
    if not begun or min(begun) <= end:
        return incident
    return close_incident(incident, end, _QUIET)


def _advance(incident: Incident, snapshot: ClusterSnapshot, limits: CorrelationLimits, now: datetime) -> Incident:
    """Return the incident with its current affected nodes and its next status."""
    if incident.status is IncidentStatus.CLOSED:
        return incident
    members = tuple(_members(snapshot, incident, limits, now))
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
    if incident.quiet_since is not None and now >= incident.quiet_since + limits.quiet:
        return close_incident(incident, now, _QUIET)
    if incident.status.holds and now >= incident.opened_at + limits.max_age:
        reason = "maximum age reached; the cases that it held continue"
        return replace(incident, status=IncidentStatus.EXPIRED, expired_at=now, reason=reason)
    if incident.status.holds:
        status = IncidentStatus.OPEN if members else IncidentStatus.RECOVERING
        return replace(incident, status=status, reason=incident.summary)
    return incident


def _members(
    snapshot: ClusterSnapshot, incident: Incident, limits: CorrelationLimits, now: datetime
) -> Iterator[AffectedNode]:
    """Yield the members of an incident: the affected nodes that belong to it.

    Only a node that an expired incident already contained, or that left it recently, still belongs to it. A failed
    intake affects all nodes, including nodes that were added later.
    """
    grows = incident.status.holds or incident.domain.kind is DomainKind.INTAKE
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
    learned = (after.domain, after.subject) != (before.domain, before.subject)
    grown = learned or set(after.nodes) - set(before.nodes)
    return IncidentChange(IncidentChangeKind.GROWN if grown else IncidentChangeKind.SHRUNK, before, after)


def _content(incident: Incident) -> tuple[object, ...]:
    """Return the values of an incident whose change is recorded. A change of its counts alone is not."""
    return incident.nodes, incident.domain, incident.status, incident.subject


_FINAL_KINDS = {
    IncidentStatus.EXPIRED: IncidentChangeKind.EXPIRED,
    IncidentStatus.CLOSED: IncidentChangeKind.CLOSED,
}
