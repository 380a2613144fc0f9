"""Expire: conditions that end without anybody saying so, because time passed or what they clung to is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.domain.cases import REPAIR_ACTION_OF, RepairAction
from faultbridge.domain.catalog import Catalog, Scope
from faultbridge.domain.conditions import Condition
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.fold.changes import Folded
from faultbridge.pipeline.fold.folding import Folding

ENDED_BY: Mapping[RepairAction, frozenset[Scope]] = {
    RepairAction.VERIFY: frozenset({Scope.PROCESS}),
    RepairAction.RESET_GPU: frozenset({Scope.PROCESS}),
    RepairAction.REBOOT_NODE: frozenset({Scope.PROCESS, Scope.BOOT}),
    RepairAction.REPLACE_NODE: frozenset(Scope),
}
"""What a repair action puts right, once a verification has passed after it."""


def end_scopes(state: NodeState, scopes: Iterable[Scope], *, at: datetime, reason: str) -> Folded:
    """End every condition that clings to what is gone: a reboot ends those of the process and the boot."""
    ending = frozenset(scopes)
    return _end(state, at, reason, lambda condition: at if condition.scope in ending else None)


def end_verified(state: NodeState, repair_action: RepairAction, *, at: datetime) -> Folded:
    """End what a passed verification proves gone: what the repair action before it puts right, and what asked for no more."""
    proven, order = {"verified", repair_action.value}, list(RepairAction)

    def ends_at(condition: Condition) -> datetime | None:
        wanted = REPAIR_ACTION_OF.get(condition.action)
        enough = wanted is not None and order.index(wanted) <= order.index(repair_action)
        gone = enough or condition.scope in ENDED_BY[repair_action] or not proven.isdisjoint(condition.ends_on)
        return at if gone else None

    return _end(state, at, f"verified after {repair_action.value}", ends_at)


def outdate(state: NodeState, *, before: datetime) -> NodeState:
    """Let nothing begin that was seen on a successor before its verification began: all of it was proven good.

    What a machine said while nobody knew it comes late, when its records are tried again. What ended earlier needs no
    tombstone any more, which would let something begin again that was seen after its end.
    """
    floor = before if state.floor is None else max(state.floor, before)
    left = {key: one for key, one in state.tombstones.items() if max((one.ended_at, *one.reporters.values())) > floor}
    return replace(state, floor=floor, tombstones=left)


def expire(state: NodeState, *, now: datetime) -> Folded:
    """End the conditions that have been quiet for as long as the catalog asks."""
    return _end(state, now, "policy: quiet", quiet_until)


def quiet_until(condition: Condition) -> datetime | None:
    """Return when a condition ends if nothing more is heard of it, or None where silence ends nothing."""
    quiet = quiet_for(condition)
    return None if quiet is None else condition.last_at + quiet


def quiet_for(condition: Condition) -> timedelta | None:
    """Return how long a condition must be quiet to end, or None where silence ends nothing."""
    seconds = [int(end.removeprefix("quiet:")) for end in condition.ends_on if end.startswith("quiet:")]
    return timedelta(seconds=min(seconds)) if seconds else None


def _end(state: NodeState, now: datetime, reason: str, ends_at: Callable[[Condition], datetime | None]) -> Folded:
    folding = Folding(state, Catalog(""))
    for key, condition in tuple(folding.conditions.items()):
        at = ends_at(condition)
        if at is not None and at <= now:
            folding.end(key, condition, at, reason)
    return Folded(folding.state(), tuple(folding.changes))
