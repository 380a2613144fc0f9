"""Group updates rule: which updates of groups hold repairs, until when, and which conditions of a cluster show them.

An update replaces or reboots nodes on purpose. Until it and a grace period are over, an absent node opens no case, and
no repair starts in its group. Every other fault opens its case, which then waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from faultbridge.domain.cluster.group_updates import GroupUpdate, UpdateHold
from faultbridge.domain.cluster.provider_status import ConditionKind, ProviderCondition, ProviderStatus
from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.policy import Limits
from faultbridge.domain.times import to_text, truncate

LEAVING_CODES = frozenset({"cloud.instance_gone", "cloud.instance_stopped"})
"""Codes of an instance that its owner terminates or stops."""


def is_absence(condition: Condition) -> bool:
    """Return whether a condition only reports that a node is absent, as an update makes it."""
    return condition.family is Family.HEARTBEAT or condition.code in LEAVING_CODES


def next_holds(
    stored: Iterable[UpdateHold], status: ProviderStatus, limits: Limits, now: datetime
) -> tuple[UpdateHold, ...]:
    """Return the holds of a cluster's groups, by group name, after its provider reported `status`.

    A hold whose update exceeds the deadline is kept as long as the update lasts, so that it does not begin again.
    """
    before = {one.group: one for one in stored}
    updates = {name: group.update for name, group in status.groups.items() if group.update is not None}
    found = (
        _running(name, updates[name], before.get(name), limits, now)
        if name in updates
        else _ended(before[name], limits, now)
        for name in sorted({*before, *updates})
    )
    return tuple(one for one in found if one is not None)


def update_conditions(
    holds: Iterable[UpdateHold], status: ProviderStatus, now: datetime
) -> Iterator[ProviderCondition]:
    """Yield a condition for each group that is updated: `update_overdue` once its hold has ended."""
    for hold in holds:
        group = status.groups.get(hold.group)
        if not hold.running or group is None or group.update is None:
            continue
        if hold.until > now:
            text = f"{group.update.text}; repairs of its nodes wait until {to_text(hold.until)} at the latest"
            yield ProviderCondition(ConditionKind.UPDATING, text, hold.group)
        else:
            text = f"{group.update.text} since {to_text(hold.since)}; repairs of its nodes no longer wait for it"
            yield ProviderCondition(ConditionKind.UPDATE_OVERDUE, text, hold.group)


def _running(name: str, update: GroupUpdate, before: UpdateHold | None, limits: Limits, now: datetime) -> UpdateHold:
    known = before.since if before is not None and before.running else now
    since = truncate(update.since) if update.since is not None else known
    return UpdateHold(name, since, since + limits.update_deadline)


def _ended(before: UpdateHold, limits: Limits, now: datetime) -> UpdateHold | None:
    """Return the hold of an update that is over: its grace period, or None if nothing is left to wait for."""
    until = min(before.until, now + limits.update_grace)
    return replace(before, until=until, running=False) if until > now else None
