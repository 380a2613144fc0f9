"""Shared causes: failure domains in which an unlikely number of nodes start to fail at the same time.

Faults are compared within one fault family.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.incidents import CorrelationLimits
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.pipeline.correlate.chance import is_unlikely
from faultbridge.pipeline.correlate.snapshot import AffectedNode, ClusterSnapshot, by_domain

_KINDS = list(DomainKind)


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A failure domain whose nodes may have failed because of one shared cause.

    `affected` are its nodes with faults that started close together, and `of` is the number of all its nodes.
    """

    domain: FailureDomain
    affected: tuple[AffectedNode, ...]
    of: int

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the affected nodes."""
        return frozenset(one.node for one in self.affected)


def needs_sizes(affected: Iterable[AffectedNode], limits: CorrelationLimits) -> bool:
    """Return whether the sizes of failure domains must be read.

    The sizes are needed only if enough nodes for an incident in one domain have faults of the same family.
    """
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
    """Return the largest group of nodes whose faults started within `limits.window` of each other.

    Of several groups of this size, the latest is returned.
    """
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
