"""The simulation detects bugs: it prints the violated invariant and the command to repeat the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Key
from faultbridge.model.values import replace
from faultbridge.record.publish import Publish
from faultbridge.serve.ingest.send import RawInput
from tests.races import writes_of
from tests.sim.__main__ import main
from tests.sim.environment.samples import kernel_line
from tests.sim.fakes import Call
from tests.sim.fault_injection import NO_FAULTS, FaultInjector, FaultKind
from tests.sim.history import History, build_system, run
from tests.sim.journal import Journal
from tests.sim.rest import come_to_rest
from tests.sim.scripted_orders import NODE
from tests.sim.shrink import shrink, violated_invariants
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

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
    assert main(["--seed", "0", "--steps", "3"]) == 1
    output = capsys.readouterr().out.splitlines()[-1]
    assert UNPUBLISHED in output
    assert "make seed SEED=0 STEPS=3" in output


def test_a_run_without_a_bug_has_no_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--steps", "5"]) == 0
    assert "broken invariant" not in capsys.readouterr().out


def is_entry(key: Key) -> bool:
    return key.sk.startswith(keys.ENTRY)


@dataclass(slots=True)
class RacingInjector(FaultInjector):
    """Runs another commit of the node right before the first one without entries."""

    race: Callable[[], object] | None = None

    def before(self, call: Call) -> FaultKind | None:
        written = [write.key for write in writes_of(call)] if self.race is not None else []
        if self.race is not None and keys.node_state(NODE) in written and not any(map(is_entry, written)):
            race, self.race = self.race, None
            race()
        return FaultInjector.before(self, call)


def violations_of_a_race() -> list[str]:
    """Run a repair in which two commits without entries race; returns the violations."""
    system = SimulatedSystem(0, NO_FAULTS, make_injector=RacingInjector)
    system.build(nodes=1, watched=0, scheduler=True)
    app, injector = system.workers.application(), system.injector
    assert isinstance(injector, RacingInjector)

    def note(state: NodeState, _: datetime) -> Transition:
        return Transition(replace(state, noted={**state.noted, "race": "2026-02-03"}))

    injector.race = lambda: app.append(NODE, note, actor=Actor.STEP)
    system.workers.send(RawInput("kernel-log", REPAIRED, kernel_line(79, 0, None), node=NODE.node))
    come_to_rest(system)
    assert injector.race is None
    return system.journal.violations


def test_a_commit_that_overwrites_another_one_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violations_of_a_race() == []
    monkeypatch.setattr("faultbridge.record.append._unchanged", lambda _: None)
    assert any("each commit of a state increases its version by one" in line for line in violations_of_a_race())


def test_a_slot_that_is_never_released_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.model.storage.projections.slot_release", lambda *_: [])
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


def test_days_that_pass_without_an_action_do_not_use_up_the_calls_of_a_run() -> None:
    system = build_system(3)
    before = system.seam.calls_left
    system.pass_time(timedelta(days=3))
    assert system.seam.calls_left >= before
