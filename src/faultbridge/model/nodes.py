"""Nodes: a node's complete state, its aliases, its placement and the instance that backs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, field

from faultbridge.model.cases import FAILED_STEP, Case, Phase
from faultbridge.model.conditions import Condition, Tombstone, component_key, worst_severity
from faultbridge.model.enums import CaseStatus, DomainKind, Isolation, NodeStatus, RepairAction, Resolution
from faultbridge.model.fault_enums import ComponentType, Family, Severity
from faultbridge.model.faults import Component
from faultbridge.model.stored import Stored


class Probation(Stored, frozen=True):
    """One repaired fault of a node that is in service again.

    `case_id` is the case that was closed with `repair_action`. `instance` is the number of the node's instance after
    the repair. The probation applies to that instance until `until`.
    """

    case_id: str
    code: str
    component: Component
    repair_action: RepairAction
    instance: int
    until: datetime
    family: Family | None = None
    mode: str = ""

    def is_relapse(self, condition: Condition) -> bool:
        """Return whether a condition has the failure mode, the family or the device of the repaired fault.

        The device is not compared after a replacement of the instance, because the new instance has another device,
        even if it has the same PCI address. It is also not compared if the repaired fault was about the node itself.
        """
        if condition.mode == self.mode or (self.family is not None and condition.family is self.family):
            return True
        shared = self.repair_action is RepairAction.REPLACE_NODE or self.component.type is ComponentType.NODE
        return not shared and component_key(condition.component) == component_key(self.component)


VOLUME_TAG = "faultbridge:volume"
"""The tag of volumes that a repair may detach; a policy names its values."""


class MovingVolume(Stored, frozen=True):
    """A volume that a repair detaches from `instance_id` and attaches to the node's next instance.

    If the old instance returns to service, the volume is attached to that instance again. `device` is None if the
    provider selects the device name.
    """

    volume_id: str
    zone: str
    instance_id: str
    device: str | None = None


def left_behind(names: Sequence[str], recorded: Sequence[MovingVolume]) -> str:
    """Return a hint for operators about the volumes of an instance that another controller terminated.

    The hint is added to the reason of a case. An operator must then attach the remaining volumes to the next instance.
    `names` are the values of the volume tag that the policy names. `recorded` are the volumes that a repair recorded.
    If there are recorded volumes, the hint is empty, because the repair attaches them. Without `names`, no volume is
    moved, and the hint is empty too.
    """
    if not names or recorded:
        return ""
    return f"; its volumes with the tag {VOLUME_TAG} ({', '.join(names)}) were not recorded: attach those that remain"


class NodeKey(NamedTuple):
    """The identity of a node: cluster name and node name."""

    cluster: str
    node: str

    @property
    def stream(self) -> str:
        """Return the name of the node's entry stream, `cluster/node`."""
        return f"{self.cluster}/{self.node}"


class Incarnation(Stored, frozen=True):
    """The instance and the boot that back a node from `since` until `gone_since`, each numbered from 1."""

    instance: int
    boot: int
    instance_id: str | None
    boot_id: str | None
    since: datetime
    gone_since: datetime | None = None


class Head(Stored, frozen=True):
    """The end of an entry stream: the last sequence, hash and event id of the current epoch.

    `version` is the version of the table item of the node or cluster that owns the stream.
    """

    version: int = 0
    epoch: int = 1
    sequence: int = 0
    hash: str = ""
    event_id: str | None = None


class Placement(Stored, frozen=True):
    """Where a node is (its group, instance type and failure domains), and its other names.

    `domains` holds the failure domains by kind that the inventory reports, `domain` the narrowest of them, and
    `declared` those that an operator declared, as of the last change of the node's faults. `host_names` change with the
    instance. `aliases`, and `slot` (the provider's id of the node), stay the same. `named_after` is the id of the last
    instance whose host name was the node's name. It is None if there was no such instance.
    """

    group: str | None = None
    instance_type: str | None = None
    domain: str | None = None
    aliases: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    host_names: tuple[str, ...] = ()
    slot: str | None = None
    named_after: str | None = None


class Ignored(Stored, frozen=True):
    """An exclusion of a node from repairs (the node is ignored), with the period and the reason.

    `by` is an operator's ARN, or `label` for a tag of the instance or a label of the Kubernetes node `kubernetes_node`.
    """

    by: str
    since: datetime
    until: datetime | None = None
    reason: str = ""
    kubernetes_node: str | None = None


class CaseEvent(NamedTuple):
    """The event id of a case's latest entry, which the case's next entry names as its cause."""

    case_id: str
    event_id: str


class NodeState(Stored, frozen=True):
    """The complete state of one node, which is the input of every decision about it.

    Conditions: `conditions` is keyed by `condition_key`. `tombstones` (times of ended conditions), `evicted` and
    `floor` keep a late observation from opening an ended condition again (`fold.attribution`). `snapshots` maps
    each reporter to its last health snapshot, and `noted` each daily note to its last day (`fold.daily_notes`).
    `damped` maps a source and a fault code to the time until which claims of the source with the code are only notes
    (`fold.claims`).

    Case: `case` is the latest case, live or closed; a node has at most one live case. If a fault may not open a case
    now, for example because the node is ignored, it may open one at `case_deferred_until`.

    Isolation: `isolation_since` is when isolation was requested. `isolation_overdue` is set once operators were
    notified that isolation takes too long. A failed call is repeated at `isolation_again_at`; `isolation_tries` counts
    the failed calls. `orchestrator_lost_at` is when the orchestrator stopped answering calls about the node.
    `discouraged` is set while the orchestrator prefers other nodes, because the node waits for a permit.
    `isolation_number` counts the changes of the isolation: an answer of the orchestrator is recorded only if nothing
    changed since the call. `withdrawals` are the times of the last withdrawals of a cordon.
    `permitted_at` is when the isolation budget of the cluster permitted the isolation; None if it needed no permit.

    Causation: the last entry of the latest case (`case_event`) and of the last status change (`status_event`).

    `probations` are the repaired faults whose return requires the next stronger repair action. `custody` lists the
    devices that were recorded for the current instance. `catalog` is the version by which its conditions have modes.
    `shard` is the cluster's shard that stores the rows of the node. `jobs` are the ids of the jobs that run on the
    node. `moving_volumes` are detached and not yet attached again.
    """

    key: NodeKey
    head: Head = Head()
    status: NodeStatus | None = None
    shard: int = 0
    placement: Placement = Placement()
    incarnation: Incarnation | None = None
    former_instances: tuple[str, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)
    floor: datetime | None = None
    evicted: Mapping[str, datetime] = field(default_factory=dict)
    snapshots: Mapping[str, datetime] = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)
    damped: Mapping[str, datetime] = field(default_factory=dict)
    devices: tuple[Component, ...] = ()
    case: Case | None = None
    isolation: Isolation = Isolation.NONE
    isolation_since: datetime | None = None
    isolation_overdue: bool = False
    isolation_tries: int = 0
    isolation_again_at: datetime | None = None
    isolation_number: int = 0
    withdrawals: tuple[datetime, ...] = ()
    permitted_at: datetime | None = None
    discouraged: bool = False
    orchestrator_lost_at: datetime | None = None
    unverified: bool = False
    ignored: Ignored | None = None
    case_deferred_until: datetime | None = None
    due_at: datetime | None = None
    case_event: CaseEvent | None = None
    status_event: str | None = None
    probations: tuple[Probation, ...] = ()
    catalog: str = ""
    custody: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    moving_volumes: tuple[MovingVolume, ...] = ()

    @property
    def registered(self) -> bool:
        """Return whether the node was registered, by an operator or by the inventory."""
        return self.status is not None

    @property
    def instance_id(self) -> str | None:
        """Return the id of the instance that backs the node, or None if it is not known."""
        return self.incarnation.instance_id if self.incarnation else None

    @property
    def repaired_at(self) -> datetime | None:
        """Return when the last case closed after a verified repair, if the node serves since without an error."""
        case = self.case
        serves = self.status is not None and self.status.in_service and self.live_case is None
        if case is None or not serves or case.resolution not in {Resolution.REPAIRED, Resolution.REPLACED}:
            return None
        faulty = any(one.severity.rank >= Severity.ERROR.rank for one in self.active())
        return None if faulty else case.closed_at

    @property
    def live_case(self) -> Case | None:
        """Return the node's case that is not closed, or None."""
        case = self.case
        return case if case is not None and case.status.live else None

    @property
    def failed_step_at(self) -> datetime | None:
        """Return when the step started that failed the last repair attempt, or None. Verifications do not count."""
        case = self.live_case
        if case and case.attempt and case.status is CaseStatus.ESCALATED and case.repair_action.needs_slot:
            return case.attempt.since
        return case.marks.get(FAILED_STEP) if case else None

    @property
    def severity(self) -> Severity | None:
        """Return the worst severity of the active conditions, or None if there is none."""
        return worst_severity(self.active())

    def active(self) -> Iterator[Condition]:
        """Return the conditions that at least one reporter asserts."""
        return (condition for condition in self.conditions.values() if condition.active)


class Alias(NamedTuple):
    """A further name of a node, such as an instance id or a host name.

    Aliases of the kind `instance` are unique in the installation, and aliases of the kind `name` in their cluster.
    """

    kind: str
    value: str


class AliasRow(Stored, frozen=True):
    """The node that an alias refers to, and the period in which the alias is valid."""

    key: NodeKey
    instance_id: str | None
    valid_from: datetime
    valid_to: datetime | None = None


NETWORK_LAYERS = (
    DomainKind.NETWORK_NODE,
    DomainKind.NETWORK_NODE_2,
    DomainKind.NETWORK_NODE_3,
    DomainKind.NETWORK_NODE_4,
)
"""The layers of switches above an instance, the nearest first."""


def narrowest(domains: Mapping[str, str]) -> str | None:
    """Return the narrowest failure domain that is known, or None if no domain is known."""
    return next((domains[kind] for kind in DomainKind if domains.get(kind)), None)


# Repeated repairs: whether a repair follows a failed attempt, and which faults the new instance has.
#
# A cause that the node shares with its neighbors, such as a dead switch, also makes the verification of a healthy
# instance fail. A repeated repair therefore also waits for an incident in its failure domains even if the node has no
# fault of the incident's family.

_TRIED = frozenset({Phase.INTENT.value, Phase.VERIFYING.value})
"""The phases that an attempt reaches only if it acts on the instance or verifies it."""


def is_repeated(state: NodeState) -> bool:
    """Return whether the next repair of a node follows a failed attempt of its case.

    An attempt counts if it reached its intent or its verification.

    Returns False for a canceled case, because its node is only verified. Returns False if the node's old instance is
    already released, because the repair then only waits for the successor.
    """
    case = state.live_case
    if case is None or case.cancelled or state.status is NodeStatus.PROVISIONING:
        return False
    return not _TRIED.isdisjoint(case.marks)


def is_replaced(state: NodeState) -> bool:
    """Return whether the live case replaced the instance, and the new instance is in its first boot."""
    case, incarnation = state.live_case, state.incarnation
    if case is None or incarnation is None or Phase.INTENT.value not in case.marks:
        return False
    first_boot = incarnation.instance > 1 and incarnation.boot == 1  # another boot is still the same instance
    return first_boot and incarnation.since >= case.opened_at


def is_former(state: NodeState, condition: Condition) -> bool:
    """Return whether a condition was last observed on an instance that the live case has replaced."""
    since = state.incarnation.since if state.incarnation else None
    return is_replaced(state) and since is not None and condition.last_at <= since


def is_faulty(state: NodeState) -> bool:
    """Return whether an active condition of the node's current instance requires a case."""
    return any(one.action.opens_case and not is_former(state, one) for one in state.active())


class Instance(Struct, frozen=True):
    """One instance, as its provider and its orchestrator describe it; unknown values are None or empty.

    - `names` are all names under which records refer to the instance, the provider's preferred name first.
    - `domains` are the failure domains by kind. `has_all_domains` is False if these must be read again later.
    - `slot` is the provider's permanent id of the node that the instance backs (HyperPod's logical id).
    - `opted_out` is True if a tag or label excludes the instance from repair. `opt_out_node` is the name of the
      Kubernetes node with this label, or None if a tag excludes the instance.
    - `cordoned` is True if the orchestrator gives the instance no new work for a reason that is not Faultbridge's.
    - `role_id` is the id of the IAM role in the instance profile.
    """

    instance_id: str
    names: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    instance_type: str | None = None
    launched_at: datetime | None = None
    slot: str | None = None
    opted_out: bool = False
    opt_out_node: str | None = None
    has_all_domains: bool = True
    role_id: str | None = None
    cordoned: bool = False

    @property
    def opt_out(self) -> str | bool:
        """Return the Kubernetes node whose label excludes the instance, True if a tag excludes it, else False."""
        return (self.opt_out_node or True) if self.opted_out else False

    @property
    def name(self) -> str:
        """Return the provider's preferred name of the instance, or the instance id if it has no name."""
        return self.names[0] if self.names else self.instance_id

    @property
    def domain(self) -> str | None:
        """Return the narrowest failure domain of the instance, such as its nearest switch; None if unknown."""
        return narrowest(self.domains)

    @property
    def zone(self) -> str | None:
        """Return the availability zone of the instance, or None if it is not known."""
        return self.domains.get(DomainKind.ZONE)
