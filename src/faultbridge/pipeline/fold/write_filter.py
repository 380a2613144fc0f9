"""Worth: whether what a node has become must be written, when nothing of it goes on the record.

A write each minute for each healthy node is most of what a fleet would cost. So watermarks and counts are stored only
so precisely: the last health snapshot of a source that asserts nothing to ten minutes, a condition that is heard of again to
one, and to fifteen when it is an error of the driver that a log never takes back. A count is stored each time while a
rule waits for it, and whenever it has doubled. What is lost by that, unless the worker that knows better is still
warm: `count` is a lower bound; a condition that ends by quiet ends up to a tenth of its quiet time early; and a faulty
health snapshot that the queue delivers behind a clean one of the same ten minutes opens a condition, which the next health snapshot
clears.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.domain.catalog import Catalog, Kind
from faultbridge.domain.conditions import Condition
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy
from faultbridge.pipeline.fold.expire import quiet_for

SURVEY_KEPT = timedelta(minutes=10)
REPEAT_KEPT = timedelta(minutes=1)
MOMENT_KEPT = timedelta(minutes=15)
SHARE_OF_QUIET = 10

LOGS = frozenset({"kernel-log", "fabric-manager-log"})
MOMENTS = ("xid.", "sxid.")
"""What logs never take back, unless it is of kind `level`: no word that comes late can end what a later one told."""


def worth_writing(before: NodeState, after: NodeState, policy: Policy, catalog: Catalog) -> bool:
    """Tell whether anything but watermarks and counts moved since `before` was stored, or one of them moved far."""
    if replace(after, conditions=before.conditions, snapshots=before.snapshots, due_at=before.due_at) != before:
        return True
    if after.conditions.keys() != before.conditions.keys() or after.snapshots.keys() != before.snapshots.keys():
        return True
    return _surveyed(before, after) or any(
        _moved(before.conditions[key], condition, policy, catalog) for key, condition in after.conditions.items()
    )


def _surveyed(before: NodeState, after: NodeState) -> bool:
    asserting = {source for condition in after.conditions.values() for source in condition.reporters}
    return any(
        at - before.snapshots[looker] > (timedelta(0) if looker.partition("#")[0] in asserting else SURVEY_KEPT)
        for looker, at in after.snapshots.items()
    )


def _moved(before: Condition, after: Condition, policy: Policy, catalog: Catalog) -> bool:
    if before == after:
        return False
    if after.reporters.keys() != before.reporters.keys():
        return True
    if after.count >= 2 * before.count or (policy.counts(before, after.last_at) and after.count > before.count):
        return True
    heard = {}
    for source, reporter in after.reporters.items():
        known = before.reporters[source]
        if reporter.last_at - known.last_at > _kept(after, source, catalog):
            return True
        heard[source] = replace(reporter, last_at=known.last_at, digests=known.digests)
    return replace(after, last_at=before.last_at, count=before.count, hours=before.hours, reporters=heard) != before


def _kept(condition: Condition, source: str, catalog: Catalog) -> timedelta:
    """Return how far a source's word about a condition may move before it is stored."""
    moment = source in LOGS and condition.code.startswith(MOMENTS)
    if not moment or catalog.row(condition.code).kind is not Kind.EDGE:
        return REPEAT_KEPT
    quiet = quiet_for(condition)
    return MOMENT_KEPT if quiet is None else min(MOMENT_KEPT, quiet / SHARE_OF_QUIET)
