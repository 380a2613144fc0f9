"""Isolation budget: how many nodes of a cluster, and of each failure domain, may take no new work at once.

The rule is pure; `repair/isolation_permits.py` applies it to the table. A permit is needed to isolate a node that still
serves (`domain.isolation.needs_permit`). Lost nodes need none, but they count: while they use up the budget, no other
node is taken out of service, except one at a time, the most severe first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.cluster.config import FailureDomain

LEAVES_AFTER = timedelta(hours=24)
"""A node whose case is escalated, or that is ignored, for longer than this is not expected to serve."""

MIN_EVICTIONS = 2
"""At least this many lost nodes of a cluster may be drained for one failure mode within an hour."""


class BudgetNode(Struct, frozen=True):
    """A node that does not simply serve, as the isolation budget counts it.

    - `domains` are its failure domains, including the cluster.
    - `out` is True if the node takes no new work. `holds` is True if it holds a permit for that.
    - `waits` is True if the node still serves and needs a permit. `urgency` sorts the waiting nodes: the most severe
      fault first, then the oldest case.
    - `expected` is False if the node never served, or is left to an operator (`LEAVES_AFTER`).
    - `returns_after` is the origin of the incident for which its case waits: the node returns only after that is out.
    """

    name: str
    domains: Sequence[FailureDomain]
    out: bool
    holds: bool = False
    waits: bool = False
    urgency: tuple[int, str] = (0, "")
    expected: bool = True
    returns_after: str | None = None


class DomainUse(Struct, frozen=True):
    """One domain's use: nodes `out`, nodes not expected (`left`), a held permit, the first waiting node."""

    out: int
    left: int
    holds: bool
    first: tuple[tuple[int, str], str] | None


@dataclass(frozen=True, slots=True)
class IsolationUse:
    """The use of a cluster's isolation budget by nodes that do not simply serve; at least one node may be out.

    A failure domain without a size refuses no node. `evicts` is False without an orchestrator, so that nothing is
    drained.
    """

    nodes: tuple[BudgetNode, ...]
    sizes: Mapping[FailureDomain, int]
    percent: int
    evicts: bool = True
    counted: dict[FailureDomain, DomainUse] = field(default_factory=dict, compare=False, repr=False)

    def limit(self, domain: FailureDomain) -> int:
        """Return how many nodes of a failure domain may take no new work at once."""
        return max(1, self.percent * (self.sizes.get(domain, 0) - self._count(domain).left) // 100)

    def out(self, domain: FailureDomain) -> int:
        """Return how many of the expected nodes of a failure domain take no new work."""
        return self._count(domain).out

    def refusal(self, name: str, domains: Iterable[FailureDomain]) -> str | None:
        """Return why a node may not be taken out of service now, or None if a permit can be given.

        A failure domain in which no node holds a permit does not refuse its most severe waiting node, so that lost
        nodes do not block every other repair. For the origin of an incident, the nodes that wait for it do not count.
        """
        waiting = tuple(one for one in self.nodes if one.returns_after == name)
        if waiting:
            others = tuple(one for one in self.nodes if one not in waiting)
            return IsolationUse(others, self.sizes, self.percent, evicts=self.evicts).refusal(name, domains)
        own = next((one.domains for one in self.nodes if one.name == name and one.out and one.expected), ())
        for domain in domains:
            # A node that others cordoned takes no new work already, so it does not stand in its own way.
            out, limit = self.out(domain) - (domain in own), self.limit(domain)
            if domain in self.sizes and out >= limit and not self._is_exception(name, domain):
                return f"the isolation budget of {domain.text} is used up: {out} of {limit}"
        return None

    def _is_exception(self, name: str, domain: FailureDomain) -> bool:
        used = self._count(domain)
        if used.holds:
            return False
        if used.first is None or used.first[1] == name:
            return True
        # The node may wait although its row does not say so, because its repair asks for the permit.
        own = next((one.urgency for one in self.nodes if one.name == name and domain in one.domains), None)
        return own is not None and (own, name) < used.first

    def _count(self, domain: FailureDomain) -> DomainUse:
        found = self.counted.get(domain)
        if found is None:
            inside = [one for one in self.nodes if domain in one.domains]
            found = self.counted[domain] = DomainUse(
                out=sum(one.out and one.expected for one in inside),
                left=sum(not one.expected for one in inside),
                holds=any(one.holds and one.expected for one in inside),
                first=min(((one.urgency, one.name) for one in inside if one.waits and one.expected), default=None),
            )
        return found


def eviction_limit(use: IsolationUse, cluster: FailureDomain) -> int:
    """Return how many lost nodes of a cluster may be drained for one failure mode within an hour."""
    return max(MIN_EVICTIONS, use.limit(cluster))


def is_expected(*, joining: bool, left_at: datetime | None, now: datetime) -> bool:
    """Return whether a node is expected to serve: it served before, and is not left to an operator for a day."""
    return not joining and (left_at is None or now - left_at <= LEAVES_AFTER)


def domain_sizes(members: Iterable[Iterable[FailureDomain]]) -> Counter[FailureDomain]:
    """Count the nodes of each failure domain; `members` has the domains of each registered node."""
    return Counter(domain for domains in members for domain in domains)
