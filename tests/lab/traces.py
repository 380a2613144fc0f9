"""A small trace of the form of the InfiniteHBD trace, and scenarios on it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.lab.scenario import Physics, Scenario
from tests.lab.trace import DAY, Trace, read_trace

DATASET = Path(__file__).resolve().parents[2].parent / "shared" / "datasets" / "infinitehbd" / "fault_trace.json"
KINDS = (
    ("Hardware Failure", "GPU", "GPU DBE(Double Bit ECC) > Threshold", 3.0),
    ("Hardware Failure", "GPU", "GPU Lost", 40.0),
    ("Hardware Failure", "Fan", "Speed Critical (Sensor)", 60.0),
    ("Hardware Failure", "Parameter Plane Cable", "Link Down", 50.0),
    ("Software Failure", "Software Tool", "Kubelet Date Absent", 0.3),
    ("Other Failure", "Unknown Error", "Unknown Error", 0.5),
)


def sample_text(servers: int = 20, days: int = 60, seed: int = 3) -> str:
    """Write a trace: every second server fails one to eight times, and some faults begin at the same instant."""
    random, events = Random(seed), []
    for server in range(0, servers, 2):
        at = random.uniform(0, days / 2)
        for _ in range(random.choice((1, 1, 2, 4, 8))):
            level, kind, text, hours = random.choice(KINDS)
            repair = hours * random.uniform(0.3, 3) / 24
            if at + repair >= days:
                break
            fault_type = {"Level": level, "Class": kind, "Desc": text}
            row = {"node_id": f"server-{server}", "fault_type": fault_type}
            events.append({**row, "event_time": round(at, 4), "event_type": "fault_start"})
            events.append({**row, "event_time": round(at + repair, 4), "event_type": "fault_end"})
            at += repair + random.choice((0.2, 2.0, 9.0))
    return json.dumps(sorted(events, key=lambda one: one["event_time"]))


def sample(servers: int = 20, **others: int) -> Trace:
    return read_trace(sample_text(servers, **others), servers)


def scenario(nodes: int = 10, pool: int = 2, days: float = 30, seed: int = 1, **physics: float) -> Scenario:
    return Scenario(sample(), nodes, pool, days * DAY, seed, Physics(**physics))


def dataset() -> Trace:
    if not DATASET.is_file():
        pytest.skip(f"the InfiniteHBD trace is not here: {DATASET}")
    return read_trace(DATASET.read_text(encoding="utf-8"), 400)
