"""Shared causes: failure domains in which an unlikely number of nodes start to fail with one fault family."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import CorrelationLimits, FaultSite
from faultbridge.model.enums import DomainKind
from faultbridge.model.fault_enums import Family
from faultbridge.model.stored import Stored
from faultbridge.model.values import replace

# Counts of onsets decay with a half-life, so that recent faults weigh more than old ones. The caller
# (`repair/incidents.py`) leaves out faults that an incident explains.

HALF_LIFE = timedelta(days=7)
PRIOR_PER_NODE = timedelta(days=30)
"""Without a history, one fault of a family on a node in this time is expected."""

MAX_DOMAINS = 500
_SCALE = 1_000


class OnsetCount(Stored, frozen=True):
    """How many faults of one family started in one domain, in thousandths, decayed as of `at`."""

    thousandths: int
    at: datetime


class OnsetHistory(Stored, frozen=True):
    """How many faults started from `since` to `until`, by `family/kind/name` of a domain."""

    since: datetime | None = None
    until: datetime | None = None
    counts: Mapping[str, OnsetCount] = field(default_factory=dict)
    version: int = 0

    def expected(self, family: Family, domain: FailureDomain, nodes: int, window: timedelta, now: datetime) -> float:
        """Return the expected faults in a domain within `window`: one a node in `PRIOR_PER_NODE`, or more."""
        prior = nodes * (window / PRIOR_PER_NODE)
        counted = self.counts.get(_key(family, domain))
        if counted is None or self.since is None:
            return prior
        # The decayed count of a constant rate r over a time t approaches r * half-life / ln 2.
        observed = max(now - self.since, HALF_LIFE)
        weight = HALF_LIFE / math.log(2) * (1 - 2 ** -(observed / HALF_LIFE))
        return max(prior, _decayed(counted, now) / _SCALE * (window / weight))

    def counting(self, onsets: Iterable[tuple[Family, FailureDomain, datetime]], until: datetime) -> OnsetHistory:
        """Return the history with later faults counted up to `until`, with its `MAX_DOMAINS` highest counts."""
        counts = dict(self.counts)
        for family, domain, at in onsets:
            if at > until or (self.until is not None and at <= self.until):
                continue
            before = counts.get(key := _key(family, domain))
            counts[key] = OnsetCount(_SCALE + (_decayed(before, until) if before else 0), until)
        kept = sorted(counts, key=lambda key: (-_decayed(counts[key], until), key))[:MAX_DOMAINS]
        return replace(self, since=self.since or until, until=until, counts={key: counts[key] for key in sorted(kept)})


def is_unlikely(number: int, expected: float, odds: int) -> bool:
    """Return whether `number` or more events of a Poisson mean have a probability below one in `odds`."""
    below = sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(number))
    return 1 - below < 1 / odds


def _decayed(count: OnsetCount, now: datetime) -> int:
    return round(count.thousandths * 2 ** -(max(now - count.at, timedelta()) / HALF_LIFE))


def _key(family: Family, domain: FailureDomain) -> str:
    return f"{family.value}/{domain.kind.value}/{domain.name}"


class AffectedNode(Struct, frozen=True):
    """A node with active faults of one family.

    - `since`, `code` and `subject` describe the latest of these faults: when it started, its fault code, and the remote
      object that it names, such as a switch.
    - `first` is when the oldest of these faults started; None means the same time as `since`.
    - `sites` has the first observation of each catalog row that describes these faults. `out` nodes do not serve.
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
    sites: Mapping[str, FaultSite] = field(default_factory=dict)
    out: bool = False


class ClusterSnapshot(Struct, frozen=True):
    """The state of one cluster from which incidents are derived; `sizes` are those of failure domains.

    `knows_intake` is True if it was determined whether records of the cluster arrive at all.
    """

    stack_id: str
    cluster: str
    affected: tuple[AffectedNode, ...] = ()
    sizes: Mapping[FailureDomain, int] = field(default_factory=dict)
    history: OnsetHistory = field(default_factory=OnsetHistory)
    knows_intake: bool = False
    catalog: Catalog = field(default_factory=lambda: Catalog(""))

    def of_family(self, family: Family) -> tuple[AffectedNode, ...]:
        """Return the nodes that have an active fault of this family."""
        return tuple(one for one in self.affected if one.family is family)

    def without(self, exempt: Collection[tuple[Family, str]]) -> ClusterSnapshot:
        """Return the snapshot without the affected nodes in `exempt`, pairs of a fault family and a node."""
        return replace(self, affected=tuple(one for one in self.affected if (one.family, one.node) not in exempt))


def without_records(
    affected: Iterable[AffectedNode], cluster: str, overdue: Iterable[str], since: datetime
) -> tuple[AffectedNode, ...]:
    """Return a cluster's affected nodes, and those with overdue heartbeats, for a failed intake.

    The intake, the path of records to the table, is then their failure domain. The time `since` of the last record
    identifies the outage: it opens at most one incident, even if that is closed or reaches its maximum age.
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


_KINDS = list(DomainKind)


class SharedCause(Struct, frozen=True):
    """A failure domain of `of` nodes, of which the affected may have failed because of one shared cause."""

    domain: FailureDomain
    affected: tuple[AffectedNode, ...]
    of: int

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the affected nodes."""
        return frozenset(one.node for one in self.affected)


def needs_sizes(affected: Iterable[AffectedNode], limits: CorrelationLimits) -> bool:
    """Return whether enough nodes of one domain have faults of one family, so that sizes must be read."""
    families: dict[Family, list[AffectedNode]] = {}
    for one in affected:
        families.setdefault(one.family, []).append(one)
    nodes = (members for found in families.values() for members in by_domain(found).values())
    return any(len(members) >= limits.nodes for members in nodes)


def find_shared_causes(
    snapshot: ClusterSnapshot, affected: Iterable[AffectedNode], limits: CorrelationLimits, now: datetime
) -> tuple[SharedCause, ...]:
    """Return the failure domains that explain the faults of these nodes.

    All faults are of one fault family. The failure domains that exceed the limits are tried from the widest to the
    narrowest:

    - A domain is skipped if the results so far contain at least `limits.explains` percent of its affected nodes.
    - If the domain is the intake (the path of records to the table), this domain is a result.
    - For any other domain, the result is the narrowest domain that exceeds the limits and contains at least
      `limits.explains` percent of the affected nodes of the tried domain. This can be the tried domain itself.
    """
    found = (
        SharedCause(domain, burst, max(snapshot.sizes.get(domain, 0), len(members)))
        for domain, members in by_domain(affected).items()
        for burst in [_largest_burst(members, limits)]
    )
    suspicious = sorted((one for one in found if _exceeds_limits(one, snapshot, limits, now)), key=_width)
    chosen: list[SharedCause] = []
    explained: frozenset[str] = frozenset()
    for cause in reversed(suspicious):
        if not _explains(explained, cause, limits):
            intake_failed = cause.domain.kind is DomainKind.INTAKE
            winner = cause if intake_failed else next(one for one in suspicious if _explains(one.names, cause, limits))
            chosen.append(winner)
            explained |= winner.names
    return tuple(chosen)


def _largest_burst(members: Iterable[AffectedNode], limits: CorrelationLimits) -> tuple[AffectedNode, ...]:
    """Return the largest, then latest, group of nodes whose faults started within `limits.window`."""
    ordered = sorted(members, key=lambda one: (one.since, one.node))
    largest: tuple[int, int] = (0, 0)
    first = 0
    for last, one in enumerate(ordered):
        while ordered[first].since < one.since - limits.window:
            first += 1
        if last - first + 1 >= largest[1] - largest[0]:
            largest = first, last + 1
    return tuple(ordered[largest[0] : largest[1]])


def _exceeds_limits(cause: SharedCause, snapshot: ClusterSnapshot, limits: CorrelationLimits, now: datetime) -> bool:
    number = len(cause.affected)
    if cause.domain.kind is DomainKind.INTAKE:
        return True  # the sweep decided that no records arrive
    if number < limits.nodes or number * 100 < limits.percent * cause.of:
        return False
    family = cause.affected[0].family
    expected = snapshot.history.expected(family, cause.domain, cause.of, limits.window, now)
    return is_unlikely(number, expected, limits.odds)


def _explains(names: frozenset[str], cause: SharedCause, limits: CorrelationLimits) -> bool:
    return len(names & cause.names) * 100 >= limits.explains * len(cause.names)


def _width(cause: SharedCause) -> tuple[int, int, str]:
    return cause.of, _KINDS.index(cause.domain.kind), cause.domain.name
