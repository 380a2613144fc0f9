"""The same seed gives the same run, in this process and in others with other hash seeds."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest

from faultbridge.model.storage.items import stored_value
from tests.conftest import ROOT
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.fakes.stored_values import StoredMapping
from tests.sim.history import build_system, draw_actions, play_on, run
from tests.simulation.histories import digest

PROGRAM = "from tests.simulation.histories import digest; print(digest({seed}, 25))"


def digest_in_another_process(seed: int, hash_seed: str) -> str:
    """Return the digest of a run in another process."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM.format(seed=seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("seed", [1, 5, pytest.param(42, marks=pytest.mark.nightly)])
def test_a_seed_gives_the_same_run_twice(seed: int) -> None:
    assert digest(seed, 25) == digest(seed, 25)


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    other_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    assert digest_in_another_process(7, other_seed) == digest(7, 25)


def test_another_seed_gives_another_run() -> None:
    assert run(1, 5).digest != run(2, 5).digest


def test_a_run_with_fewer_steps_is_the_beginning_of_a_longer_one() -> None:
    short, long = list(run(3, 4).journal.story()), list(run(3, 8).journal.story())
    until = next(number for number, line in enumerate(short) if "nothing new happens" in line)
    assert long[: until - 1] == short[: until - 1]


def test_a_finished_run_is_freed() -> None:
    system = build_system(1)
    play_on(system, 1, (ExternalAction(60.0, "malformed_message", "", 0, 0.5),))
    freed = weakref.ref(system)
    del system
    gc.collect()
    assert freed() is None


def test_no_reader_changes_the_decoded_values_that_all_readers_of_an_item_share() -> None:
    system = build_system(5)
    play_on(system, 5, draw_actions(5, 15))
    stored = [record.new for record in system.ports.table.stream if isinstance(record.new, StoredMapping)]
    shared = [(item, place, one) for item in stored for place, one in (item.decoded or {}).items()]
    assert len(shared) > 100
    assert [place for item, place, one in shared if stored_value(place[0], dict(item), place[1]) != one] == []
