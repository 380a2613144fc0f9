"""Work: what each active condition of a node does to the work that runs there.

The catalog rows of the active reporters state it. It then depends on the other conditions of the node, and on time:

- What only claims report is at most at risk.
- A sensor that does not answer is no fault of a GPU. Work is at risk if a second sensor fails too, or if checks fail
  for 30 minutes. Repeated reports of one check have its time, so they are no further checks.
- A mode of unaffected work is at risk after its `max_age`.
- A silent node or a link that is down (modes with `lost_after`) is lost by a second fact: EC2 reports that the
  instance is impaired or gone, or a job has reported for `lost_after` that its work is dead.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from faultbridge.decide.fold.expire import ORDERED_QUARANTINE
from faultbridge.model.cases import Case
from faultbridge.model.catalog import LOST, Catalog, Mode, Row, WorkEffect
from faultbridge.model.conditions import Condition, row_of
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.isolation import ORDERED, in_service, losses
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.times import earliest
from faultbridge.model.values import replace

SENSOR = "sensor."
FAILS_FOR, MIN_CHECKS = timedelta(minutes=30), 3
"""A sensor puts work at risk if at least this many of its checks failed, over this time."""

SECOND_FACTS = frozenset({"provider.host_impaired", "provider.instance_impaired", "provider.instance_ended"})
DEAD_WORK = frozenset({"app.collective_failed"})
"""Modes that prove, in their own way, that the work of a node is dead: by EC2, and by its job."""

MAX_WITHDRAWALS, DAY = 3, timedelta(days=1)
"""A node that was cordoned and uncordoned so often within a day stays cordoned until it is verified."""

_ORDER = tuple(reversed(WorkEffect))


def with_work(state: NodeState, catalog: Catalog, now: datetime) -> NodeState:
    """Return the node with what each active condition does to its work now, and when that changes with time."""
    found = {key: (one, _row(one, catalog)) for key, one in state.conditions.items() if one.active}
    changed = {}
    for key, (one, row) in found.items():
        others = [other for name, other in found.items() if name != key]
        work, changes_at = _work(one, row, catalog.modes.get(row.mode), others, now)
        if (work, changes_at) != (one.work, one.work_changes_at):
            changed[key] = replace(one, work=work, work_changes_at=changes_at)
    return replace(state, conditions={**state.conditions, **changed}) if changed else state


def needed_action(condition: Condition, catalog: Catalog) -> Action:
    """Return the action that the source or the catalog requires; a sensor that puts work at risk is diagnosed."""
    action = condition.reported_action or condition.action
    row = _row(condition, catalog)
    failing = row.mode.startswith(SENSOR) and row.work is not condition.work
    return max(action, Action.RUN_DIAGNOSTICS, key=lambda one: one.rank) if failing else action


def _row(condition: Condition, catalog: Catalog) -> Row:
    """Return the row of the active reporters that does most to the work; one that names no device counts last."""
    named = [key for key, one in condition.reporters.items() if one.active and one.unspecific_key is None]
    rows = [catalog.row(row_of(key) or condition.code) for key in named] or [catalog.row(condition.code)]
    return max(rows, key=lambda row: _ORDER.index(row.work))


def _work(
    one: Condition, row: Row, mode: Mode | None, others: Collection[tuple[Condition, Row]], now: datetime
) -> tuple[WorkEffect, datetime | None]:
    work, severe = row.work, one.as_reported.severity.rank >= Severity.ERROR.rank
    if work in LOST:  # after a warning, such as that of a reboot, the node serves again
        return (WorkEffect.PROCESS if not severe else WorkEffect.AT_RISK if one.claimed else work), None
    if mode is None:  # an unknown code: what its source calls an error may end the work
        return (WorkEffect.AT_RISK if severe else work), None
    if work is WorkEffect.UNAFFECTED and mode.name.startswith(SENSOR):
        return (WorkEffect.AT_RISK if _keeps_failing(one) or _second_sensor(row, others) else work), None
    if work is WorkEffect.UNAFFECTED and mode.max_age is not None and one.action.opens_case:
        old_at = one.since + timedelta(seconds=mode.max_age)
        return (WorkEffect.AT_RISK, None) if old_at <= now else (work, old_at)
    if work is WorkEffect.AT_RISK and mode.lost_after is not None and not one.claimed:
        lost_at = _lost_at(mode.lost_after, others)
        return (WorkEffect.NODE, None) if lost_at is not None and lost_at <= now else (work, lost_at)
    return work, None


def _keeps_failing(one: Condition) -> bool:
    return one.count >= MIN_CHECKS and one.last_at - one.since >= FAILS_FOR


def _second_sensor(row: Row, others: Collection[tuple[Condition, Row]]) -> bool:
    return any(other.mode.startswith(SENSOR) and other.mode != row.mode for _, other in others)


def _lost_at(lost_after: int, others: Collection[tuple[Condition, Row]]) -> datetime | None:
    """Return when a second fact proves, or will prove, that a node of an at-risk mode is lost."""
    proven = [(one, row.mode) for one, row in others if one.known_incarnation and not one.claimed]
    return earliest(
        *(one.since for one, mode in proven if mode in SECOND_FACTS),
        *(one.since + timedelta(seconds=lost_after) for one, mode in proven if mode in DEAD_WORK),
    )


def takes_out(state: NodeState, policy: Policy) -> bool:
    """Return whether new work is kept off the node at once: its work is lost or at risk, or an operator ordered it.

    A rule with `isolate: false` forbids it. A condition that needs no case never does.
    """
    return any(one.code == ORDERED_QUARANTINE or _takes_out(state, one, policy) for one in state.active())


def _takes_out(state: NodeState, one: Condition, policy: Policy) -> bool:
    endangers = one.work in LOST or one.work is WorkEffect.AT_RISK
    if not endangers or not one.action.opens_case or not one.known_incarnation:
        return False
    return policy.rule_for(one, state.key.cluster, state.placement.instance_type).isolate


def work_stays(state: NodeState, case: Case) -> bool:
    """Return whether running work stays on the node until it ends by itself.

    It leaves a lost node, and one that an operator ordered out of service, or for whose next repair action an operator
    gave an approval. It may also leave after its job saved a checkpoint (`permit_drain`).
    """
    if losses(state) or any(one.code.startswith(ORDERED) for one in state.active()):
        return False
    if case.approved or case.approves(case.repair_action, case.attempts):
        return False
    permitted = state.conditions.get(case.drain_for) if case.drain_for else None
    if permitted is not None and permitted.active and not permitted.claimed:
        return False
    if any(one.action.opens_case for one in state.active()):
        return True
    return case.claimed or in_service(state)


def permit_drain(state: NodeState, catalog: Catalog) -> NodeState:
    """Return the node after all its jobs answered that they saved a checkpoint.

    Its work may then leave for a proven, active precursor of lost work: a mode with `after_checkpoint: drain`.
    """
    case = state.live_case
    if case is None or case.cancelled:
        return state
    proven = ((key, one) for key, one in state.conditions.items() if one.active and not one.claimed)
    found = next((key for key, one in proven if one.known_incarnation and _drains(one, catalog)), None)
    return state if found is None else replace(state, case=replace(case, drain_for=found))


def _drains(condition: Condition, catalog: Catalog) -> bool:
    mode = catalog.modes.get(_row(condition, catalog).mode)
    return condition.work is WorkEffect.AT_RISK and mode is not None and mode.after_checkpoint == "drain"
