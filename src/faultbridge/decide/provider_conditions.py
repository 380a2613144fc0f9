"""Provider conditions: what a provider reports about a cluster, and pauses of repairs for updates.

The provider's current state opens and ends conditions. An event can open only conditions about failed launches
(`LAUNCHES`). Such a condition is open only while the provider's state shows that the group lacks nodes.

A group in a capacity block that ends soon counts as updated: EC2 terminates its instances before the end of the block.

An update of a group replaces or reboots nodes on purpose. Until the update and a grace period are over, an absent node
of the group opens no case, and only verifications start in the group. Every other fault opens its case, whose repair
then waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from faultbridge.decide.normalize.mask_secrets import mask
from faultbridge.model.cluster.config import GroupUpdate, UpdateHold
from faultbridge.model.cluster.state import LAUNCHES, NEEDS_OPERATOR, ProviderCondition, ProviderStatus
from faultbridge.model.enums import ConditionKind
from faultbridge.model.policy import Limits
from faultbridge.model.safe_text import visible_line
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace

ENDS_WITHIN = timedelta(hours=1)
"""A capacity block ends soon at this time before its end. EC2 starts to terminate its instances half an hour before."""

MAX_MESSAGE = 300
MAX_CONDITIONS = 20
"""Limit of the conditions of a cluster, so that its entry stays small."""


def open_conditions(
    stored: Iterable[ProviderCondition], reported: Iterable[ProviderCondition], status: ProviderStatus, now: datetime
) -> tuple[ProviderCondition, ...]:
    """Return the open conditions of a cluster, at most one of each kind per group.

    `stored` were open before, `reported` come from events, and `status` is the provider's current state. A condition
    keeps its first message. At most `MAX_CONDITIONS` are returned, those that need an operator first.
    """
    stored = tuple(stored)
    launches = [one for one in (*stored, *reported) if one.kind in LAUNCHES and not status.is_complete(one.group)]
    known = {(one.kind, one.group): one for one in stored}
    found: dict[tuple[ConditionKind, str | None], ProviderCondition] = {}
    for one in (*launches, *status.conditions):
        key = (one.kind, one.group)
        found.setdefault(key, known.get(key) or replace(one, message=_message(one.message), since=now))
    ordered = sorted(found, key=lambda key: (key[0] not in NEEDS_OPERATOR, key[0], key[1] or ""))
    return tuple(found[key] for key in ordered[:MAX_CONDITIONS])


def target_size(expected: int, registered: Mapping[str, int], status: ProviderStatus) -> int:
    """Return the cluster's size: its nodes until they are retired, and those that its groups lack."""
    return expected + sum(max(status.groups[name].desired - registered.get(name, 0), 0) for name in status.groups)


def with_ending_blocks(
    status: ProviderStatus, blocks: Mapping[str, Iterable[str]], ends: Mapping[str, datetime], now: datetime
) -> ProviderStatus:
    """Return the provider's status in which each group in a capacity block that ends soon, or has ended, is updated.

    `blocks` are the ids of the capacity blocks in which the nodes of each group run, and `ends` is when a block ends.
    """
    groups = dict(status.groups)
    for name, ids in blocks.items():
        ending = [(ends[one], one) for one in ids if one in ends and ends[one] - ENDS_WITHIN <= now]
        if ending and name in groups and groups[name].update is None:
            end, block = min(ending)
            text = f"capacity block {block} ends at {to_text(end)}"
            groups[name] = replace(groups[name], update=GroupUpdate(text, end - ENDS_WITHIN))
    return replace(status, groups=groups)


def _message(text: str) -> str:
    shown = visible_line(mask(text.encode(errors="replace")).decode(errors="replace"))
    return shown if len(shown) <= MAX_MESSAGE else shown[: MAX_MESSAGE - 3] + "..."


def next_holds(
    stored: Iterable[UpdateHold], registered: Mapping[str, int], status: ProviderStatus, limits: Limits, now: datetime
) -> tuple[UpdateHold, ...]:
    """Return the pauses of repairs that must be stored, at most one for each group.

    `registered` has the number of registered nodes of each group. `status` is the provider's report.

    A pause starts with the update of a group. It ends with the grace period after the update, or at its deadline. If
    the update ends after the deadline, repairs pause again for the grace period. An ended pause delays no repairs, but
    it stays stored in two cases:

    - The pause reached its deadline during the update. It is stored until the update ends, so that the same update
      starts no second pause and is reported as overdue.
    - The group has more registered nodes than its desired size. The pause is stored for at most `update_deadline` more,
      while the nodes that the update replaced are retired.
    """
    before = {one.group: one for one in stored}
    updates = {name: group.update for name, group in status.groups.items() if group.update is not None}
    found = (
        _running(name, updates[name], before.get(name), limits, now)
        if name in updates
        else _ended(before[name], limits, now, surplus=_has_surplus(name, registered, status))
        for name in sorted({*before, *updates})
    )
    return tuple(one for one in found if one is not None)


def _has_surplus(group: str, registered: Mapping[str, int], status: ProviderStatus) -> bool:
    reported = status.groups.get(group)
    return reported is not None and registered.get(group, 0) > reported.desired


def update_conditions(
    holds: Iterable[UpdateHold], status: ProviderStatus, now: datetime
) -> Iterator[ProviderCondition]:
    """Yield `updating`, or `update_overdue` past the pause's deadline, for each group in an update."""
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


def _ended(before: UpdateHold, limits: Limits, now: datetime, *, surplus: bool) -> UpdateHold | None:
    """Return the pause of repairs of a group whose update has ended, or None if it need not be stored.

    The pause lasts until the end of the grace period, which starts when the end of the update is first seen. A group
    with more nodes than its desired size (`surplus`) keeps the pause stored for a further `update_deadline`.
    """
    until = now + limits.update_grace if before.running else before.until
    stored_until = until + limits.update_deadline if surplus else until
    return replace(before, until=until, running=False) if stored_until > now else None
