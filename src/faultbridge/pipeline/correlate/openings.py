"""Openings: which incidents are opened, extended or merged because of the shared causes of new faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from faultbridge.domain.cluster.incidents import CorrelationLimits, Hold, Incident, IncidentStatus, incident_id
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.pipeline.correlate.shared_causes import SharedCause, find_shared_causes
from faultbridge.pipeline.correlate.snapshot import AffectedNode, ClusterSnapshot, most_frequent, shared_subject


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
