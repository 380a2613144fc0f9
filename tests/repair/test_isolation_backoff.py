"""Isolation backoff: page and next call, just before and just after each deadline, and what is recorded about it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.enums import Isolation, ProviderFailure
from faultbridge.model.policy import Limits
from faultbridge.record.ports.compute import CallResult
from faultbridge.repair.isolate import (
    FIRST_CALL_DELAY,
    MAX_CALL_DELAY,
    OVERDUE_AFTER,
    end_backoff,
    is_overdue,
    isolation_note,
    record_failed_call,
    request_again,
    schedule_call,
)
from tests.builders import NOON, data_of, node
from tests.repair.builders import queued

LIMITS = Limits()
MILLISECOND = timedelta(milliseconds=1)
TRIED = {"isolation_since": NOON, "isolation_tries": 8}


@pytest.mark.parametrize(("at", "paged"), [(OVERDUE_AFTER - MILLISECOND, False), (OVERDUE_AFTER, True)])
def test_an_operator_is_paged_once_after_five_minutes(at: timedelta, paged: bool) -> None:
    assert is_overdue(node(**TRIED), NOON + at) is paged
    assert not is_overdue(node(**TRIED, isolation_overdue=True), NOON + at)


@pytest.mark.parametrize(
    ("at", "again"),
    [
        (OVERDUE_AFTER - MILLISECOND, OVERDUE_AFTER),
        (OVERDUE_AFTER, OVERDUE_AFTER + MAX_CALL_DELAY),
        (LIMITS.orchestrator_timeout - MILLISECOND, LIMITS.orchestrator_timeout),
        (LIMITS.orchestrator_timeout, LIMITS.orchestrator_timeout + MAX_CALL_DELAY),
    ],
)
def test_the_next_call_waits_for_its_delay_but_no_later_than_the_next_deadline(at: timedelta, again: timedelta) -> None:
    state = node(**TRIED, isolation_overdue=at > OVERDUE_AFTER, orchestrator_lost_at=NOON)
    assert schedule_call(state, NOON + at, LIMITS).isolation_again_at == NOON + again


def test_the_delay_between_calls_doubles_up_to_its_maximum() -> None:
    state, at, delays = node(isolation_since=NOON, isolation_overdue=True), NOON, []
    for _ in range(5):
        state = schedule_call(state, at, LIMITS)
        assert state.isolation_again_at is not None
        delays.append(state.isolation_again_at - at)
        at = state.isolation_again_at
    assert delays == [min(FIRST_CALL_DELAY * 2**number, MAX_CALL_DELAY) for number in range(5)]
    assert delays[0] == timedelta(seconds=30)


@pytest.mark.parametrize(("failure", "facts"), [("", {}), ("TIMEOUT", {"failure": "TIMEOUT"})])
def test_a_note_about_an_isolation_names_the_failure_of_the_call_if_one_failed(
    failure: str, facts: dict[str, str]
) -> None:
    assert data_of(isolation_note(node(), "the cordon is overdue", NOON, failure))["facts"] == facts


@pytest.mark.parametrize("isolation", Isolation)
def test_an_isolation_that_a_call_changed_meanwhile_is_requested_again(isolation: Isolation) -> None:
    unclear = isolation in {Isolation.CONFIRMED, Isolation.NONE}
    again = (Isolation.REQUESTED, NOON) if unclear else (isolation, None)
    found = request_again(node(isolation=isolation), NOON).state
    assert (found.isolation, found.isolation_since) == again


@pytest.mark.parametrize(("reason", "text"), [("not allowed", "not allowed"), ("", "PERMISSION_DENIED")])
@pytest.mark.parametrize(
    ("since", "stage", "begins"),
    [
        (NOON, None, "the orchestrator failed and is called again"),
        (NOON - OVERDUE_AFTER, "overdue", "the orchestrator has failed for 5 minutes"),
    ],
)
def test_a_failed_call_is_noted_with_its_failure_and_the_reason_of_the_orchestrator(
    reason: str, text: str, since: datetime, stage: str | None, begins: str
) -> None:
    answer = CallResult(ProviderFailure.PERMISSION_DENIED, reason)
    (noted,) = record_failed_call(node(isolation_since=since), NOON, answer, LIMITS).drafts
    assert data_of(noted)["text"] == f"{begins}: {text}"
    assert (data_of(noted)["facts"], data_of(noted).get("stage")) == ({"failure": "PERMISSION_DENIED"}, stage)


@pytest.mark.parametrize("overdue", [False, True])
def test_an_answer_of_the_orchestrator_ends_the_delays_and_the_page(overdue: bool) -> None:
    waiting = node(**TRIED, isolation_overdue=overdue, isolation_again_at=NOON, orchestrator_lost_at=NOON)
    cleared, drafts = end_backoff(waiting, NOON)
    assert cleared == node()
    assert [data_of(draft)["stage"] for draft in drafts] == ["over"] * overdue


def test_a_note_about_an_isolation_belongs_to_the_case_of_the_node() -> None:
    case = queued().case
    assert case is not None
    assert isolation_note(node(case=case), "the cordon is overdue", NOON).case_id == case.id
    assert isolation_note(node(), "the cordon is overdue", NOON).case_id is None
