"""Expire: end conditions by time, by a reboot, by a passed verification or by a new instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from faultbridge.decide.fold.changes import Folded
from faultbridge.decide.fold.claims import claim_end, with_damped
from faultbridge.decide.fold.node_conditions import NodeConditions
from faultbridge.decide.fold.write_filter import LOG_REPORT_PRECISION
from faultbridge.model.cases import REPAIR_ACTION_OF
from faultbridge.model.catalog import Catalog, Scope
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import RepairAction
from faultbridge.model.isolation import ORDERED
from faultbridge.model.nodes import NodeState, is_former
from faultbridge.model.values import replace

SCOPES_FIXED_BY: Mapping[RepairAction, frozenset[Scope]] = {
    RepairAction.VERIFY: frozenset({Scope.PROCESS}),
    RepairAction.RESET_GPU: frozenset({Scope.PROCESS}),
    RepairAction.REBOOT_NODE: frozenset({Scope.PROCESS, Scope.BOOT}),
    RepairAction.REPLACE_NODE: frozenset(Scope),
}
"""The scopes whose conditions end when a verification passes after the repair action."""

SCOPES_ENDED_BY_REBOOT = frozenset({Scope.PROCESS, Scope.BOOT})

_UNUSED = Catalog("")
"""An empty catalog. Only new faults are classified by a catalog, and this module only ends conditions."""

ORDERED_QUARANTINE = f"{ORDERED}quarantine"
"""The code of the condition that keeps a node out of service until a later order or a replacement ends it."""

ORDERED_REPLACEMENT = f"{ORDERED}replace"


def end_all(state: NodeState, *, at: datetime, reason: str) -> Folded:
    """End every condition of a node, because its instance was replaced or the node was removed."""
    return _end(state, at, reason, lambda _: at)


def end_boot(state: NodeState, *, before: datetime, now: datetime) -> Folded:
    """End the conditions that a reboot ends: just `before` it, or at their last observation, not after `now`."""
    end = before - timedelta(milliseconds=1)

    def ends_at(condition: Condition) -> datetime | None:
        return min(max(end, condition.last_at), now) if condition.scope in SCOPES_ENDED_BY_REBOOT else None

    return _end(state, now, "reboot", ends_at)


def end_verified(
    state: NodeState,
    repair_action: RepairAction,
    *,
    at: datetime,
    covers: Callable[[str], bool],
    reason: str | None = None,
) -> Folded:
    """End the conditions that the repair action fixed, and those that the verification proves fixed.

    - The repair action fixes conditions with one of the scopes in `SCOPES_FIXED_BY[repair_action]`, and conditions for
      which the catalog names the action as their end.
    - The verification proves only conditions of which `covers` accepts a reported code. Of these, it proves those that
      need `repair_action` or a weaker action, and those that the catalog ends with any passed verification.

    Any other condition stays active.
    """
    order = list(RepairAction)

    def ends_at(condition: Condition) -> datetime | None:
        required = REPAIR_ACTION_OF.get(condition.action)
        sufficient = required is not None and order.index(required) <= order.index(repair_action)
        fixed = condition.scope in SCOPES_FIXED_BY[repair_action] or repair_action.value in condition.ends_on
        proven = any(map(covers, condition.codes)) and (sufficient or "verified" in condition.ends_on)
        return at if fixed or proven else None

    return _end(state, at, reason or f"verification passed after {repair_action.value}", ends_at)


def end_former(state: NodeState, *, at: datetime, reason: str = "") -> Folded:
    """End the conditions of a replaced instance; without a reason, because its successor passed a verification."""
    reason = reason or f"verification passed after {RepairAction.REPLACE_NODE.value}"
    return _end(state, at, reason, lambda condition: at if is_former(state, condition) else None)


def end_claims(state: NodeState, *, at: datetime, covers: Callable[[str], bool]) -> Folded:
    """End the claimed conditions that a passed verification covers, and damp their sources for 24 hours."""
    reason = "diagnostics did not confirm what no proven sender reported"
    ended = _end(state, at, reason, lambda one: at if one.claimed and any(map(covers, one.codes)) else None)
    return _damp(ended, at)


def end_orders(state: NodeState, *, at: datetime) -> Folded:
    """End the conditions that operators' orders opened, because a later order withdraws those orders."""
    reason = "withdrawn by an operator"
    return _end(state, at, reason, lambda condition: at if condition.code.startswith(ORDERED) else None)


def end_unobserved(
    state: NodeState,
    wanted: Callable[[Condition], bool],
    *,
    since: datetime,
    quiet: timedelta,
    now: datetime,
    reason: str,
) -> Folded:
    """End the `wanted` conditions that were certainly not observed for `quiet` after `since`."""

    def ends_at(condition: Condition) -> datetime | None:
        # An observation so soon after the last stored one is not stored.
        observed = condition.last_at + LOG_REPORT_PRECISION
        return now if wanted(condition) and now >= max(since, observed) + quiet else None

    return _end(state, now, reason, ends_at)


def ignore_observations(state: NodeState, *, before: datetime) -> NodeState:
    """Raise the node's floor, the time up to which observations open no condition, to `before`.

    After a passed verification, earlier observations of the instance do not apply, even if their records arrive late.
    """
    return replace(state, floor=before if state.floor is None else max(state.floor, before))


def expire(state: NodeState, *, now: datetime) -> Folded:
    """End each condition that was not observed for its time in the catalog, and each expired claim."""
    quiet = _end(state, now, "no further observation within the quiet period", lambda condition: condition.quiet_until)
    reason = "no proven sender reported it, and no diagnostics confirmed it, within claim_ttl of the first claim"
    claims = _damp(_end(quiet.state, now, reason, lambda condition: claim_end(state, condition)), now)
    damped = {name: until for name, until in claims.state.damped.items() if until > now}
    return replace(claims, state=replace(claims.state, damped=damped), changes=quiet.changes + claims.changes)


def _damp(ended: Folded, now: datetime) -> Folded:
    return replace(ended, state=with_damped(ended.state, filter(None, (one.condition for one in ended.changes)), now))


def _end(state: NodeState, now: datetime, reason: str, ends_at: Callable[[Condition], datetime | None]) -> Folded:
    conditions = NodeConditions(state, _UNUSED)
    for key, condition in tuple(conditions.active.items()):
        at = ends_at(condition)
        if at is not None and at <= now:
            conditions.end(key, condition, at, reason)
    return Folded(conditions.state(), tuple(conditions.changes))
