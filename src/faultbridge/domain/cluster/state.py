"""Cluster state: the recorded status of a cluster, its repair slots, and its queue of cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.cluster.breakers import Breaker, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.incidents import Hold
from faultbridge.domain.cluster.provider_status import ProviderCondition
from faultbridge.domain.cluster.vacancies import Vacancy
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind, Head, NodeKey


class ClusterStatus(StrEnum):
    """The status of a cluster, computed from its nodes and from the conditions that its provider reports."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The last recorded status of a cluster, the number of nodes in each status, and open incidents.

    - `provider` are the open conditions that the cluster's provider reports.
    - `target` is how many nodes the groups of the cluster should have. It is 0 until the provider reports it.
    - `verified` is the number of nodes in service that Faultbridge has verified.
    - `occupied` has, by name, the nodes in service that the provider started, updated or tested at its last report, so
      that they got no work. The value is True if Faultbridge never verified the node.
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


class Eviction(NamedTuple):
    """A drain that evicts the work of a node: the fault code of its case, and when its repair was admitted."""

    code: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Control:
    """The repair slots of a cluster, and everything that blocks new repairs.

    - `version` rises with each change. An admission is written only if `version` has not changed since it was read.
    - `holders` maps each case that has a repair slot to the time at which it took the slot.
    - `starts` are the times of repair starts, up to an hour before the last start.
    - `breakers` contains, by name, every breaker that has ever opened.
    - `no_capacity_until` maps each group without EC2 capacity to the time until which its replacements wait.
    - `events` maps each control to the id of its last entry, which the next entry about this control can name as its
      cause. The keys are the names of breakers and holds, and `budget` and `pause`.
    - `holds` maps the id of each incident that is open, or was closed recently, to its `Hold`.
    - `unverified` counts the nodes with the mark "never verified", except retired nodes.
    - `permits` maps the name of each node that the isolation budget keeps out of service to the time of its permit.
    - `evictions` maps each case whose repair drained a node within the last hour to the fault code and the time.
      `eviction_limits` are the fault codes for which no further lost node may be drained now.
    - `vacancies` are the nodes without an instance. They are read from the rows of the nodes, and not stored here.
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
    permits: Mapping[str, datetime] = field(default_factory=dict)
    evictions: Mapping[str, Eviction] = field(default_factory=dict)
    eviction_limits: tuple[str, ...] = ()
    vacancies: tuple[Vacancy, ...] = ()

    def breaker(self, domain: str | None) -> Breaker | None:
        """Return the strictest breaker that limits repairs in a failure domain, or None if none does.

        The breaker of the whole cluster is considered, and the breaker of `domain` unless `domain` is None. A closed
        breaker limits no repair.
        """
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
        self,
        node: str,
        domains: Collection[FailureDomain],
        families: Collection[Family],
        *,
        repeated_since: datetime | None = None,
    ) -> str | None:
        """Return the id of the incident for which the repair of a node waits, or None if it need not wait.

        `domains` are the failure domains of the node, and `families` the families of its faults. The incident must
        cover the node (`Hold.covers`). A family does not count if an expired incident of this family exempts the node.

        If the repair follows a failed attempt, `repeated_since` is when the case was opened; otherwise it is None. Such
        a repair also waits for incidents of other families, because their cause may explain the failed attempt. It does
        not wait for another family if an incident of that family in `domains` has expired since the case was opened.
        """
        exempt = {hold.family for hold in self.holds.values() if node in hold.exempt}
        if repeated_since is not None:
            live = [hold for hold in self.holds.values() if hold.ended_at is None]
            expired = {hold.family for hold in live if hold.domain in domains and hold.expired_since(repeated_since)}
            families = {*families, *(hold.family for hold in live if hold.family not in expired)}
        held = [family for family in families if family not in exempt]
        return next((name for name, hold in sorted(self.holds.items()) if hold.covers(domains, held)), None)

    def expired_incident_with(self, node: str, families: Collection[Family]) -> str | None:
        """Return the id of an expired incident, not closed yet, that explains why a node fails, or None.

        `families` are the families of the node's faults. An incident of the intake affects every node.
        """
        live = {name: hold for name, hold in sorted(self.holds.items()) if not hold.holding and hold.ended_at is None}
        intake = {name for name, hold in live.items() if hold.domain.kind is DomainKind.INTAKE}
        explaining = (n for n, hold in live.items() if node in hold.exempt or (n in intake and hold.family in families))
        return next(explaining, None)

    def closed_incident_of(self, domains: Collection[FailureDomain], since: datetime) -> str | None:
        """Return the id of an incident in these failure domains that was closed at `since` or later, or None."""
        closed = ((name, hold) for name, hold in self.holds.items() if hold.domain in domains)
        return min((name for name, hold in closed if hold.ended_at and hold.ended_at >= since), default=None)

    def expired_incident_of(self, domains: Collection[FailureDomain]) -> str | None:
        """Return the id of an expired incident in these failure domains, or None if there is none.

        An expired incident is still open, but repairs no longer wait for it because it has reached its maximum age.
        """
        expired = {name for name, hold in self.holds.items() if not hold.holding and hold.ended_at is None}
        return min((name for name in expired if self.holds[name].domain in domains), default=None)


@dataclass(frozen=True, slots=True)
class QueuedCase:
    """One case in the repair queue, with the values that decide its admission.

    - `case` is the id of the case. `priority` 0 is the most urgent.
    - `since` is when the case was first queued. For a case that has waited for an incident, `since` is when the case
      was opened.
    - `not_before` is the earliest time of the next attempt, or None.
    - `approved` is True if an operator approved the next attempt. `approval_pending` is True while the approval request
      is unanswered.
    - `waiting_for` is the kind of reason why the case waits. `reason` is the reason as text for operators.
    - `needs_permit` is True if the node still serves and the isolation budget must permit its isolation.
    - `lost` is the fault code that ended the work of a lost node which no repair has drained yet, else None.
    - `repeated_since` is when the case was opened, or None if the next attempt does not follow a failed attempt.
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
    repeated_since: datetime | None = None
    needs_permit: bool = False
    lost: str | None = None
