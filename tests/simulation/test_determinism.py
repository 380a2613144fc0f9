"""The same seed is the same history: here, twice, and in another process with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from faultbridge.simulation.history import run

ASK = "from faultbridge.simulation.history import run; print(run({seed}, 25).digest)"


def elsewhere(seed: int, hash_seed: str) -> str:
    """The digest that another process comes to."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", ASK.format(seed=seed)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("seed", [1, 5, 42])
def test_a_seed_replays_exactly(seed: int) -> None:
    first, second = run(seed, 25), run(seed, 25)
    assert first.digest == second.digest
    assert list(first.journal.story()) == list(second.journal.story())


def test_a_seed_replays_exactly_in_another_process() -> None:
    assert {elsewhere(7, "1"), elsewhere(7, "2")} == {run(7, 25).digest}


def test_another_seed_is_another_history() -> None:
    assert run(1, 5).digest != run(2, 5).digest


def test_fewer_steps_are_the_beginning_of_more() -> None:
    short, long = list(run(3, 4).journal.story()), list(run(3, 8).journal.story())
    until = next(number for number, line in enumerate(short) if "nothing new happens" in line)
    assert long[: until - 1] == short[: until - 1]
