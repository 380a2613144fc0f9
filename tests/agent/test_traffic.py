"""Traffic: a node of a hung job stops sending, which is reported once; checkpoints and evaluation are no stops."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.node.agent.agent import build_agent
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.agent.traffic import CODE, SAMPLE_SECONDS, TrafficWatch, sent_bytes
from tests.agent.fakes import FakeTransport, ManualClock

MINUTE, LIMIT = 60, 900
GB = 1_000_000_000
TRAINS = (60 * MINUTE, 20 * GB)
HUNG = (40 * MINUTE, 0)
Phase = tuple[int, int]
"""How long a part of a recording lasts, in seconds, and the bytes a second that the node sends in it."""


def replay(recording: Iterable[Phase], limit: int = LIMIT) -> list[dict[str, Any]]:
    """Return the reports of a watch about a recording, each with the seconds since its start."""
    clock, sent, found = ManualClock(), 0, list[dict[str, Any]]()
    watch, start = TrafficWatch(lambda: sent, limit), clock.monotonic()
    for seconds, rate in recording:
        for _ in range(0, seconds, 10):
            clock.advance(10)
            sent += 10 * rate
            for source, body in watch.poll(clock.now(), clock.monotonic()):
                found.append(json.loads(body) | {"source": source, "after": clock.monotonic() - start})
    return found


HANGS = {
    "a rank that waits for ever": [TRAINS, HUNG],
    "a hang after a checkpoint": [TRAINS, (4 * MINUTE, 0), (30 * MINUTE, 20 * GB), HUNG],
    "a hang beside the chatter of the fabric": [TRAINS, (40 * MINUTE, 20_000)],
}

CLEAN = {
    "steady steps": [(300 * MINUTE, 20 * GB)],
    "a slow job": [(300 * MINUTE, 15_000_000)],
    "checkpoints of ten minutes": [TRAINS, (10 * MINUTE, 0)] * 6,
    "an evaluation on single nodes": [TRAINS, (12 * MINUTE, 300_000), TRAINS],
    "steps with long gradient accumulation": [(5 * MINUTE, 0), (MINUTE, 5 * GB)] * 40,
    "a start that loads data for an hour": [(60 * MINUTE, 0), TRAINS],
    "a node without work": [(600 * MINUTE, 0)],
    "a short test of the fabric": [(5 * MINUTE, 40 * GB), (300 * MINUTE, 0)],
    "a job on one node": [(600 * MINUTE, 30_000)],
    "a rolling restart": [TRAINS, (14 * MINUTE, 0), (MINUTE, 2_000_000), (14 * MINUTE, 0), TRAINS],
}


@pytest.mark.parametrize("recording", HANGS.values(), ids=HANGS)
def test_a_node_of_a_hung_job_is_reported_once_a_quarter_of_an_hour_after_its_last_data(
    recording: list[Phase],
) -> None:
    (report,) = replay(recording)
    assert (report["kind"], report["code"]) == ("fault", CODE)
    hung_at = sum(seconds for seconds, _ in recording[:-1])
    assert LIMIT <= report["after"] - hung_at <= LIMIT + 2 * SAMPLE_SECONDS


@pytest.mark.parametrize("recording", CLEAN.values(), ids=CLEAN)
def test_checkpoints_evaluation_starts_and_idle_nodes_are_not_reported(recording: list[Phase]) -> None:
    assert replay(recording) == []


def test_the_report_ends_when_the_node_sends_again_and_a_second_hang_is_reported_too() -> None:
    kinds = [one["kind"] for one in replay([TRAINS, HUNG, TRAINS, HUNG])]
    assert kinds == ["fault", "clear", "fault"]


def test_with_a_limit_of_zero_nothing_is_watched() -> None:
    assert replay([TRAINS, HUNG], limit=0) == []


def test_a_driver_that_counts_from_zero_again_is_no_stop() -> None:
    clock, values = ManualClock(), iter([0, 50 * GB, 0, 50 * GB])
    watch = TrafficWatch(lambda: next(values), LIMIT)
    for _ in range(4):
        clock.advance(SAMPLE_SECONDS)
        assert list(watch.poll(clock.now(), clock.monotonic())) == []


def test_the_ports_of_efa_and_of_infiniband_are_added_in_bytes(tmp_path: Path) -> None:
    for name, value in (("efa_0/ports/1/hw_counters/tx_bytes", "100"), ("mlx5_0/ports/1/counters/port_xmit_data", "7")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "mlx5_1/ports/1/counters").mkdir(parents=True)
    assert sent_bytes(tmp_path) == 100 + 7 * 4
    assert sent_bytes(tmp_path / "absent") is None


def test_the_agent_sends_the_report_and_the_catalog_knows_its_code(tmp_path: Path) -> None:
    counter = tmp_path / "class/infiniband/efa_0/ports/1/hw_counters/tx_bytes"
    counter.parent.mkdir(parents=True)
    clock, transport, sent = ManualClock(), FakeTransport(), 0
    settings = AgentSettings(
        "train-a", "https://queue", node="gpu-1", spool=tmp_path / "spool", kmsg=tmp_path / "kmsg", journal_units={},
        sysfs=tmp_path, smi_seconds=0, health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
    )  # fmt: skip
    agent = build_agent(settings, transport, clock)
    for second in range(0, 60 * MINUTE, 30):
        sent += 30 * GB if second < 30 * MINUTE else 0
        counter.write_text(str(sent))
        clock.advance(30)
        agent.poll()
    agent.sender.flush()
    agent.sender.send_due()
    (body,) = transport.bodies("faultbridge")
    (fault,) = registry.decode("faultbridge", body)
    assert load_catalog().row(fault.code).mode == "app.no_traffic"
