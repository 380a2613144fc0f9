"""Parts of an attempt: its progress, the claim of a successor, verification reports, and failures."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.enums import NodeStatus
from faultbridge.model.nodes import Alias, AliasRow, NodeKey, NodeState
from faultbridge.model.storage import items
from faultbridge.model.values import replace
from faultbridge.repair.attempt.intent import MAX_INLINE_BYTES, store_report
from faultbridge.repair.attempt.step_context import (
    AttemptSuperseded,
    StepOutcome,
    escalate_case,
    live_attempt,
    record_outcome,
    retry_time,
    schedule_probe,
    start_or_resume_step,
)
from faultbridge.repair.successor.launch import belongs_to_other
from tests.builders import KEY, NOON, node
from tests.repair.builders import CASE
from tests.scenarios.world import World
from tests.sim.fakes import FakeObjects

MINUTE = timedelta(minutes=1)


@pytest.fixture
def waiting() -> NodeState:
    """Return a node whose attempt waits in a step with a deadline."""
    world = World()
    world.fault_and_react()
    state = world.node()
    assert state.live_case is not None
    return start_or_resume_step(state, "verify", None, NOON, 5 * MINUTE)


def test_a_node_without_a_case_has_no_live_attempt() -> None:
    with pytest.raises(AttemptSuperseded):
        live_attempt(node())


def test_a_case_without_an_attempt_has_no_live_attempt(waiting: NodeState) -> None:
    case, _ = live_attempt(waiting)
    with pytest.raises(AttemptSuperseded):
        live_attempt(replace(waiting, case=replace(case, attempt=None)))


@pytest.mark.parametrize(
    ("elapsed", "interval"),
    [
        (timedelta(0), 4 * MINUTE),
        (2 * MINUTE, 3 * MINUTE),
        (5 * MINUTE, 4 * MINUTE),
        (6 * MINUTE, 4 * MINUTE),
    ],
)
def test_the_next_probe_is_no_later_than_a_future_deadline(
    waiting: NodeState, elapsed: timedelta, interval: timedelta
) -> None:
    now = NOON + elapsed
    _, attempt = live_attempt(schedule_probe(waiting, now, 4 * MINUTE))
    assert attempt.probe_at == now + interval


def test_the_step_after_a_recorded_outcome_has_all_its_tries(waiting: NodeState) -> None:
    probed = schedule_probe(schedule_probe(waiting, NOON, MINUTE), NOON, MINUTE)
    _, attempt = live_attempt(record_outcome(probed, "verify", StepOutcome.DONE, Phase.CLOSING, NOON))
    assert attempt.tries == 0


@pytest.mark.parametrize(("given", "stored"), [(None, "first"), ("second", "second")])
def test_a_resumed_step_keeps_its_token_until_a_call_has_another_one(
    waiting: NodeState, given: str | None, stored: str
) -> None:
    begun = start_or_resume_step(waiting, "close", "first", NOON, MINUTE)
    _, attempt = live_attempt(start_or_resume_step(begun, "close", given, NOON, MINUTE))
    assert attempt.task_token == stored


def test_each_probe_doubles_the_interval_to_the_next_one(waiting: NodeState) -> None:
    state, intervals = waiting, []
    for _ in range(3):
        state = schedule_probe(state, NOON, MINUTE)
        intervals.append(live_attempt(state)[1].probe_at - NOON)
    assert intervals == [MINUTE, 2 * MINUTE, 4 * MINUTE]


OTHER = NodeKey(KEY.cluster, "node-9")


@pytest.mark.parametrize(
    ("owner", "valid_to", "belongs"),
    [(OTHER, None, True), (OTHER, NOON, False), (KEY, None, False), (KEY, NOON, False)],
    ids=["of another node", "formerly of another node", "of this node", "formerly of this node"],
)
def test_an_alias_belongs_to_another_node_only_while_it_is_valid_there(
    owner: NodeKey, valid_to: datetime | None, belongs: bool
) -> None:
    row = AliasRow(owner, "i-1", NOON, valid_to)
    assert belongs_to_other(items.alias_item(Alias("name", "train-a/ip-1"), row, NOON), node()) is belongs


@pytest.mark.parametrize(("length", "stored"), [(0, 0), (MAX_INLINE_BYTES, 0), (MAX_INLINE_BYTES + 1, 1)])
def test_only_a_report_that_does_not_fit_in_the_entry_is_stored(length: int, stored: int) -> None:
    objects = FakeObjects()
    text, facts = store_report(objects, KEY, b"x" * length, NOON)
    assert len(text) == min(length, MAX_INLINE_BYTES)
    assert list(objects.stored) == list(facts.values())
    assert len(objects.stored) == stored


@pytest.mark.parametrize(
    ("attempts", "minutes"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30), (400, 30)]
)
def test_a_case_is_retried_after_a_minute_that_doubles_with_each_attempt_up_to_half_an_hour(
    attempts: int, minutes: int
) -> None:
    assert retry_time(replace(CASE, attempts=attempts), NOON) == NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("before", "fails", "after"),
    [
        (NodeStatus.VALIDATING, True, NodeStatus.FAILED),
        (NodeStatus.VALIDATING, False, NodeStatus.VALIDATING),
        (NodeStatus.QUARANTINED, True, NodeStatus.QUARANTINED),
    ],
)
def test_an_escalation_fails_only_a_node_that_an_attempt_has_begun_to_repair(
    before: NodeStatus, fails: bool, after: NodeStatus
) -> None:
    state = node(before, case=replace(CASE, attempts=1, attempt=Attempt(1, Phase.DRAINING)))
    assert escalate_case(state, NOON, "an operator must look", fails=fails).state.status is after
