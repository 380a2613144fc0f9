"""Vacancies: nodes without an instance, and how they limit the repair slots and the releases of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from faultbridge.model.enums import NodeStatus, RepairAction
from faultbridge.model.nodes import NodeState
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

MAX_OWED = timedelta(minutes=15)
"""After a group has owed a successor for this long, no further instance of the group is released."""

_VACANT = frozenset({NodeStatus.PROVISIONING, NodeStatus.QUARANTINED, NodeStatus.DRAINING, NodeStatus.FAILED})


class Vacancy(NamedTuple):
    """A node whose instance is gone, or is being released, and whose successor is not attached yet.

    `case` is the live case of the node, or None. `since` is when the instance was gone, or the intent to release it.
    `released` is False from the intent until the release is confirmed.
    """

    node: str
    group: str | None
    case: str | None
    since: datetime
    released: bool = True


def vacant_since(state: NodeState) -> datetime | None:
    """Return since when a node has no instance, or is losing its instance; None if an instance backs the node."""
    if state.status is NodeStatus.REPLACING:
        attempt = state.live_case.attempt if state.live_case else None
        return attempt.intent.at if attempt and attempt.intent else None
    return state.incarnation.gone_since if state.incarnation and state.status in _VACANT else None


def mark_gone(state: NodeState, since: datetime | None) -> NodeState:
    """Return the node with its instance marked as gone since this time; None marks the instance as present.

    An instance that is marked already keeps its earlier time: a repeated repair of a node must not make its group owe a
    successor for a shorter time.
    """
    incarnation = state.incarnation
    if incarnation is None:
        return state
    earlier = incarnation.gone_since
    gone_since = min(since, earlier) if since is not None and earlier is not None else since
    return replace(state, incarnation=replace(incarnation, gone_since=gone_since))


def used_up_slots(
    holders: Collection[str], vacancies: Collection[Vacancy], node: str, action: RepairAction, limit: int
) -> str | None:
    """Return why a repair of `node` gets none of `limit` repair slots, or None. `holders` are the cases with a slot.

    A repair that waits for a successor gives its slot to repairs that release no instance. For a repair that releases
    one, each vacancy counts, also if its case has no slot.
    """
    reason = "the policy's limit of concurrent repairs is reached"
    if not releases(vacancies, node, action):
        waiting = {vacancy.case for vacancy in vacancies if vacancy.released}
        return reason if sum(case not in waiting for case in holders) >= limit else None
    if len(holders) >= limit:
        return reason
    used = len({*holders, *(vacancy.case or vacancy.node for vacancy in vacancies)})
    return f"{reason}: nodes without an instance count" if used >= limit else None


def owed_successor(
    vacancies: Collection[Vacancy], node: str, group: str | None, action: RepairAction, now: datetime
) -> str | None:
    """Return why a repair of `node` may release no instance of `group`: the group has owed a successor too long.

    Returns None if the group owes no successor for `MAX_OWED`, or if the repair releases no instance.
    """
    released = (vacancy for vacancy in vacancies if vacancy.released and vacancy.node != node)
    owed = [vacancy for vacancy in released if vacancy.group == group and vacancy.since <= now - MAX_OWED]
    if not owed or group is None or not releases(vacancies, node, action):
        return None
    oldest = min(owed, key=lambda vacancy: vacancy.since)
    return f"{group} has launched no successor for {oldest.node} since {to_text(oldest.since)}"


def releases(vacancies: Iterable[Vacancy], node: str, action: RepairAction) -> bool:
    """Return whether a repair leaves one more node without an instance: it replaces a node that still has one."""
    gone = any(vacancy.node == node and vacancy.released for vacancy in vacancies)
    return action is RepairAction.REPLACE_NODE and not gone
