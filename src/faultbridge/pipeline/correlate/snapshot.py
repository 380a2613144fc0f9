"""Snapshot: a cluster's affected nodes by fault family, and the sizes of its failure domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.pipeline.correlate.chance import OnsetHistory


@dataclass(frozen=True, slots=True)
class AffectedNode:
    """A node with active faults of one family.

    - `since`, `code` and `subject` describe the latest of these faults: when it started, its fault code, and the remote
      object that it names, such as a switch.
    - `first` is when the oldest of these faults started; None means the same time as `since`.
    - `ended` is when a fault of the node, of any family, last ended. It is None unless an active fault of the node, of
      any family, has ended before and started again.
    """

    node: str
    family: Family
    since: datetime
    code: str
    domains: tuple[FailureDomain, ...]
    subject: str | None = None
    first: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The state of one cluster from which incidents are derived.

    `sizes` maps each failure domain to its number of nodes. It may be empty if no family of faults affects enough nodes
    for an incident. `knows_intake` is True if it was determined whether records of the cluster arrive at all.
    """

    stack_id: str
    cluster: str
    affected: tuple[AffectedNode, ...] = ()
    sizes: Mapping[FailureDomain, int] = field(default_factory=dict)
    history: OnsetHistory = field(default_factory=OnsetHistory)
    knows_intake: bool = False

    def of_family(self, family: Family) -> tuple[AffectedNode, ...]:
        """Return the nodes that have an active fault of this family."""
        return tuple(one for one in self.affected if one.family is family)

    def without(self, exempt: Collection[tuple[Family, str]]) -> ClusterSnapshot:
        """Return the snapshot without the affected nodes in `exempt`, pairs of a fault family and a node."""
        return replace(self, affected=tuple(one for one in self.affected if (one.family, one.node) not in exempt))


def without_records(
    affected: Iterable[AffectedNode], cluster: str, overdue: Iterable[str], since: datetime
) -> tuple[AffectedNode, ...]:
    """Return a cluster's affected nodes, and its nodes with overdue heartbeats, for a failed intake.

    The intake is the path of records from the queue to the table. In the result, it is a failure domain of each node
    with a missing heartbeat. `overdue` are the names of nodes whose heartbeats are overdue. `since` is when the last
    record arrived. This time identifies the outage: one outage opens at most one incident, even if an operator closes
    that incident or it reaches its maximum age.
    """
    intake = FailureDomain(DomainKind.INTAKE, cluster)
    nodes = tuple(
        replace(one, domains=(*one.domains, intake)) if one.family is Family.HEARTBEAT else one for one in affected
    )
    known = {one.node for one in nodes if one.family is Family.HEARTBEAT}
    others = (name for name in overdue if name not in known)
    return nodes + tuple(AffectedNode(name, Family.HEARTBEAT, since, "host.silent", (intake,)) for name in others)


def by_domain(affected: Iterable[AffectedNode]) -> dict[FailureDomain, list[AffectedNode]]:
    """Return the affected nodes by failure domain."""
    found: dict[FailureDomain, list[AffectedNode]] = {}
    for one in affected:
        for domain in one.domains:
            found.setdefault(domain, []).append(one)
    return found


def most_frequent(values: Iterable[str]) -> str:
    """Return the most frequent value; of equally frequent values, the first in sort order."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def shared_subject(affected: Iterable[AffectedNode], percent: int) -> str | None:
    """Return the remote object, such as a switch, that at least `percent` % of the nodes name, or None."""
    affected = tuple(affected)
    named = [one.subject for one in affected if one.subject]
    if not named:
        return None
    subject = most_frequent(named)
    return subject if named.count(subject) * 100 >= percent * len(affected) else None
