"""Cluster state: the recorded status of a cluster, its repair slots, and its queue of cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from faultbridge.model.cluster.config import FailureDomain, GroupUpdate
from faultbridge.model.cluster.incidents import Hold
from faultbridge.model.cluster.silences import Silence
from faultbridge.model.cluster.vacancies import Vacancy
from faultbridge.model.enums import BreakerScope, ClusterStatus, ConditionKind, DomainKind
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import Head
from faultbridge.model.stored import Stored

CLUSTER_BREAKER = "cluster"
_DOMAIN = "domain:"


class BreakerState(StrEnum):
    """Circuit breaker states: `closed` permits all repairs, `half_open` a few, `open` none."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class BreakerLimit(Struct, frozen=True):
    """The settings of a circuit breaker that stops repairs when many nodes fail.

    - The breaker opens when at least `nodes` nodes, and at least `percent` percent of the counted nodes, fail at once.
    - An open breaker closes when no further node has failed for `quiet`. If the failing nodes still reach both `nodes`
      and `percent` then, it becomes half open instead.
    - A half-open breaker permits `trial` repairs at a time. It closes when the failing nodes do not reach both limits.
      Before that, it opens again with the first failed attempt of a repair, or if another node fails.
    - A breaker that opens for the `openings`th time within a day stays open until no node fails or an operator closes
      it.
    """

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: int = 5
    percent: int = 20
    quiet: timedelta = timedelta(minutes=10)
    trial: int = 1
    openings: int = 3


class Breaker(Stored, frozen=True):
    """The state of one circuit breaker, when it entered the state, and node counts.

    - `failing` is the number of failing nodes, and `of` the number of all nodes that the breaker counts. An order of an
      operator does not update them.
    - Cases that were opened up to `ignored_before` do not count, because an operator closed the breaker at that time.
    - `opened` lists when the breaker opened, up to a day before its last opening. It is empty after an operator closed
      the breaker.
    - `stays_open` is True if the breaker opened too often within a day (`BreakerLimit.openings`). It then stays open
      until no node fails or an operator closes it.
    - `trial` is how many repairs a half-open breaker permits at a time.
    - `incident` is the id of the expired incident whose nodes opened the breaker, or None. The page of this incident
      covers the breaker, so the breaker sends no page.
    """

    state: BreakerState
    since: datetime
    trial: int = 1
    failing: int = 0
    of: int = 0
    ignored_before: datetime | None = None
    opened: tuple[datetime, ...] = ()
    stays_open: bool = False
    incident: str | None = None


def breaker_name(scope: BreakerScope, domain: str | None = None) -> str:
    """Return the name of the cluster's circuit breaker, or of the breaker of the failure domain `domain`."""
    return CLUSTER_BREAKER if scope is BreakerScope.CLUSTER else f"{_DOMAIN}{domain}"


def domain_of(name: str) -> str | None:
    """Return the failure domain in a breaker's name, or None if the breaker counts the whole cluster."""
    return name.removeprefix(_DOMAIN) if name.startswith(_DOMAIN) else None


LAUNCHES = frozenset(
    {ConditionKind.LIFECYCLE_SCRIPT, ConditionKind.NO_CAPACITY, ConditionKind.EFA_CHECK, ConditionKind.LAUNCH_FAILED}
)
"""Kinds about an instance that did not start. They end when their group is complete."""

NEEDS_OPERATOR = frozenset(
    {
        ConditionKind.CLUSTER_FAILED,
        ConditionKind.GROUP_FAILED,
        ConditionKind.LIFECYCLE_SCRIPT,
        ConditionKind.RIVAL_REPAIR,
        ConditionKind.NO_PROVIDER_REPAIR,
        ConditionKind.UPDATE_OVERDUE,
    }
)
"""Kinds that do not end by themselves: a failed state stays, a failing script fails again, and a setting stays.

An update that takes too long needs an operator as well, because repairs no longer wait for it."""


class RepairSetting(Stored, frozen=True):
    """The setting that decides whether a provider's own automation repairs nodes.

    `repairs` is True if the automation repairs nodes. `name` names the automation in texts for operators. `change` is
    the command that changes the setting.
    """

    repairs: bool
    name: str
    change: str


class ProviderCondition(Stored, frozen=True):
    """One condition that the provider reports about a cluster, or about a group of it.

    `message` is the provider's text. `since` is when Faultbridge first recorded the condition.
    """

    kind: ConditionKind
    message: str
    group: str | None = None
    since: datetime | None = None


class GroupStatus(Stored, frozen=True):
    """What the provider reports about one group of instances.

    `desired` is the desired number of instances. `complete` is True if at least this number is in service. `update` is
    an update that the owner of the group started. `occupied` contains the ids of the instances that the provider
    starts, updates or tests, so that no job can run on them.
    """

    desired: int
    complete: bool
    update: GroupUpdate | None = None
    occupied: frozenset[str] = frozenset()


class ProviderStatus(Stored, frozen=True):
    """What the provider reports about a cluster: conditions, existing groups, and its repair automation.

    `repair` is the setting of the provider's own repair automation, or None if the provider reports none.
    """

    conditions: tuple[ProviderCondition, ...] = ()
    groups: Mapping[str, GroupStatus] = field(default_factory=dict)
    repair: RepairSetting | None = None

    def is_complete(self, group: str | None) -> bool:
        """Return whether a group has its desired number of instances in service.

        If `group` is None, all reported groups must be complete. A group that the provider does not report counts as
        complete.
        """
        named = [status for name, status in self.groups.items() if group in {None, name}]
        return all(status.complete for status in named)


class ClusterState(Stored, frozen=True):
    """The last recorded status of a cluster, the number of nodes in each status, and open incidents.

    - `provider` are the open conditions that the cluster's provider reports.
    - `target` is how many nodes the groups of the cluster should have. It is 0 until the provider reports it.
    - `verified` is the number of nodes in service that Faultbridge has verified.
    - `occupied` has, by name, the nodes in service that the provider started, updated or tested at its last report, so
      that they got no work. The value is True if Faultbridge never verified the node.
    - `cordoned` are the names of the nodes that others than Faultbridge kept new work from at the last inventory.
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
    cordoned: tuple[str, ...] = ()


class Eviction(NamedTuple):
    """A drain that evicts the work of a node: the failure mode that lost it, and when its repair was admitted."""

    mode: str
    at: datetime


class Pause(Stored, frozen=True):
    """A person's order to start no new repairs in a cluster: since when, why, and until when.

    If `until` is None, only an order ends the pause.
    """

    since: datetime
    reason: str = ""
    until: datetime | None = None


class Control(Stored, frozen=True):
    """The repair slots of a cluster, and everything that blocks new repairs.

    - `version` rises with each change. An admission is written only if `version` has not changed since it was read.
    - `holders` maps each case that has a repair slot to the time at which it took the slot.
    - `starts` are the times of repair starts, up to an hour before the last start.
    - `pauses` maps each person who paused repairs to the pause. Repairs are paused while there is one.
    - `silences` maps the id of each silence that has not ended to the silence. It holds pages, not repairs.
    - `breakers` contains, by name, every breaker that has ever opened.
    - `no_capacity_until` maps each group without EC2 capacity to the time until which its replacements wait.
    - `events` maps each control to the id of its last entry, which the next entry about this control can name as its
      cause. The keys are the names of breakers and holds, the ids of silences, and `budget` and `pause`.
    - `holds` maps the id of each incident that is open, or was closed recently, to its `Hold`.
    - `unverified` counts the nodes with the mark "never verified", except retired nodes.
    - `permits` maps the name of each node that the isolation budget keeps out of service to the time of its permit.
    - `evictions` maps each case whose repair drained a node within the last hour to the failure mode and the time.
      `eviction_limits` are the failure modes for which no further lost node may be drained now.
    - `vacancies` are the nodes without an instance. They are read from the rows of the nodes, and not stored here.
    """

    cluster: str
    version: int = 0
    holders: Mapping[str, datetime] = field(default_factory=dict)
    starts: tuple[datetime, ...] = ()
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    silences: Mapping[str, Silence] = field(default_factory=dict)
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

    @property
    def paused(self) -> bool:
        """Return whether a person paused new repairs."""
        return bool(self.pauses)

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

    def origin_of(self, incident: str | None) -> str | None:
        """Return the node of the origin of an open incident, or None if it is unknown."""
        hold = self.holds.get(incident) if incident else None
        return next(iter(hold.exempt), None) if hold is not None and hold.holding else None

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


SPARE = "spare-"
"""The prefix of `Spare.owner`, the tag of a spare instance until the instance is assigned to a case."""

VERIFIED_FOR = timedelta(hours=24)
"""The validity of a passed verification of an idle spare."""


def is_taken(tag: str | None, case: str | None = None) -> bool:
    """Return whether the case tag of a spare's instance names another case than `case`.

    The provider's tag is newer than a table that was restored from a backup: the instance may serve a node.
    """
    return tag not in {None, case} and not str(tag).startswith(SPARE)


class SpareStatus(StrEnum):
    """The status of one spare, which is a numbered position of a cluster's spare pool."""

    EMPTY = "empty"
    LAUNCHING = "launching"
    VERIFYING = "verifying"
    READY = "ready"
    TAKEN = "taken"
    ENDING = "ending"


class Spare(Stored, frozen=True):
    """One numbered position of a cluster's spare pool, which is empty or has an instance.

    `round` counts the launches for this spare. `verifications` is part of the token of a verification, and differs
    between the verifications of one instance. A `ready` spare passed its last verification at `verified_at`. A `taken`
    spare is reserved for the case with the id `case`. The verifier `refused_by`
    cannot verify the last instance of the spare.
    """

    cluster: str
    number: int
    group: str
    status: SpareStatus = SpareStatus.EMPTY
    since: datetime | None = None
    round: int = 0
    verifications: int = 0
    instance_id: str | None = None
    instance_type: str | None = None
    operation: str | None = None
    verified_at: datetime | None = None
    case: str | None = None
    reason: str = ""
    refused_by: str | None = None
    version: int = 0

    @property
    def owner(self) -> str:
        """Return the tag value of an instance that is launched for this spare in its current round.

        The tag of an instance that is launched for a repair contains the id of the case instead.
        """
        return f"{SPARE}{self.cluster}-{self.number}-{self.round}"

    def serves(self, group: str, now: datetime) -> bool:
        """Return whether the spare is ready, belongs to `group`, and has a valid verification.

        A passed verification is valid for `VERIFIED_FOR`.
        """
        fresh = self.verified_at is not None and now - self.verified_at < VERIFIED_FOR
        return self.status is SpareStatus.READY and self.group == group and fresh
