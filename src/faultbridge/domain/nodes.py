"""Nodes: a node in a cluster and the incarnation that sits in it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from faultbridge.domain.cases import Case
from faultbridge.domain.conditions import Condition, Tombstone, worst_severity
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.faults import Component, Severity


class NodeKey(NamedTuple):
    """Which node."""

    cluster: str
    node: str

    @property
    def stream(self) -> str:
        """Return the name of the node's stream of entries."""
        return f"{self.cluster}/{self.node}"


class Isolation(StrEnum):
    """Whether new work is kept off a node; separate from repair.

    `not_applicable` is a node taken out of service where no orchestrator exists that could keep work off it.
    """

    NONE = "none"
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The instance and boot in a node; `instance` and `boot` count from 1, `since` is when it was first known."""

    instance: int
    boot: int
    instance_id: str | None
    boot_id: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Head:
    """Where a stream stands: its last sequence, hash and event id within an epoch, and the version of its owner."""

    version: int = 0
    epoch: int = 1
    sequence: int = 0
    hash: str = ""
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """What is known of the place a node fills, whoever sits in it.

    `domains` are its failure domains by kind, `domain` the narrowest of them; `host_names` are names of the machine
    that sits there now and go with it, `aliases` stay; `slot` is the provider's own lasting name of the node.
    """

    group: str | None = None
    instance_type: str | None = None
    domain: str | None = None
    aliases: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    host_names: tuple[str, ...] = ()
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """That a node is to be left alone: who said so (a person's ARN, or `label`), since and until when, and why."""

    by: str
    since: datetime
    until: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything that decides what happens next to one node.

    `conditions` is keyed by `condition_key`; `tombstones` and `floor` keep a late observation of an ended one from
    counting again; `snapshots` holds the time of the last health snapshot of each looker; `noted` the day on which an
    informational code was last put on the record. `case` is the latest one, live or not: at most one live case a
    node, by construction. `isolation_since` is when isolation was asked for, `isolation_overdue` says that a person
    was told how long it takes. A call that failed is made again at `isolation_again_at`, after `isolation_tries` calls.
    `orchestrator_lost_at` is since when no call about the node was answered.
    `put_off_until` is when a case may be opened that was put off because the node was to be left alone.
    """

    key: NodeKey
    head: Head = Head()
    status: NodeStatus | None = None
    placement: Placement = Placement()
    incarnation: Incarnation | None = None
    former_instances: tuple[str, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)
    floor: datetime | None = None
    snapshots: Mapping[str, datetime] = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Component, ...] = ()
    case: Case | None = None
    isolation: Isolation = Isolation.NONE
    isolation_since: datetime | None = None
    isolation_overdue: bool = False
    isolation_tries: int = 0
    isolation_again_at: datetime | None = None
    orchestrator_lost_at: datetime | None = None
    unverified: bool = False
    ignored: Ignored | None = None
    put_off_until: datetime | None = None
    due_at: datetime | None = None

    @property
    def registered(self) -> bool:
        """Tell whether the node exists; ingest never creates one."""
        return self.status is not None

    @property
    def live_case(self) -> Case | None:
        """Return the case that still needs somebody."""
        return self.case if self.case is not None and self.case.status.live else None

    @property
    def severity(self) -> Severity | None:
        """Return the worst severity active on the node."""
        return worst_severity(self.active())

    def active(self) -> Iterator[Condition]:
        """Return the conditions that a reporter still asserts."""
        return (condition for condition in self.conditions.values() if condition.active)
