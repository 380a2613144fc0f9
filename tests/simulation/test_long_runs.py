"""Long runs continue where they stopped, and report violations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation import long_runs
from tests.simulation.long_runs import finished, order_parts, run_parts, run_seeds, seed_parts


def run_evens(number: int) -> tuple[int, float, list[str]]:
    return 1, 0.5, [] if number % 2 == 0 else [f"{number} is odd"]


def refuse(number: int) -> tuple[int, float, list[str]]:
    raise AssertionError(number)


def test_a_run_continues_with_the_parts_that_are_not_finished(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    assert run_parts([("two", 2), ("four", 4)], run_evens, file, 1) == 0
    assert run_parts([("two", 2), ("three", 3), ("four", 4)], run_evens, file, 1) == 1
    assert run_parts([("two", 2), ("three", 3), ("four", 4)], refuse, file, 1) == 1
    assert finished(file) == {"two": (1, 0.5, 0), "four": (1, 0.5, 0), "three": (1, 0.5, 1)}
    assert "  3 is odd" in file.read_text(encoding="utf-8").splitlines()


def test_the_progress_names_runs_their_cost_and_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_parts([("three", 3)], run_evens, tmp_path / "run.txt", 1)
    assert capsys.readouterr().out.splitlines() == [
        "1 of 1 parts, 1 runs, 0.50 s of a core each, 1 violations",
        "3 is odd",
    ]


def test_the_parts_hold_each_seed_once_and_each_first_event_once() -> None:
    assert [seed for _, seeds in seed_parts(100, 12) for seed in seeds] == list(range(100, 112))
    assert len({name for name, _ in order_parts(3)}) == 2 * 4


def test_a_part_of_seeds_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_runs, "violations_of", lambda seed: [f"{seed} is broken\n    replay: it"] * (seed % 2))
    runs, seconds, broken = run_seeds(range(2, 4))
    assert (runs, broken) == (2, ["3 is broken     replay: it"])
    assert seconds >= 0
