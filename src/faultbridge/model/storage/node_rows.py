"""Rows: what the table lists about nodes of a cluster that need work, so that a query finds them.

A row follows from the state of a node (`storage.projections`) and is written with it. Its attributes are the fields of
its class here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct, field

from faultbridge.model.cluster.config import ClusterConfig, FailureDomain, failure_domains
from faultbridge.model.cluster.incidents import FaultSite
from faultbridge.model.cluster.vacancies import Vacancy
from faultbridge.model.enums import NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Family, Severity
from faultbridge.model.nodes import NodeKey
from faultbridge.model.stored import Stored
from faultbridge.model.values import replace


class FamilyFaults(Stored, frozen=True):
    """The active faults of one family on a node.

    `code` and `since` are those of the condition that started last, and `first` is the start of the oldest condition.
    `subject` is the remote object, such as a switch, of the latest condition that names one. `sites` has the first
    observation of each of up to 8 catalog rows that describe the faults.
    """

    code: str
    since: datetime
    first: datetime
    subject: str | None = None
    sites: Mapping[str, FaultSite] = field(default_factory=dict)


class UnhealthyNode(Stored, frozen=True):
    """A registered node that is neither healthy nor retired.

    - `case` is the id of its live case, which opened at `opened` for the fault `code` that `sources` report.
    - `event` is the id of the entry of its last status change, and `updated_at` when the row was written.
    - `deferred_until` is when a postponed case may open, `ended` the last end of a fault, and `failed_step` when the
      step started that failed its last repair attempt.
    - `incident` is the id of the cluster incident that explains why the node is unhealthy. With `repeated`, its case
      waits for a repair that follows a failed one. With `awaits_correlation`, its case may still become part of one.
    - `not_drained` is a failure mode for which too many lost nodes were drained, so that this one waits.
    - `isolated` nodes take no new work. `needs_permit` is True for a node that serves and whose isolation the budget
      must permit. A `joining` node has never served. It left the nodes that are expected to serve at `left_at`.
    - `vacant` is since when it has no instance.
    """

    node: str
    status: NodeStatus
    severity: Severity | None = None
    group: str | None = None
    domain: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[Family, FamilyFaults] = field(default_factory=dict)
    case: str | None = None
    opened: datetime | None = None
    event: str | None = None
    unverified: bool = False
    deferred_until: datetime | None = None
    incident: str | None = None
    ended: datetime | None = None
    failed_step: datetime | None = None
    repeated: bool = False
    awaits_correlation: bool = False
    code: str | None = None
    sources: tuple[str, ...] = ()
    not_drained: str | None = None
    isolated: bool = False
    needs_permit: bool = False
    joining: bool = False
    left_at: datetime | None = None
    vacant: datetime | None = None
    updated_at: datetime | None = None

    @property
    def repeated_since(self) -> datetime | None:
        """Return when the case opened if its next repair follows a failed one, else None."""
        return self.opened if self.repeated else None

    def failure_domains(self, config: ClusterConfig) -> tuple[FailureDomain, ...]:
        """Return the failure domains of the node, narrowest first."""
        return failure_domains(config.cluster, self.node, self.domain, self.domains, config.domains)


class RosterNode(Struct, frozen=True):
    """A node as the list of all nodes describes it; `retired` if it was removed from the cluster for good."""

    node: str
    group: str | None = None
    domain: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None
    retired: bool = False

    def failure_domains(self, config: ClusterConfig) -> tuple[FailureDomain, ...]:
        """Return the failure domains of the node, narrowest first."""
        return failure_domains(config.cluster, self.node, self.domain, self.domains, config.domains)


class HeldCase(Stored, frozen=True):
    """A case that waits for an incident."""

    node: str
    case: str
    incident: str | None
    opened: datetime


class NamedNode(Stored, frozen=True):
    """A node whose isolation is requested, or that is cordoned although it serves."""

    node: str


class FalseClaims(Stored, frozen=True):
    """The claims about a node that were refuted or expired: by source and code, until when they are only notes."""

    node: str
    until: Mapping[str, datetime]


class QueuedCase(Stored, frozen=True):
    """One case in the repair queue, with the values that decide its admission.

    - `case` is the id of the case. `priority` 0 is the most urgent.
    - `since` is when the case was first queued. For a case that has waited for an incident, `since` is when the case
      was opened.
    - `not_before` is the earliest time of the next attempt, or None.
    - `approved` is True if an operator approved the next attempt. `approval_pending` is True while the approval request
      is unanswered.
    - `waiting_for` is the kind of reason why the case waits. `reason` is the reason as text for operators.
    - `needs_permit` is True if the node still serves and the isolation budget must permit its isolation.
    - `lost` is the failure mode that ended the work of a lost node which no repair has drained yet, else None.
    - `repeated_since` is when the case was opened, or None if the next attempt does not follow a failed attempt.
    - `capacity_since` is since when the case finds no capacity, or work holds its repair, until an operator was paged.
    - `placed` are the failure domains of the node by kind. `domains` follow from them and the registration of the
      cluster when the row is read; they are not stored.
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
    placed: Mapping[str, str] = field(default_factory=dict)
    capacity_since: datetime | None = None

    def placed_by(self, config: ClusterConfig) -> QueuedCase:
        """Return the case with the failure domains of its node."""
        domains = failure_domains(config.cluster, self.key.node, self.domain, self.placed, config.domains)
        return replace(self, domains=domains)


def read_vacancies(rows: Iterable[UnhealthyNode]) -> tuple[Vacancy, ...]:
    """Return the nodes without an instance."""
    return tuple(
        Vacancy(row.node, row.group, row.case, row.vacant, row.status is not NodeStatus.REPLACING)
        for row in rows
        if row.vacant is not None
    )
