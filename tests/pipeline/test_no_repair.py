"""Nodes that are not repaired: why, until when, and which faults open no case."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.answers import node_answer
from faultbridge.decide.case_moves import FOREVER, deferred_until, is_absence, opted_out_until, stop_ignoring
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.observe import observe
from faultbridge.model.cluster.config import ClusterConfig, Mode, UpdateHold
from faultbridge.model.nodes import Ignored, NodeState
from faultbridge.model.values import replace
from tests.builders import CATALOG, KEY, NOON, after, arrival, config, fault, folded, node, rules

NAMED = "--instance i-0aaaaaaaaaaaaaaa1"
REPLACE = f"faultbridge node replace {KEY.node} --cluster {KEY.cluster} {NAMED}"
HOUR = after(hours=1)


def with_fault(
    code: str = "xid.79",
    *,
    match: IncarnationMatch = IncarnationMatch.CURRENT,
    cluster: ClusterConfig | None = None,
    now: datetime = NOON,
    ignored: Ignored | None = None,
) -> NodeState:
    """A node after one fault, as the pipeline leaves it."""
    arrivals = [arrival(fault(code), incarnation=match)]
    before, given = replace(node(), ignored=ignored), rules(config=cluster or config())
    return observe(before, arrivals, rules=given, catalog=CATALOG, now=now).state


IGNORED = Ignored("ada", NOON, None, "firmware update")
OBSERVING = config(mode=Mode.OBSERVE)
UPDATING = config(update_holds=(UpdateHold("gpu-workers", NOON, HOUR),))
SITUATIONS = {
    "a fault that needs no repair": (
        with_fault("xid.92"), config(), "No fault of the node needs a repair: xid.92 (action none)", REPLACE,
    ),
    "a cluster that only observes": (
        with_fault(cluster=OBSERVING), OBSERVING, "the cluster's mode is observe",
        f"faultbridge cluster set {KEY.cluster} --mode act",
    ),
    "a node that is ignored": (
        with_fault(ignored=IGNORED), config(), "ignored without an end: firmware update", "--end",
    ),
    "a node that is ignored until a time": (
        with_fault(ignored=replace(IGNORED, until=HOUR)), config(), "excluded from repairs until 2026",
        "considers a repair at 2026",
    ),
    "a fault that may be of an earlier instance": (
        with_fault(match=IncarnationMatch.UNKNOWN), config(), "not certain", REPLACE,
    ),
    "a fault that was reported late": (
        with_fault(now=after(hours=2)), config(), "No report was recent enough", REPLACE,
    ),
    "an absence that an update of the group explains": (
        with_fault("host.silent", cluster=UPDATING), UPDATING, "The owner of group gpu-workers updates it",
        "after the update, at 2026-02-03 13:00 UTC at the latest",
    ),
    "an absence that may be of an earlier instance": (
        with_fault("host.silent", match=IncarnationMatch.UNKNOWN), config(), "not certain", REPLACE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_node_with_faults_and_no_case_says_why_and_what_would_change_it(situation: str) -> None:
    state, cluster, reason, change = SITUATIONS[situation]
    assert (state.status, state.live_case) == ("degraded", None)
    found = node_answer(state, cluster, None, NOON)
    assert reason in found.what
    assert change in " ".join((found.system, *found.commands))


def test_a_healthy_node_has_its_own_answer_and_one_with_a_case_has_that_of_its_case() -> None:
    assert node_answer(node(), config(), None, NOON).row == "node.healthy"
    assert node_answer(with_fault(), config(), None, NOON).row.startswith("case.queued.")


ONE_HOUR, DAY = after(hours=1), after(days=1)


@pytest.mark.parametrize(
    ("ignored", "maintenance", "until"),
    [
        (None, None, None),
        (ONE_HOUR, None, ONE_HOUR),
        (FOREVER, None, FOREVER),
        (None, DAY, DAY),
        (ONE_HOUR, DAY, DAY),
        (DAY, ONE_HOUR, DAY),
        (NOON, NOON, None),
        (NOON, ONE_HOUR, ONE_HOUR),
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
    updated = config(update_holds=(UpdateHold("gpu-workers", NOON, ONE_HOUR),))
    assert is_absence(condition) is absent
    assert deferred_until(node(), condition, updated, NOON) == (ONE_HOUR if absent else None)
    assert deferred_until(node(), condition, updated, ONE_HOUR) is None
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
