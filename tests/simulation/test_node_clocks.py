"""Wrong clocks of nodes in the simulation: a fault has its true time once heartbeats show how wrong the clock is."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultbridge.decide.normalize import timestamp
from faultbridge.model.records import RawRecord
from faultbridge.model.times import to_text
from faultbridge.serve.ingest import node_batch
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.fakes import START
from tests.sim.history import History, draw_wrong_clocks, play
from tests.sim.invariants import node_clocks
from tests.sim.invariants.view import SystemView
from tests.sim.node_clocks import NodeClocks, TrueTime
from tests.sim.shrink import violated_invariants

SEEDS = range(300)
TRUE_TIME = "a fault has its true time if its node's clock is known"
REPORTS = tuple(ExternalAction(600.0, "mass_report", sample, 7, 0.5) for sample in ("xid 92", "xid 31", "xid 79"))


def offset(seed: int) -> float | None:
    """Return by how many seconds the clock of the first instance is ahead, if the run has wrong clocks."""
    clocks = NodeClocks(seed)
    clocks.wrong = draw_wrong_clocks(seed)
    return clocks.offset("i-00000000000000001")


SLOW = next(seed for seed in SEEDS if offset(seed) == -3 * 3600.0)


def played() -> History:
    """Return a run in which the first node, whose clock is three hours behind, reports three faults."""
    return play(SLOW, REPORTS)


def test_three_in_ten_seeds_have_wrong_clocks_some_ahead_and_some_days_behind() -> None:
    wrong = [seed for seed in SEEDS if draw_wrong_clocks(seed)]
    assert 60 <= len(wrong) <= 120
    offsets = {offset(seed) for seed in wrong}
    assert (min(offsets), max(offsets)) == (-5 * 86400.0, 3 * 86400.0)


def test_the_fault_of_a_node_with_a_slow_clock_keeps_every_law() -> None:
    assert played().broken == ()


@pytest.mark.parametrize("part", ["times of observations", "offset that heartbeats show"])
def test_faults_without_the_correction_of_the_clock_are_noticed(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    def uncorrected(at: datetime, record: RawRecord, slow: object) -> datetime:
        return at

    if part == "offset that heartbeats show":
        monkeypatch.setattr(node_batch, "slow_by", lambda *_: timestamp._NO_SKEW)
    else:
        monkeypatch.setattr(timestamp, "_corrected", uncorrected)
    assert TRUE_TIME in violated_invariants(played())


@pytest.mark.parametrize(("sender", "broken"), [("i-5", True), ("i-1", False)], ids=["own", "of a former instance"])
def test_a_wrong_time_violates_the_law_only_if_the_instance_of_the_entry_sent_the_record(
    sender: str, broken: bool
) -> None:
    def entry(event_type: str, code: str, instance: str, **attributes: str) -> dict[str, Any]:
        metadata = {"event_type": event_type, "causation_id": "record-41", "stream": "train-a/node-1", "sequence": 46}
        at, incarnation = to_text(START - timedelta(minutes=5)), {"instance_id": instance}
        return {
            "metadata": metadata,
            "data": {"code": code, "observed_at": at, "incarnation": incarnation, "attributes": attributes},
        }

    clock = entry("Node Fault Detected", "host.clock", "i-1", seconds_off="-300")
    fault = entry("Node Fault Detected", "xid.79", "i-5")
    clocks = SimpleNamespace(observed={"record-41": TrueTime(START, -300.0, sender)})
    view = SimpleNamespace(system=SimpleNamespace(clocks=clocks), nodes=["node-1"], entries_of=lambda _: [clock, fault])
    (law,) = node_clocks.INVARIANTS
    assert bool(list(law.violations(cast("SystemView", view)))) is broken
