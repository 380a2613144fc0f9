"""What the simulation is for: a bug in the product is named, replayed and told as a small story."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.cli.app import run as command_line
from faultbridge.ledger.publish import Publish
from faultbridge.simulation.history import History, run
from faultbridge.simulation.journal import Journal
from faultbridge.simulation.shrink import invariants, shrink

UNPUBLISHED = "every entry is on the bus, and none waits any more"


def swallow(_publish: Publish, entries: Any, *, stub: bool) -> list[Any]:
    """Take every event and send none: what is acknowledged before it is done."""
    return []


@pytest.fixture
def a_publish_that_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publish, "_put", swallow)


@pytest.mark.usefixtures("a_publish_that_sends_nothing")
def test_a_publish_that_sends_nothing_is_named() -> None:
    assert UNPUBLISHED in invariants(run(0, 5))


@pytest.mark.usefixtures("a_publish_that_sends_nothing")
def test_the_command_says_what_is_broken_and_how_to_replay_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["simulate", "--seed", "0", "--steps", "3"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert UNPUBLISHED in said
    assert "faultbridge simulate --seed 0 --steps 3" in said


def test_a_history_without_a_bug_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["simulate", "--seed", "1", "--steps", "5", "--json"]) == 0
    assert '"broken": []' in capsys.readouterr().out


def test_a_commit_that_overwrites_another_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.ledger.append._unchanged", lambda _: None)
    # Histories 2 and 5 break as well, but take ten times as long to come to their end.
    assert run(3).broken


def test_a_slot_that_is_never_given_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.storage.projections._release", lambda *_: [])
    assert any("the slots are held by the repairs under way" in invariants(run(seed)) for seed in range(6))


def made_up(seed: int, steps: int, *, without: frozenset[int] = frozenset()) -> History:
    """A history that breaks from its seventh step on, whenever its third fault happens."""
    broken = ("it holds: no",) if steps >= 7 and 3 not in without else ()
    return History(seed, steps, broken, 9, Journal.__new__(Journal))


def test_shrinking_finds_the_few_steps_and_the_one_fault_that_matter() -> None:
    smallest = shrink(made_up(1, 40), made_up)
    assert smallest.history.steps == 7
    assert set(range(1, 10)) - smallest.without == {3}
