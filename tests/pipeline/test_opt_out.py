"""Until when a node is excluded from repairs, and which faults open no case meanwhile."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.case_moves import FOREVER, deferred_until, is_absence, opted_out_until, stop_ignoring
from faultbridge.model.cluster.config import UpdateHold
from faultbridge.model.nodes import Ignored
from faultbridge.model.values import replace
from tests.builders import NOON, after, arrival, config, fault, folded, node

HOUR, DAY = after(hours=1), after(days=1)


@pytest.mark.parametrize(
    ("ignored", "maintenance", "until"),
    [
        (None, None, None),
        (HOUR, None, HOUR),
        (FOREVER, None, FOREVER),
        (None, DAY, DAY),
        (HOUR, DAY, DAY),
        (DAY, HOUR, DAY),
        (NOON, NOON, None),
        (NOON, HOUR, HOUR),
    ],
)
def test_a_node_is_excluded_until_its_own_exclusion_and_the_maintenance_of_its_cluster_are_over(
    ignored: datetime | None, maintenance: datetime | None, until: datetime | None
) -> None:
    end = None if ignored == FOREVER else ignored
    state = node(ignored=Ignored("ada", NOON, until=end) if ignored else None)
    assert opted_out_until(state, config(maintenance_until=maintenance), NOON) == until


@pytest.mark.parametrize(
    ("code", "absent"),
    [("host.silent", True), ("cloud.instance_gone", True), ("cloud.instance_stopped", True), ("xid.79", False)],
)
def test_only_the_absence_of_a_node_opens_no_case_while_its_group_is_updated(code: str, absent: bool) -> None:
    (condition,) = folded(node(), arrival(fault(code))).state.active()
    updated = config(update_holds=(UpdateHold("gpu-workers", NOON, HOUR),))
    assert is_absence(condition) is absent
    assert deferred_until(node(), condition, updated, NOON) == (HOUR if absent else None)
    assert deferred_until(node(), condition, updated, HOUR) is None
    excluded = node(ignored=Ignored("ada", NOON, until=DAY))
    assert deferred_until(excluded, condition, updated, NOON) == DAY
    assert deferred_until(excluded, condition, replace(updated, maintenance_until=after(days=2)), NOON) == after(days=2)


@pytest.mark.parametrize(("deferred", "due"), [(FOREVER, NOON), (None, DAY)])
def test_a_deferred_case_is_due_at_once_when_its_node_is_no_longer_ignored(
    deferred: datetime | None, due: datetime
) -> None:
    state = node(ignored=Ignored("ada", NOON), case_deferred_until=deferred, due_at=DAY)
    stopped = stop_ignoring(state, NOON)
    assert (stopped.ignored, stopped.due_at) == (None, due)
