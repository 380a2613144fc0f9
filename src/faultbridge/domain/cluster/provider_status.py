"""What a provider reports about a whole cluster and its groups: conditions, desired sizes and updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.group_updates import GroupUpdate


class ConditionKind(StrEnum):
    """What a condition of a cluster or group is about, such as a failed launch or a running update."""

    CLUSTER_FAILED = "cluster_failed"
    ROLLING_BACK = "rolling_back"
    GROUP_FAILED = "group_failed"
    LIFECYCLE_SCRIPT = "lifecycle_script"
    NO_CAPACITY = "no_capacity"
    EFA_CHECK = "efa_check"
    LAUNCH_FAILED = "launch_failed"
    RIVAL_REPAIR = "rival_repair"
    NO_PROVIDER_REPAIR = "no_provider_repair"
    UPDATING = "updating"
    UPDATE_OVERDUE = "update_overdue"


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


@dataclass(frozen=True, slots=True)
class RepairSetting:
    """The setting that decides whether a provider's own automation repairs nodes.

    `repairs` is True if the automation repairs nodes. `name` names the automation in texts for operators. `change` is
    the command that changes the setting.
    """

    repairs: bool
    name: str
    change: str


@dataclass(frozen=True, slots=True)
class ProviderCondition:
    """One condition that the provider reports about a cluster, or about a group of it.

    `message` is the provider's text. `since` is when Faultbridge first recorded the condition.
    """

    kind: ConditionKind
    message: str
    group: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What the provider reports about one group of instances.

    `desired` is the desired number of instances. `complete` is True if at least this number is in service. `update` is
    an update that the owner of the group started. `occupied` contains the ids of the instances that the provider
    starts, updates or tests, so that no job can run on them.
    """

    desired: int
    complete: bool
    update: GroupUpdate | None = None
    occupied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProviderStatus:
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
