"""The simulation detects bugs: it prints the violated invariant and the command to repeat the run."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.cli.app import run as command_line
from faultbridge.ledger.publish import Publish
from faultbridge.simulation.history import History, run
from faultbridge.simulation.journal import Journal
from faultbridge.simulation.shrink import shrink, violated_invariants

UNPUBLISHED = "every entry is published and no longer marked as unpublished"


def put_nothing(_publish: Publish, entries: Any, *, stub: bool) -> list[Any]:
    """Report every event as published without publishing it."""
    return []


@pytest.fixture
def broken_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace `Publish` by one that publishes nothing."""
    monkeypatch.setattr(Publish, "_put", put_nothing)


@pytest.mark.usefixtures("broken_publish")
def test_a_publish_without_effect_is_detected() -> None:
    assert UNPUBLISHED in violated_invariants(run(0, 5))


@pytest.mark.usefixtures("broken_publish")
def test_the_command_prints_the_violation_and_the_command_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["simulate", "--seed", "0", "--steps", "3"]) == 1
    output = capsys.readouterr().err.splitlines()[-1]
    assert UNPUBLISHED in output
    assert "faultbridge simulate --seed 0 --steps 3" in output


def test_a_run_without_a_bug_has_no_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["simulate", "--seed", "1", "--steps", "5", "--json"]) == 0
    assert '"broken": []' in capsys.readouterr().out


def test_a_commit_that_overwrites_another_one_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.ledger.append._unchanged", lambda _: None)
    # Only a race of two commits without entries shows it: about one run in twenty-five.
    assert any(run(seed).broken for seed in (24, *range(12)))


def test_a_slot_that_is_never_released_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.storage.projections._slot_release", lambda *_: [])
    assert any(
        "repair slots are held exactly by the repairs in progress" in violated_invariants(run(seed))
        for seed in range(6)
    )


def fake_run(seed: int, steps: int, *, without: frozenset[int] = frozenset()) -> History:
    """Return a run that violates an invariant from seven steps on if its third fault is injected."""
    broken = ("it holds: no",) if steps >= 7 and 3 not in without else ()
    return History(seed, steps, broken, 9, Journal.__new__(Journal))


def test_shrinking_finds_the_minimal_steps_and_the_only_relevant_fault() -> None:
    smallest = shrink(fake_run(1, 40), fake_run)
    assert smallest.history.steps == 7
    assert set(range(1, 10)) - smallest.without == {3}
