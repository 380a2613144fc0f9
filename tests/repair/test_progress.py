"""How an attempt moves inside a node's state: what is not live is superseded, and no pause outlasts a deadline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.nodes import NodeState
from faultbridge.repair.attempt.contract import Superseded
from faultbridge.repair.attempt.progress import live, postponed, under_way
from tests.builders import NOON, node
from tests.scenarios.world import World

MINUTE = timedelta(minutes=1)


@pytest.fixture
def waiting() -> NodeState:
    """A node whose repair waits for its successor."""
    world = World()
    world.fault()
    world.process_entries()
    state = world.node()
    assert state.live_case is not None
    return under_way(state, "verify", None, NOON, 5 * MINUTE)


def test_a_node_without_a_case_is_no_attempts() -> None:
    with pytest.raises(Superseded):
        live(node())


def test_a_case_without_an_attempt_is_no_attempts(waiting: NodeState) -> None:
    case, _ = live(waiting)
    with pytest.raises(Superseded):
        live(replace(waiting, case=replace(case, attempt=None)))


@pytest.mark.parametrize(
    ("since", "then"),
    [
        (timedelta(0), 4 * MINUTE),
        (2 * MINUTE, 3 * MINUTE),
        (5 * MINUTE, 4 * MINUTE),
        (6 * MINUTE, 4 * MINUTE),
    ],
)
def test_a_pause_ends_at_the_deadline_that_is_still_to_come(
    waiting: NodeState, since: timedelta, then: timedelta
) -> None:
    now = NOON + since
    _, attempt = live(postponed(waiting, now, 4 * MINUTE))
    assert attempt.probe_at == now + then
