"""Breakers, and the status of a cluster."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.breaker import (
    BreakerChange,
    FailingNode,
    Thresholds,
    close_manually,
    cluster_status,
    evaluate_breakers,
    failing_node,
    nodes_by_status,
)
from faultbridge.model.cluster.state import CLUSTER_BREAKER, Breaker, BreakerLimit, BreakerState
from faultbridge.model.enums import BreakerScope, ClusterStatus, NodeStatus
from faultbridge.model.values import replace
from tests.builders import ESCALATED, NOON, after, node

LIMIT = BreakerLimit(nodes=3, percent=20, quiet=timedelta(minutes=10))
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def failing(
    *minutes: float, status: NodeStatus = NodeStatus.QUARANTINED, domain: str | None = None
) -> list[FailingNode]:
    """Return nodes whose cases were opened this many minutes after noon."""
    return [FailingNode(status, domain, after(minutes=minute)) for minute in minutes]


def change_of(before: Breaker | None, nodes: list[FailingNode], now: datetime, *, of: int = 10) -> BreakerChange | None:
    """Return the change of the cluster's breaker, or None."""
    breakers = {CLUSTER_BREAKER: before} if before else {}
    return next(iter(evaluate_breakers(breakers, [LIMIT], nodes, {None: of}, now)), None)


def next_state(
    before: Breaker | None, nodes: list[FailingNode], now: datetime = NOON, *, of: int = 10
) -> BreakerState | None:
    """Return the breaker's next state, or None when it does not change."""
    change = change_of(before, nodes, now, of=of)
    return change.breaker.state if change else None


def breaker(state: BreakerState, *, ignored_before: datetime | None = None) -> Breaker:
    """Return a breaker with this state since noon."""
    return Breaker(state, NOON, ignored_before=ignored_before)


@pytest.mark.parametrize(
    ("nodes", "of", "expected"), [(2, 10, None), (3, 10, OPEN), (3, 15, OPEN), (3, 16, None), (20, 101, None)]
)
def test_the_breaker_opens_at_its_number_and_its_percentage_and_not_one_below(
    nodes: int, of: int, expected: BreakerState | None
) -> None:
    assert next_state(None, failing(*range(nodes)), of=of) is expected


def test_a_node_that_is_not_in_service_yet_is_not_failing() -> None:
    nodes = failing(0, 0) + failing(0, 0, status=NodeStatus.PROVISIONING)
    assert next_state(None, nodes) is None


def test_cases_opened_before_a_manual_close_do_not_count() -> None:
    closed = breaker(CLOSED, ignored_before=NOON)
    assert next_state(closed, failing(-1, 0, 0, 0)) is None
    assert next_state(closed, failing(0, 1, 1, 1)) is OPEN
    closed = close_manually(breaker(OPEN), NOON)
    assert (closed.state, closed.ignored_before) == (CLOSED, NOON)


def test_the_breaker_stays_open_until_the_quiet_time_is_over() -> None:
    nodes = failing(-5, -5, 2)
    assert next_state(breaker(OPEN), nodes, after(minutes=11.9)) is None
    assert next_state(breaker(OPEN), nodes, after(minutes=12)) is HALF_OPEN
    assert next_state(breaker(OPEN), failing(-5, -5, -5), after(minutes=9.9)) is None
    assert next_state(breaker(OPEN), failing(-5, -5, -5), after(minutes=10)) is HALF_OPEN
    assert next_state(breaker(OPEN), failing(-5), after(minutes=10)) is CLOSED


def test_a_half_open_breaker_opens_again_by_another_node() -> None:
    assert next_state(breaker(HALF_OPEN), failing(-1, -1, 0), after(minutes=5)) is None
    assert next_state(breaker(HALF_OPEN), failing(-1, -1, 1), after(minutes=5)) is OPEN
    assert next_state(breaker(HALF_OPEN), failing(-1, 1), after(minutes=5)) is CLOSED


def test_a_half_open_breaker_opens_again_when_a_repair_fails_but_not_for_one_that_failed_before() -> None:
    def with_failed_repair(minute: float) -> list[FailingNode]:
        failed = replace(*failing(-1, status=NodeStatus.FAILED), failed_step_at=after(minutes=minute))
        return [failed, *failing(-1, -1)]

    change = change_of(breaker(HALF_OPEN), with_failed_repair(1), after(minutes=5))
    assert change is not None
    assert (change.breaker.state, change.reason.partition(";")[0]) == (OPEN, "a repair failed")
    assert next_state(breaker(HALF_OPEN), with_failed_repair(0), after(minutes=5)) is None


@pytest.mark.parametrize(
    ("status", "opened"),
    [(NodeStatus.VALIDATING, -1), (NodeStatus.FAILED, -20)],
    ids=["without result", "ignored case"],
)
def test_a_failed_repair_counts_also_for_a_node_that_does_not(status: NodeStatus, opened: float) -> None:
    failed = replace(*failing(opened, status=status), failed_step_at=after(minutes=1))
    half_open = breaker(HALF_OPEN, ignored_before=after(minutes=-10))
    assert next_state(half_open, [failed, *failing(-1, -1, -1)], after(minutes=5)) is OPEN


@pytest.mark.parametrize(("first", "stays_open"), [(-24 * 60 + 2, True), (-24 * 60 + 1, False)])
def test_a_breaker_that_opens_for_the_third_time_within_a_day_stays_open(first: float, stays_open: bool) -> None:
    before = replace(breaker(HALF_OPEN), opened=(after(minutes=first), after(minutes=-60)))
    change = change_of(before, failing(-1, -1, 1), after(minutes=1))
    assert change is not None
    assert (change.breaker.state, change.breaker.stays_open) == (OPEN, stays_open)
    assert change.reason.endswith("it stays open until no node fails or an operator closes it") is stays_open


def test_every_change_that_holds_repairs_states_what_ends_it() -> None:
    opened = change_of(None, failing(0, 0, 0), NOON)
    tried = change_of(breaker(OPEN), failing(-5, -5, -5), after(minutes=10))
    assert opened
    assert tried
    assert opened.reason == (
        "3 nodes fail at once; repairs wait until no further node has failed for 10 min, "
        "or an operator closes the breaker"
    )
    assert tried.reason == "no further node failed; at most 1 repair at a time until fewer nodes fail than the limit"


def test_a_breaker_that_stays_open_closes_by_an_operator_or_when_no_node_fails() -> None:
    held = replace(breaker(OPEN), opened=(NOON,) * 3, stays_open=True)
    assert next_state(held, failing(-1, -1, 1), after(days=9)) is None
    assert next_state(held, failing(0), after(days=9)) is None
    assert next_state(held, [], after(minutes=10)) is CLOSED
    closed = close_manually(held, NOON)
    assert (closed.opened, closed.stays_open) == ((), False)


def test_a_breaker_that_the_policy_no_longer_has_is_closed() -> None:
    tripped = {CLUSTER_BREAKER: breaker(HALF_OPEN), "domain:rack-1": replace(breaker(OPEN), stays_open=True)}
    (change,) = evaluate_breakers(tripped, [LIMIT], failing(-1, -1, -1, domain="rack-1"), {None: 10}, NOON)
    assert (change.name, change.breaker.state, change.breaker.stays_open) == ("domain:rack-1", CLOSED, False)
    assert change.reason == "the policy no longer has this breaker"


def test_each_failure_domain_is_counted_separately_against_its_own_nodes() -> None:
    limit = replace(LIMIT, scope=BreakerScope.DOMAIN)
    nodes = failing(0, 0, 0, domain="rack-1") + failing(0, 0, domain="rack-2") + failing(0)
    (change,) = evaluate_breakers({}, [limit], nodes, {None: 30, "rack-1": 10, "rack-2": 10}, NOON)
    assert (change.name.endswith("rack-1"), change.breaker.failing, change.breaker.of) == (True, 3, 10)


def test_the_breaker_of_a_failure_domain_closes_when_no_node_there_fails_anymore() -> None:
    limit = replace(LIMIT, scope=BreakerScope.DOMAIN)
    opened = {"domain:rack-1": breaker(OPEN)}
    (change,) = evaluate_breakers(opened, [limit], [], {None: 30, "rack-1": 10}, after(minutes=10))
    assert (change.name, change.breaker.state, change.breaker.of) == ("domain:rack-1", CLOSED, 10)


@pytest.mark.parametrize(
    ("status", "counted"), [(NodeStatus.VALIDATING, NodeStatus.VALIDATING), (None, NodeStatus.FAILED)]
)
def test_a_failing_node_counts_with_its_own_status(status: NodeStatus | None, counted: NodeStatus) -> None:
    assert failing_node(node(status), ESCALATED) == FailingNode(counted, None, NOON)


def explained(*minutes: float) -> list[FailingNode]:
    """Return failing nodes that an expired incident explains."""
    return [replace(one, incident="inc-1") for one in failing(*minutes)]


def test_a_breaker_that_nodes_of_an_expired_incident_open_names_the_incident_and_others_alone_do_not() -> None:
    assert _incident(change_of(None, explained(0, 0, 0), NOON)) == "inc-1"
    assert _incident(change_of(None, explained(0) + failing(0, 0), NOON)) == "inc-1"
    assert _incident(change_of(None, explained(0) + failing(0, 0, 0), NOON)) is None


def test_a_breaker_of_an_expired_incident_needs_a_page_when_other_nodes_reach_its_limits_alone() -> None:
    covered = replace(breaker(OPEN), incident="inc-1")
    assert change_of(covered, explained(-5, -5, -5) + failing(1, 1), after(minutes=2)) is None
    change = change_of(covered, explained(-5) + failing(1, 1, 1), after(minutes=2))
    assert change is not None
    assert (change.before, change.breaker.state, change.breaker.incident) == (OPEN, OPEN, None)
    assert change_of(change.breaker, explained(-5, -5, -5), after(minutes=3)) is None
    assert _incident(change_of(change.breaker, explained(-5, -5, -5), after(minutes=15))) is None


def test_a_breaker_that_stays_open_after_its_incident_closed_needs_a_page_while_a_node_waits_for_it() -> None:
    covered = replace(breaker(OPEN), incident="inc-1", stays_open=True)
    assert change_of(covered, explained(-5), after(minutes=60)) is None
    change = change_of(covered, failing(-5), after(minutes=60))
    assert change is not None
    assert (change.breaker.state, change.breaker.incident) == (OPEN, None)


def test_a_breaker_that_an_operator_closed_names_no_incident() -> None:
    assert close_manually(replace(breaker(OPEN), incident="inc-1"), NOON).incident is None


def _incident(change: BreakerChange | None) -> str | None:
    assert change is not None
    return change.breaker.incident


N, C = NodeStatus, ClusterStatus


@pytest.mark.parametrize(
    ("bad", "expected", "status"),
    [
        ({}, 10, C.HEALTHY),
        ({N.DEGRADED: 1}, 10, C.DEGRADED),
        ({N.DEGRADED: 10}, 10, C.DEGRADED),
        ({N.QUARANTINED: 1}, 10, C.DEGRADED),
        ({N.QUARANTINED: 2}, 10, C.CRITICAL),
        ({N.REPLACING: 1}, 10, C.RECOVERING),
        ({N.REPLACING: 1, N.FAILED: 1}, 11, C.DEGRADED),
        ({N.REPLACING: 2}, 10, C.CRITICAL),
        ({N.PROVISIONING: 9}, 10, C.RECOVERING),
        ({N.VALIDATING: 3, N.DEGRADED: 1}, 10, C.DEGRADED),
        (
            {N.PROVISIONING: 1, N.VALIDATING: 1, N.DRAINING: 1, N.REPAIRING: 1, N.REPLACING: 1},
            100,
            C.RECOVERING,
        ),
        ({N.QUARANTINED: 20}, 101, C.DEGRADED),
    ],
)
def test_the_cluster_status_follows_from_its_nodes(bad, expected, status):
    assert cluster_status(bad, expected) is status


def test_a_cluster_with_an_unknown_number_of_nodes_is_never_critical():
    assert cluster_status({N.FAILED: 2}, 0) is C.DEGRADED


def test_the_threshold_of_critical_is_configurable():
    assert cluster_status({N.FAILED: 2}, 10, Thresholds(critical_percent=50)) is C.DEGRADED


def test_the_remaining_nodes_count_as_healthy():
    assert nodes_by_status({N.FAILED: 2}, 10) == {"failed": 2, "healthy": 8}
    assert nodes_by_status({N.FAILED: 2}, 1) == {"failed": 2}
