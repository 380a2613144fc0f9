"""Traces, and the fault process that is fitted to one."""

from __future__ import annotations

import json

import pytest

from faultbridge.model.errors import Rejected
from tests.lab.fault_process import FaultProcess, compare
from tests.lab.trace import DAY, read_trace
from tests.lab.traces import dataset, sample, sample_text

TAIL_AND_REPEATS = 0.10


def test_a_trace_keeps_each_fault_with_its_repair_time() -> None:
    row = {"node_id": "a", "fault_type": {"Level": "x", "Class": "GPU", "Desc": "lost"}}
    begun = {**row, "event_time": 1.0, "event_type": "fault_start"}
    ended = {**row, "event_time": 1.5, "event_type": "fault_end"}
    trace = read_trace(json.dumps([begun, ended]), 4)
    assert [(one.start, one.repair, one.kind) for one in trace.faults] == [(DAY, DAY / 2, "GPU: lost")]
    assert (trace.servers, trace.seconds) == (4, 2 * DAY)


def test_a_fault_without_an_end_lasts_until_the_trace_ends() -> None:
    events = json.loads(sample_text())
    first_end = next(one for one in events if one["event_type"] == "fault_end")
    shorter = read_trace(json.dumps([one for one in events if one is not first_end]))
    assert len(shorter.faults) == len(sample().faults)
    assert sum(one.repair for one in shorter.faults) > sum(one.repair for one in sample().faults)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[1]",
        '[{"event_time": "x"}]',
        '[{"node_id": "a", "event_time": -1, "event_type": "fault_start", "fault_type": {"Class": "a", "Desc": "b"}}]',
        '[{"node_id": "a", "event_time": 1, "event_type": "fault_end", "fault_type": {"Class": "a", "Desc": "b"}}]',
    ],
)
def test_text_that_is_no_trace_is_rejected(text: str) -> None:
    with pytest.raises(Rejected, match="bad_trace"):
        read_trace(text)


def test_parts_divide_the_faults_of_a_trace() -> None:
    trace = sample()
    parts = [trace.part(number, 4) for number in range(4)]
    assert sum(len(part.faults) for part in parts) == len(trace.faults)
    assert all(0 <= fault.start <= part.seconds for part in parts for fault in part.faults)
    assert {part.seconds for part in parts} == {trace.seconds / 4}


def test_the_same_seed_gives_the_same_faults_and_another_seed_other_faults() -> None:
    process = FaultProcess(sample())
    assert process.faults(50, 30 * DAY, 1) == process.faults(50, 30 * DAY, 1)
    assert process.faults(50, 30 * DAY, 1) != process.faults(50, 30 * DAY, 2)


def test_faults_that_began_together_stay_together_within_a_pod() -> None:
    trace = dataset()
    together = len(trace.faults) - len({fault.start for fault in trace.faults})
    generated = FaultProcess(trace).faults(400, trace.seconds, 1)
    assert len(generated) - len({fault.start for fault in generated}) == together


def test_the_process_fits_the_published_trace() -> None:
    found = compare(dataset(), 400, range(20))
    assert {name: one for name, one in found.items() if abs(one["ratio"] - 1) > TAIL_AND_REPEATS} == {}


def test_a_fleet_of_another_size_has_the_rate_of_the_trace() -> None:
    found = compare(dataset(), 1000, range(5))
    assert found["faults_per_1000_node_days"]["ratio"] == pytest.approx(1, abs=TAIL_AND_REPEATS)
