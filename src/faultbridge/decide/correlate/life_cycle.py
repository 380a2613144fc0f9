"""Life cycle: how cluster incidents open, grow, shrink, expire and close, by time and affected nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.correlate.origins import with_origin
from faultbridge.decide.correlate.shared_causes import (
    AffectedNode,
    ClusterSnapshot,
    SharedCause,
    find_shared_causes,
    most_frequent,
    shared_subject,
)
from faultbridge.model.cluster.incidents import MAX_NODES, CorrelationLimits, Hold, Incident, incident_id
from faultbridge.model.enums import DomainKind, IncidentChangeKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.values import replace


def close_incident(incident: Incident, now: datetime, reason: str, operator: str | None = None) -> Incident:
    """Return the incident with the status `closed`, so that no repair waits for it."""
    return replace(incident, status=IncidentStatus.CLOSED, closed_at=now, reason=reason, operator=operator)


def with_shared_causes(
    snapshot: ClusterSnapshot,
    live: Sequence[Incident],
    ended: tuple[Hold, ...],
    limits: CorrelationLimits,
    now: datetime,
) -> list[Incident]:
    """Return a cluster's incidents after a search for shared causes of new faults.

    For each shared cause, the first of these rules that applies is used:

    - The failure domain of an open incident contains all nodes that the cause affects: the incident explains the cause,
      and no other incident is opened. Earlier faults of the cause that were recorded late then belong to the incident
      too.
    - The cause affects all nodes of an open incident: the incident is extended to the cause's failure domain. If there
      are several such incidents, the first is extended and the others are closed.
    - Any other cause: a new incident is opened.

    The first two rules skip an incident if enough further nodes for an incident began to fail in the second half of its
    maximum age. These nodes get an incident of their own, with the whole maximum age.
    """
    found = {one.id: one for one in live}
    for family in Family:
        for cause in _causes(snapshot, family, live, ended, limits, now):
            holding = [one for one in found.values() if one.family is family and one.status.holds]
            containing = [one for one in holding if _contains(one, cause)]
            current = next((one for one in containing if not _is_another(cause, one, limits)), None)
            if current is not None:
                since = min(current.evidence_since, _evidence_since(snapshot, cause, family, limits))
                found[current.id] = replace(current, evidence_since=since)
                continue
            narrower = [one for one in holding if one.nodes and cause.names.issuperset(one.nodes)]
            extended = [one for one in narrower if one not in containing and not _is_another(cause, one, limits)]
            opened = extended[0] if extended else _open(snapshot, cause, family, ended, limits, now)
            found[opened.id] = replace(opened, domain=cause.domain, of=cause.of)
            for merged in extended[1:]:
                found[merged.id] = close_incident(merged, now, f"joined {opened.id}: {cause.domain.text}")
    return list(found.values())


def superseded_incidents(
    snapshot: ClusterSnapshot, incidents: Sequence[Incident], limits: CorrelationLimits
) -> frozenset[str]:
    """Return the ids of the open incidents that no further node joins, because of a later incident.

    The later incident has the same family and was opened past half of the maximum age of the earlier one. It has the
    same failure domain, or its failure domain contains all nodes of the earlier incident that are affected now. An
    incident of the intake (the path of records to the table) is never returned.
    """
    holding = [one for one in incidents if one.status.holds and one.domain.kind is not DomainKind.INTAKE]
    return frozenset(
        one.id
        for one in holding
        for later in holding
        if later.family is one.family and _covers(later, one, snapshot, limits)
    )


def _covers(later: Incident, earlier: Incident, snapshot: ClusterSnapshot, limits: CorrelationLimits) -> bool:
    if later.opened_at < earlier.opened_at + limits.max_age / 2:
        return False
    members = [one for one in snapshot.of_family(earlier.family) if one.node in earlier.nodes]
    contained = bool(members) and all(later.domain in one.domains for one in members)
    return contained or later.domain == earlier.domain


def _causes(
    snapshot: ClusterSnapshot,
    family: Family,
    live: Sequence[Incident],
    ended: tuple[Hold, ...],
    limits: CorrelationLimits,
    now: datetime,
) -> tuple[SharedCause, ...]:
    """Return the shared causes of one fault family that no expired or closed incident explains.

    The search runs twice: among all nodes, and among the nodes that no open incident contains. Without the second
    search, a smaller group of later faults in the wide failure domain of a large incident would not be found.
    """
    fresh = [one for one in snapshot.of_family(family) if not _ignored(one, live, ended)]
    explained = {name for one in live if one.family is family and one.status.holds for name in one.nodes}
    others = [one for one in fresh if one.node not in explained] if explained else []
    return (*find_shared_causes(snapshot, fresh, limits, now), *find_shared_causes(snapshot, others, limits, now))


def _contains(incident: Incident, cause: SharedCause) -> bool:
    if cause.domain.kind is DomainKind.INTAKE:
        return incident.domain == cause.domain  # a failed intake delays more nodes than those that it affects
    return all(incident.domain in one.domains for one in cause.affected)


def _is_another(cause: SharedCause, incident: Incident, limits: CorrelationLimits) -> bool:
    """Return whether a shared cause requires an incident other than this one.

    The cause requires another incident if it affects enough nodes outside of this incident, and all these nodes began
    to fail past half of this incident's maximum age. Nodes that left the incident recently do not count as outside, so
    that faults that come and go stay one incident. A failed intake never requires another incident.
    """
    known = {*incident.nodes, *incident.left}
    others = [one.since for one in cause.affected if one.node not in known]
    late = incident.opened_at + limits.max_age / 2
    return cause.domain.kind is not DomainKind.INTAKE and len(others) >= limits.nodes and min(others) >= late


def _ignored(node: AffectedNode, incidents: Iterable[Incident], ended: Iterable[Hold]) -> bool:
    """Return whether a node's fault opens no incident, because an expired or closed incident explains it."""
    past = [(one.family, one.domain, one.expired_at) for one in incidents]
    past += [(one.family, one.domain, one.explains_until) for one in ended]
    return any(
        family is node.family and domain in node.domains and at is not None and node.since <= at
        for family, domain, at in past
    )


def _open(
    snapshot: ClusterSnapshot,
    cause: SharedCause,
    family: Family,
    ended: Iterable[Hold],
    limits: CorrelationLimits,
    now: datetime,
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
        recurrence=_recurrence(cause, family, ended, limits, now),
    )


def _recurrence(
    cause: SharedCause, family: Family, ended: Iterable[Hold], limits: CorrelationLimits, now: datetime
) -> int:
    """Return how often the shared cause came back, for the `recurrence` of its new incident.

    A cause came back if an incident of the same family ended less than `limits.max_age` ago, and all affected nodes are
    in the failure domain of that incident. The result is then the highest `recurrence` of such incidents plus 1. The
    result is 0 for a new cause. It is also 0 for a failed intake: the incident of the intake delays all repairs, and
    with 0 it closes soon after records arrive again.
    """
    if cause.domain.kind is DomainKind.INTAKE:
        return 0
    recent = (one for one in ended if one.family is family and one.ended_at and now < one.ended_at + limits.max_age)
    former = (one for one in recent if all(one.domain in node.domains for node in cause.affected))
    return max((one.recurrence + 1 for one in former), default=0)


def _evidence_since(
    snapshot: ClusterSnapshot, cause: SharedCause, family: Family, limits: CorrelationLimits
) -> datetime:
    """Return the time since which faults in the cause's failure domain belong to the cause's incident.

    The search starts at the first fault of the cause. It goes back from fault to fault in the domain, as long as an
    earlier fault started at most `limits.window` before. The result is `limits.window` before the earliest fault found.
    """
    start = min(one.since for one in cause.affected)
    in_domain = (one.since for one in snapshot.of_family(family) if cause.domain in one.domains)
    for since in sorted(in_domain, reverse=True):
        if start - limits.window <= since < start:
            start = since
    return start - limits.window


# Nodes of an incident past its maximum age are exempt: without this rule, a fault that comes and goes would open one
# incident after another, and the repair of the node would wait for all of them.


def exempt_nodes(
    incidents: Iterable[Incident], limits: CorrelationLimits, now: datetime
) -> frozenset[tuple[Family, str]]:
    """Return the exempt nodes of these incidents, each as a fault family and a node name.

    The repair of an exempt node waits for no further incident of the family. A node is exempt if its incident has
    expired, until it had no fault of the family for the quiet period of the incident.
    """
    holds = (hold_of(one, limits, now) for one in incidents)
    return frozenset((hold.family, name) for hold in holds for name in hold.exempt)


def hold_of(incident: Incident, limits: CorrelationLimits, now: datetime) -> Hold:
    """Return the `Hold` of an incident, which decides which repairs wait, with its exempt nodes."""
    hold, left = incident.hold, recently_left(incident, incident.nodes, limits, now)
    return replace(hold, exempt=tuple(name for name in hold.exempt if name in left or name in incident.nodes))


def recently_left(
    incident: Incident, nodes: Iterable[str], limits: CorrelationLimits, now: datetime
) -> Mapping[str, datetime]:
    """Return the nodes that left an incident less than its quiet period ago, and when each left."""
    affected, quiet = frozenset(nodes), incident.quiet_period(limits)
    left = dict.fromkeys(incident.nodes, now) | dict(incident.left)
    return {name: at for name, at in sorted(left.items()) if name not in affected and now < at + quiet}


NOTICE_INTERVAL = timedelta(minutes=15)
"""Minimum time between the page of an incident, the first notice of its growth, and each further notice."""

_QUIET = "no node has been affected for the quiet period"


class IncidentChange(Struct, frozen=True):
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
    def finds_origin(self) -> bool:
        """Return whether the origin became known after the page of the incident, so that a notice is due."""
        return self.before is not None and origin_node(self.after) not in {None, origin_node(self.before)}

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
    """Return whether the snapshot has what a change requires: for the intake, whether records arrive."""
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
    incident = with_origin(incident, members, snapshot.catalog, limits, now)
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
    """Yield the affected nodes of an incident; an expired one, or one that does not grow, gets no new nodes."""
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
    compared = ((one.domain, one.subject, one.announced_at, origin_node(one)) for one in (before, after))
    learned = len(set(compared)) > 1
    grown = learned or set(after.nodes) - set(before.nodes)
    return IncidentChange(IncidentChangeKind.GROWN if grown else IncidentChangeKind.SHRUNK, before, after)


def _content(incident: Incident) -> tuple[object, ...]:
    """Return the values of an incident whose changes are recorded; counts of nodes are not among them."""
    return incident.nodes, incident.domain, incident.status, incident.subject, incident.announced_at, incident.origin


def origin_node(incident: Incident) -> str | None:
    """Return the node of the origin of an incident, or None while the origin is unknown."""
    return incident.origin.node if incident.origin else None


_FINAL_KINDS = {IncidentStatus.EXPIRED: IncidentChangeKind.EXPIRED, IncidentStatus.CLOSED: IncidentChangeKind.CLOSED}
