"""Write filter: decide whether a node's changed state must be stored when no entry records the change.

One write per minute for each healthy node would be most of a fleet's cost. Watermarks (the times of the reporters' last
reports) and counts are therefore stored with limited precision. A watermark is stored if it is later than the stored
one by more than

- 10 minutes for the last health snapshot of a source that asserts no condition. If the time of each snapshot is also
  written with a heartbeat of the node, two hours are enough: a worker that receives an older snapshot with a fault then
  reads the time of the latest snapshot from the heartbeat;
- 1 minute for a repeated report of a condition;
- 15 minutes, or a tenth of the quiet period if that is shorter, for a driver error that a log can never withdraw.

A count is stored when it has doubled, and at each increase while a policy rule with a minimum count is not satisfied.

Only the memory of a worker has the exact state. If the worker stops, the stored state has three defects:

- `count` is only a lower bound.
- A condition may end too early, at most by the precision of its watermarks, because its quiet period starts at the
  stored time.
- A faulty health snapshot that SQS delivers after a clean one of the same 10 minutes opens a condition, which the next
  snapshot clears. This does not happen if the time of the clean snapshot was written with a heartbeat.
"""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.catalog import Catalog, Kind
from faultbridge.model.conditions import Condition, row_of, source_of
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace

SNAPSHOT_PRECISION = timedelta(minutes=10)
LOGGED_SNAPSHOT_PRECISION = timedelta(hours=2)
"""Precision of a snapshot whose time is written with a heartbeat."""

REPORT_PRECISION = timedelta(minutes=1)
LOG_REPORT_PRECISION = timedelta(minutes=15)
QUIET_PERIOD_DIVISOR = 10

LOG_SOURCES = frozenset({"kernel-log", "fabric-manager-log"})
LOG_CODES = ("xid.", "sxid.")
"""Prefixes of the codes that a log reports but never withdraws, unless the catalog's kind is `level`."""


def must_write(before: NodeState, after: NodeState, policy: Policy, catalog: Catalog, *, logged: bool = False) -> bool:
    """Return whether a state changed by more than its precision, which is lower for `logged` snapshot times."""
    if replace(after, conditions=before.conditions, snapshots=before.snapshots, due_at=before.due_at) != before:
        return True
    if after.conditions.keys() != before.conditions.keys() or after.snapshots.keys() != before.snapshots.keys():
        return True
    precision = LOGGED_SNAPSHOT_PRECISION if logged else SNAPSHOT_PRECISION
    return _snapshot_changed(before, after, precision) or any(
        _condition_changed(before.conditions[key], condition, policy, catalog)
        for key, condition in after.conditions.items()
    )


def _snapshot_changed(before: NodeState, after: NodeState, precision: timedelta) -> bool:
    asserting = {source_of(reporter) for condition in after.conditions.values() for reporter in condition.reporters}
    return any(
        at - before.snapshots[key] > (timedelta(0) if key.partition("#")[0] in asserting else precision)
        for key, at in after.snapshots.items()
    )


def _condition_changed(before: Condition, after: Condition, policy: Policy, catalog: Catalog) -> bool:
    if before == after:
        return False
    if after.reporters.keys() != before.reporters.keys():
        return True
    if after.count >= 2 * before.count or (policy.needs_count(before, after.last_at) and after.count > before.count):
        return True
    reporters = {}
    for key, reporter in after.reporters.items():
        stored = before.reporters[key]
        if reporter.last_at - stored.last_at > _precision(after, key, catalog):
            return True
        reporters[key] = replace(
            reporter, last_at=stored.last_at, digests=stored.digests, count=stored.count, hours=stored.hours
        )
    unchanged = replace(after, last_at=before.last_at, count=before.count, reporters=reporters)
    return unchanged != before


def _precision(condition: Condition, reporter: str, catalog: Catalog) -> timedelta:
    from_log = source_of(reporter) in LOG_SOURCES and row_of(reporter).startswith(LOG_CODES)
    if not from_log or catalog.row(row_of(reporter)).kind is not Kind.EDGE:
        return REPORT_PRECISION
    quiet = condition.quiet_for
    return LOG_REPORT_PRECISION if quiet is None else min(LOG_REPORT_PRECISION, quiet / QUIET_PERIOD_DIVISOR)
