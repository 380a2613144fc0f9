"""Unchanged output: output in which ingest reads nothing new is sent rarely, and no change is missed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import CounterSample, Observation, Snapshot
from faultbridge.model.values import replace
from faultbridge.node.agent.child_processes import Outcome, ProbeResult
from faultbridge.node.agent.delivery.records import Wait
from faultbridge.node.agent.probes import Probe, ProbeScheduler
from faultbridge.node.agent.unchanged_output import (
    COUNTER_SOURCES,
    RELEVANT,
    STATELESS_REPEATS,
    STATELESS_SOURCES,
    UnchangedOutput,
)
from faultbridge.repair.findings.compare_peers import STALE
from tests.agent.builders import ScriptedProbe, agent_with_records
from tests.agent.fakes import NOON, FakeTransport, ManualClock
from tests.bench import node_minutes

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
PORT = "/sys/class/infiniband/mlx5_0/ports/1"
CAPTURES = {
    "nvidia-smi-xml": "nvidia-smi-xml__*",
    "dcgm-metrics": "dcgm-exporter__*",
    "rdma-counters": "sysfs-infiniband__*",
    "infiniband-state": "sysfs-infiniband*",
    "link-state": "ip-link-json__*",
    "ethtool-stats": "ethtool-S__*",
}
OWN = {
    "nvidia-smi-xml": node_minutes.nvidia_smi(3).replace(
        b"</uuid>", b"</uuid><gpu_recovery_action>Reset</gpu_recovery_action>", 1
    ),
    "dcgm-metrics": b'# HELP DCGM_FI_DEV_GPU_TEMP t\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 61\n'
    b'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0"} 79\nDCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0",UUID="GPU-0"} 1\n',
    "rdma-counters": f"{PORT}/state: 4: ACTIVE\n{PORT}/counters/link_downed: 3\n".encode(),
    "infiniband-state": f"{PORT}/state: 2: INIT\n{PORT}/phys_state: 5: LinkUp\n{PORT}/counters/link_downed: 3\n"
    "".encode(),
    "dcgm-health": b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}',
    "link-state": node_minutes.links(2),
    "ethtool-stats": b"eth0:\nNIC statistics:\n     tx_timeout: 1\n",
}  # fmt: skip


def samples() -> list:
    """Return own samples of every source, and the captures of the real programs where they are present."""
    found = [pytest.param(source, body, id=f"own-{source}") for source, body in OWN.items()]
    for source, pattern in CAPTURES.items() if SAMPLES.is_dir() else ():
        files = sorted(SAMPLES.glob(pattern))
        assert files, f"no capture of {source}"
        found += [pytest.param(source, file.read_bytes(), id=f"{source} of {file.name}") for file in files]
    return found


def read(source: str, body: bytes) -> list[Observation] | str:
    """Return what the decoder reads, without times, or the reason of a rejection.

    Port states beside the counters are left out: the agent sends the same output as `infiniband-state` too.
    """
    try:
        observations = registry.decode(source, body, Hints(NOON))
    except Rejected as error:
        return error.reason
    states = "infiniband-state" if source == "rdma-counters" else None
    return [without_time(one) for one in observations if one.source != states]


def without_time(observation: Observation) -> Observation:
    if isinstance(observation, Snapshot):
        present = tuple(replace(fault, observed_at=None) for fault in observation.present)
        return replace(observation, observed_at=None, present=present)
    return replace(observation, observed_at=None)


def holds_something(observation: Observation) -> bool:
    """Return whether an observation is more than a health check that could read nothing."""
    return not isinstance(observation, Snapshot) or bool(observation.covers or observation.present)


@pytest.mark.parametrize(("source", "body"), samples())
def test_the_decoder_reads_the_same_from_the_relevant_part_as_from_the_whole_output(source, body):
    whole = read(source, body)
    if isinstance(whole, str):
        pytest.skip(f"the decoder rejects this sample: {whole}")
    relevant = RELEVANT[source](body)
    if relevant:
        assert read(source, relevant) == whole
    else:
        assert not any(holds_something(one) for one in whole)


def sent(selection: UnchangedOutput, source: str, bodies: list[bytes], seconds: int = 60) -> list[tuple[int, bytes]]:
    """Return what is sent of outputs, one every `seconds`, each with the number of the output."""
    found = []
    for number, body in enumerate(bodies):
        at = NOON + timedelta(seconds=seconds * number)
        for sent_at, sent_body, *_ in selection.select(source, body, at, float(seconds * number)):
            found.append((int((sent_at - NOON).total_seconds()) // seconds, sent_body))
    return found


def test_a_healthy_node_sends_its_output_every_ten_minutes():
    bodies = [node_minutes.nvidia_smi(minute) for minute in range(21)]
    assert [number for number, _ in sent(UnchangedOutput(600), "nvidia-smi-xml", bodies)] == [0, 10, 20]


@pytest.mark.parametrize("source", sorted(STATELESS_SOURCES))
def test_counters_without_a_state_are_repeated_every_twenty_minutes(source):
    assert [number for number, _ in sent(UnchangedOutput(600), source, [OWN[source]] * 61)] == [0, 20, 40, 60]


@pytest.mark.parametrize("source", sorted(STATELESS_SOURCES))
def test_a_source_that_is_repeated_less_often_reports_counters_and_no_state(source):
    bodies = [sample.values[1] for sample in samples() if sample.values[0] == source]
    observations = [one for body in bodies for one in read(source, RELEVANT[source](body))]
    assert {type(one) for one in observations} == {CounterSample}
    assert timedelta(seconds=600 * STATELESS_REPEATS) < STALE, "peers compare them"


def test_changed_output_waits_for_seconds_and_a_repetition_for_the_next_call():
    selection, healthy, lost = UnchangedOutput(600), OWN["dcgm-health"], b'{"body":{"Overall Health":{"value":"x"}}}'
    waits = [
        selected.wait
        for at, body in ((0, healthy), (600, healthy), (660, lost))
        for selected in selection.select("dcgm-health", body, NOON, at)
    ]
    assert waits == [Wait.SHORT, Wait.HOLD, Wait.SHORT]


def test_a_changed_output_is_sent_at_once():
    healthy, lost = OWN["dcgm-health"], b'{"body":{"Overall Health":{"value":"Failure"}}}'
    numbers = [
        number for number, _ in sent(UnchangedOutput(600), "dcgm-health", [healthy] * 3 + [lost] * 3 + [healthy])
    ]
    assert numbers == [0, 3, 6]


@pytest.mark.parametrize("source", sorted(COUNTER_SOURCES))
def test_the_sample_before_a_changed_counter_is_sent_with_its_own_time(source):
    before = OWN[source]
    after = before.replace(b": 3\n", b": 90\n").replace(b": 1\n", b": 9\n").replace(b"} 79\n", b"} 48\n")
    assert [number for number, _ in sent(UnchangedOutput(600), source, [before] * 5 + [after] * 2)] == [0, 4, 5]


def test_output_of_an_unknown_source_and_reports_of_the_agent_are_always_sent():
    assert len(sent(UnchangedOutput(600), "faultbridge", [b"{}"] * 4)) == 4


def test_without_an_interval_all_output_is_sent():
    assert len(sent(UnchangedOutput(0), "dcgm-health", [OWN["dcgm-health"]] * 4)) == 4


def test_output_that_could_not_be_stored_is_sent_again():
    selection = UnchangedOutput(600)
    sent(selection, "dcgm-health", [OWN["dcgm-health"]])
    selection.forget("dcgm-health")
    assert len(sent(selection, "dcgm-health", [OWN["dcgm-health"]])) == 1


def test_output_that_found_no_room_on_disk_is_stored_after_the_next_run_of_its_probe(tmp_path):
    clock = ManualClock()
    agent = agent_with_records(tmp_path, FakeTransport(), clock, 0)
    scripted = ScriptedProbe(*[ProbeResult(Outcome.DONE, OWN["dcgm-health"])] * 2)
    agent.probes = ProbeScheduler([Probe("dcgmi", "dcgm-health", scripted.start, 60)], clock, lambda: 0.0)
    spool, unmounted = tmp_path / "spool", tmp_path / "unmounted"
    spool.rename(unmounted)
    for _ in range(2):  # start the probe, and read its output
        agent.poll()
    unmounted.rename(spool)
    assert (agent.outbox.dropped, agent.outbox.waiting) == (1, 0)
    clock.advance(60)
    for _ in range(2):
        agent.poll()
    assert agent.outbox.waiting == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_every_change_of_a_counter_is_sent_together_with_the_sample_before_it(values):
    bodies = [f"{PORT}/counters/link_downed: {value}\n".encode() for value in values]
    found = sent(UnchangedOutput(600), "rdma-counters", bodies)
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))
    assert all(bodies[number] == body for number, body in found)
    for number in range(1, len(values)):
        if values[number] != values[number - 1]:
            assert {number - 1, number} <= set(numbers)


def test_counter_samples_are_compared_over_the_time_in_which_they_rose():
    bodies = [OWN["rdma-counters"]] * 30 + [OWN["rdma-counters"].replace(b": 3\n", b": 4\n")]
    times = [number for number, _ in sent(UnchangedOutput(600), "rdma-counters", bodies)]
    assert times[-2:] == [29, 30]
