"""Findings in simulated histories: with injected faults, repairs and orders, they and their marks change nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from faultbridge.model.findings import Mark
from faultbridge.model.values import replace
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.serve.entrypoints import sweep
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.installation import Installation
from tests.sim import history
from tests.sim.environment.action_plan import ExternalAction, draw_plan
from tests.sim.environment.environment import Environment
from tests.sim.fault_injection import draw_fault_profile
from tests.sim.invariants import findings
from tests.sim.simulated_system import REPAIRED

SEEDS = (4, 6, 9, 11)
"""Seeds whose clusters have enough nodes in service for long enough to have findings."""

REPORTS, EVERY = 12, 1_200.0
REPLAYS = 'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{gpu="0",UUID="GPU-{0}",pci_bus_id="00000000:C1:00.0",hostname="{0}"}} {1}\n'


class GrayEnvironment(Environment):
    """Also lets nodes report counters for hours, one of them far above its peers, and operators mark findings."""

    def _gray_counters(self, action: ExternalAction) -> None:
        self._report_counters(REPORTS, action)

    def _report_counters(self, left: int, action: ExternalAction) -> None:
        running = self._running()
        for number, instance in enumerate(running):
            total = (REPORTS - left) * (10_000 if number == action.selector % len(running) else 1)
            body = REPLAYS.format(instance.instance_id, total).encode()
            self._send_until_accepted(RawInput("dcgm-metrics", REPAIRED, body, self._node_name(instance)), 0.0, 2)
        if left:
            self.system.schedule.after(EVERY, "agent", lambda: self._report_counters(left - 1, action))

    def _mark_findings(self, action: ExternalAction) -> None:
        self.run_command(lambda app: mark_all(app, Mark.RIGHT if action.selector % 2 else Mark.WRONG))


def mark_all(app: Installation, mark: Mark) -> None:
    known = Judgments(app.append)
    for finding in known.list([REPAIRED], ended=True):
        known.mark(finding.id, mark, "an-operator")
        MARKED[mark] += 1


MARKED: Counter[Mark] = Counter()


@pytest.fixture(autouse=True)
def _sensitive_detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the detectors by ones that a small cluster and a short history can trigger."""
    sensitive = {
        peers: tuple(replace(one, min_peers=1, windows=1, score=1) for one in sweep.detectors(peers))
        for peers in ("nodes", "jobs")
    }
    monkeypatch.setattr(sweep, "detectors", lambda peers="nodes": sensitive[peers])
    monkeypatch.setattr(history, "Environment", GrayEnvironment)


def gray_plan(seed: int) -> tuple[ExternalAction, ...]:
    """Return the plan of a seed, with counters at its start and its middle, and marks later."""
    plan = draw_plan(seed, 30, draw_fault_profile(seed).mean_gap)
    counters = ExternalAction(30.0, "gray_counters", selector=seed)
    marks = ExternalAction(4_000.0, "mark_findings", selector=seed)
    return (counters, *plan[:10], marks, replace(marks, selector=seed + 1), counters, *plan[10:], marks)


def test_histories_with_findings_and_marks_keep_every_law() -> None:
    MARKED.clear()
    broken = {seed: found for seed in SEEDS if (found := history.play(seed, gray_plan(seed)).broken)}
    assert broken == {}
    assert min(MARKED[Mark.RIGHT], MARKED[Mark.WRONG]) > 0


@dataclass
class View:
    """The entries of one stream."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bodies(self) -> dict[str, list[dict[str, Any]]]:
        return {"NODE#train-a#n-1": self.entries}


def entry(event_type: str, name: str, cause: str | None = None, **data: Any) -> dict[str, Any]:
    return {
        "metadata": {"event_type": event_type, "event_id": name, "causation_id": cause, "node": "n-1"},
        "data": data,
    }


def note(name: str, stage: str = "begun") -> dict[str, Any]:
    return entry("Node Note Recorded", name, kind="shadow", stage=stage, facts={"finding_id": "f-1"})


@pytest.mark.parametrize(
    ("entries", "broken"),
    [
        ([note("a"), note("b", "over")], [0, 0]),
        ([note("a"), entry("Case Status Change", "b", "a")], [1, 0]),
        ([note("a"), note("b", "over"), note("c", "over")], [0, 1]),
        ([note("a", "over")], [0, 1]),
    ],
    ids=["a complete finding", "a case that follows from it", "two ends", "an end alone"],
)
def test_the_laws_detect_a_finding_with_an_effect_or_a_wrong_stage(
    entries: list[dict[str, Any]], broken: list[int]
) -> None:
    view: Any = View(entries)
    assert [len(list(law.violations(view))) for law in findings.INVARIANTS] == broken
