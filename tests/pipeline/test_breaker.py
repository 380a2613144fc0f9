"""The breaker at its very limits: how many, what share, how long quiet, and what a person told it to overlook."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from faultbridge.domain.breakers import CLUSTER_BREAKER, Breaker, BreakerLimit, BreakerScope, BreakerState
from faultbridge.domain.edges import NodeStatus
from faultbridge.pipeline.decide.breaker import Failing, Tripped, closed_by_hand, judge
from tests.builders import NOON, after

LIMIT = BreakerLimit(nodes=3, percent=20, quiet=timedelta(minutes=10))
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def failing(*minutes: float, status: NodeStatus = NodeStatus.QUARANTINED, domain: str | None = None) -> list[Failing]:
    """Nodes whose cases opened so many minutes after noon."""
    return [Failing(status, domain, after(minutes=one)) for one in minutes]


def moved(known: Breaker | None, nodes: list[Failing], now: datetime, *, of: int = 10) -> Tripped | None:
    """What the cluster's breaker does."""
    breakers = {CLUSTER_BREAKER: known} if known else {}
    return next(iter(judge(breakers, [LIMIT], nodes, {None: of}, now)), None)


def target(known: Breaker | None, nodes: list[Failing], now: datetime = NOON, *, of: int = 10) -> BreakerState | None:
    """Where it goes; None where it stays."""
    one = moved(known, nodes, now, of=of)
    return one.breaker.state if one else None


def standing(state: BreakerState, *, ignored_before: datetime | None = None) -> Breaker:
    """A breaker that stands so since noon."""
    return Breaker(state, NOON, ignored_before=ignored_before)


@pytest.mark.parametrize(("nodes", "of", "expected"), [(2, 10, None), (3, 10, OPEN), (3, 15, OPEN), (3, 16, None)])
def test_it_trips_at_its_number_and_its_share_and_not_one_below(
    nodes: int, of: int, expected: BreakerState | None
) -> None:
    assert target(None, failing(*range(nodes)), of=of) is expected


def test_a_node_that_is_not_there_yet_is_not_failing() -> None:
    nodes = failing(0, 0) + failing(0, 0, status=NodeStatus.PROVISIONING)
    assert target(None, nodes) is None


def test_what_failed_up_to_the_moment_in_which_a_person_closed_it_is_overlooked() -> None:
    closed = standing(CLOSED, ignored_before=NOON)
    assert target(closed, failing(-1, 0, 0, 0)) is None
    assert target(closed, failing(0, 1, 1, 1)) is OPEN
    by_hand = closed_by_hand(standing(OPEN), NOON)
    assert (by_hand.state, by_hand.ignored_before) == (CLOSED, NOON)


def test_it_stays_open_until_it_was_quiet_for_as_long_as_it_must_be() -> None:
    nodes = failing(-5, -5, 2)
    assert target(standing(OPEN), nodes, after(minutes=11.9)) is None
    assert target(standing(OPEN), nodes, after(minutes=12)) is HALF_OPEN
    assert target(standing(OPEN), failing(-5, -5, -5), after(minutes=9.9)) is None
    assert target(standing(OPEN), failing(-5, -5, -5), after(minutes=10)) is HALF_OPEN
    assert target(standing(OPEN), failing(-5), after(minutes=10)) is CLOSED


def test_half_open_it_opens_again_by_another_node_only() -> None:
    assert target(standing(HALF_OPEN), failing(-1, -1, 0), after(minutes=5)) is None
    assert target(standing(HALF_OPEN), failing(-1, -1, 1), after(minutes=5)) is OPEN
    assert target(standing(HALF_OPEN), failing(-1, 1), after(minutes=5)) is CLOSED


def test_each_failure_domain_is_counted_by_itself_and_against_its_own_nodes() -> None:
    limit = replace(LIMIT, scope=BreakerScope.DOMAIN)
    nodes = failing(0, 0, 0, domain="rack-1") + failing(0, 0, domain="rack-2") + failing(0)
    (tripped,) = judge({}, [limit], nodes, {None: 30, "rack-1": 10, "rack-2": 10}, NOON)
    assert (tripped.name.endswith("rack-1"), tripped.breaker.failing, tripped.breaker.of) == (True, 3, 10)
