"""Cluster state: the recorded status of a cluster, its repair slots, and the cases that wait for a slot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.cluster.breakers import Breaker, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.incidents import Hold
from faultbridge.domain.cluster.provider_status import ProviderCondition
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import Head, NodeKey


class ClusterStatus(StrEnum):
    """The status of a cluster, derived from the statuses of its nodes."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The last recorded status of a cluster, the number of its nodes in each status, and its open incidents.

    `provider` are the open conditions that its provider reports. `target` is how many nodes its groups should have; it
    is 0 until the provider was asked. `verified` is how many of the nodes in service Faultbridge has verified.
    `occupied` are nodes in service that the provider itself keeps work off, each with whether it was never verified.
    """

    cluster: str
    head: Head = field(default_factory=Head)
    status: ClusterStatus | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    incidents: tuple[str, ...] = ()
    provider: tuple[ProviderCondition, ...] = ()
    target: int = 0
    verified: int = 0
    occupied: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Control:
    """The repair slots of a cluster, and everything that blocks new repairs.

    Every admission is written under the condition that `version` is unchanged.
    `holders` maps each case with a slot to the time since which it holds the slot. `starts` are recent repair starts.
    `breakers` holds every breaker that has opened before, by name. `no_capacity_until` maps each group without
    provider capacity to the time of the next try. `events` maps each breaker, `budget`, `pause` and hold to the id of
    its last entry, which causes the next one. `holds` has an entry for each incident that is not closed, and for a
    recently closed one, by incident id. `unverified` counts the registered nodes that were never verified.
    """

    cluster: str
    version: int = 0
    holders: Mapping[str, datetime] = field(default_factory=dict)
    starts: tuple[datetime, ...] = ()
    paused: bool = False
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    no_capacity_until: Mapping[str, datetime] = field(default_factory=dict)
    budget_used_up: bool = False
    events: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    unverified: int = 0

    def breaker(self, domain: str | None) -> Breaker | None:
        """Return the strictest open or half-open breaker for nodes of a failure domain, or None."""
        if not self.breakers:
            return None
        names = [breaker_name(BreakerScope.CLUSTER)]
        names += [breaker_name(BreakerScope.DOMAIN, domain)] if domain else []
        tripped = [self.breakers[name] for name in names if name in self.breakers]
        order = list(BreakerState)
        # A breaker that stays open is stricter than one that becomes half open by itself.
        strictest = max(tripped, key=lambda breaker: (order.index(breaker.state), breaker.stays_open), default=None)
        return None if strictest is None or strictest.state is BreakerState.CLOSED else strictest

    def incident_of(
        self, node: str, domains: Collection[FailureDomain], families: Collection[Family], *, repeated: bool = False
    ) -> str | None:
        """Return the id of the incident that holds the repair of a node, by its domains and families, or None.

        A `repeated` repair, which follows a failed one, waits for an incident of any family: the shared cause explains
        the failure. After the maximum age it waits for no further incident of the family and the domain.
        """
        exempt = {hold.family for hold in self.holds.values() if node in hold.exempt}
        if repeated:
            live = [hold for hold in self.holds.values() if hold.ended_at is None]
            expired = {hold.family for hold in live if not hold.holding and hold.domain in domains}
            families = {*families, *(hold.family for hold in live if hold.family not in expired)}
        held = [family for family in families if family not in exempt]
        return next((name for name, hold in sorted(self.holds.items()) if hold.covers(domains, held)), None)

    def expired_incident_of(self, domains: Collection[FailureDomain]) -> str | None:
        """Return the id of an incident of one of these failure domains that has outlasted its maximum age, or None."""
        expired = {name for name, hold in self.holds.items() if not hold.holding and hold.ended_at is None}
        return min((name for name in expired if self.holds[name].domain in domains), default=None)


@dataclass(frozen=True, slots=True)
class QueuedCase:
    """One case in the repair queue, as admission reads it.

    `priority` 0 is the most urgent; `since` is when the case was first queued. `approved` is set when an operator
    approved the next attempt, `approval_pending` while the approval request is unanswered. `reason` is why it waits.
    `repeated` is set if the next attempt follows a failed one.
    """

    key: NodeKey
    case: str
    repair_action: RepairAction
    priority: int
    since: datetime
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    rule: str = ""
    domain: str | None = None
    group: str | None = None
    approved: bool = False
    approval_pending: bool = False
    reason: str = ""
    domains: tuple[FailureDomain, ...] = ()
    families: tuple[Family, ...] = ()
    repeated: bool = False
