"""The retry helper: attempts, pauses, and which errors are retried."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.retry import Retry


def failing(times: int, error: type[Exception] = Conflict) -> Callable[[], int]:
    """Return an action that raises `times` times, then returns the number of its calls."""
    calls = [0]

    def action() -> int:
        calls[0] += 1
        if calls[0] <= times:
            raise error(f"failure {calls[0]}")
        return calls[0]

    return action


def retry(attempts: int, pauses: list[float], jitter: float = 1.0, **limits: float) -> Retry:
    return Retry(attempts, sleep=pauses.append, jitter=lambda: jitter, **limits)


def test_an_action_that_succeeds_at_once_is_called_once_without_a_pause() -> None:
    pauses: list[float] = []
    assert retry(5, pauses)(failing(0), retry_on=Conflict) == 1
    assert pauses == []


def test_the_pause_doubles_up_to_its_maximum() -> None:
    pauses: list[float] = []
    assert retry(6, pauses, first_seconds=0.1, max_seconds=0.5)(failing(5), retry_on=Conflict) == 6
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_full_jitter_scales_the_whole_pause() -> None:
    pauses: list[float] = []
    retry(3, pauses, jitter=0.25, first_seconds=1.0)(failing(2), retry_on=Conflict)
    assert pauses == [0.25, 0.5]


def test_a_long_series_of_attempts_does_not_overflow() -> None:
    assert Retry(2_000, jitter=lambda: 1.0).pause_after(1_999) == 20.0


def test_no_pause_is_taken_without_a_first_pause() -> None:
    pauses: list[float] = []
    assert retry(3, pauses, first_seconds=0.0)(failing(2), retry_on=Conflict) == 3
    assert pauses == []


def test_the_error_of_the_last_attempt_is_raised_without_a_further_pause() -> None:
    pauses: list[float] = []
    with pytest.raises(Conflict, match="failure 3"):
        retry(3, pauses)(failing(9), retry_on=Conflict)
    assert len(pauses) == 2


def test_an_error_of_another_type_is_raised_at_once() -> None:
    pauses: list[float] = []
    with pytest.raises(Misconfigured, match="failure 1"):
        retry(3, pauses)(failing(1, Misconfigured), retry_on=(Conflict, Transient))
    assert pauses == []


def test_a_subclass_of_a_retried_error_is_retried() -> None:
    assert retry(2, [])(failing(1, Conflict), retry_on=Transient) == 2


def test_an_error_that_the_condition_excludes_is_raised_at_once() -> None:
    with pytest.raises(Conflict, match="failure 2"):
        retry(5, [])(failing(9), retry_on=Conflict, retry_if=lambda error: "1" in str(error))


def test_each_retry_is_reported_before_its_pause() -> None:
    seen: list[object] = []
    policy = Retry(3, first_seconds=1.0, sleep=seen.append, jitter=lambda: 1.0)
    policy(
        failing(2),
        retry_on=Conflict,
        on_retry=lambda attempt, error, pause: seen.append((attempt, str(error), pause)),
    )
    assert seen == [(1, "failure 1", 1.0), 1.0, (2, "failure 2", 2.0), 2.0]


def test_fewer_attempts_than_one_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Retry(0)
