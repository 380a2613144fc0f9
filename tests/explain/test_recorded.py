"""Recorded evidence: what Faultbridge's own entries and heartbeats state about the nodes of a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.explain.signals.read_files import AFTER_END, RecordedWindow, recorded_evidence
from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from faultbridge.model.recorded import read_event
from faultbridge.model.times import to_text
from tests.builders import NOON
from tests.explain.verdicts import verdict

WINDOW = RecordedWindow("job 1", "train-a", frozenset({"n-1", "n-2"}), NOON - timedelta(minutes=30), NOON)


def fault(node: str = "n-1", code: str = "xid.79", at: datetime = NOON, **data: Any) -> dict[str, Any]:
    component = {"type": "gpu", "pci": "0000:c1:00", "name": None}
    return {
        "metadata": {"event_type": "Node Fault Detected", "cluster": "train-a", "node": node, "sequence": 7},
        "data": {
            "code": code,
            "component": component,
            "severity": "fatal",
            "action": "replace_node",
            "message": "GPU has fallen off the bus",
            "observed_at": to_text(at),
            **data,
        },
    }


def read(*events: dict[str, Any], **heartbeats: datetime) -> tuple[tuple[Signal, ...], tuple[LogSpan, ...]]:
    named = {name.replace("_", "-"): at for name, at in heartbeats.items()}
    return recorded_evidence(WINDOW, map(read_event, events), named, {"xid.94": Role.CASCADE})


def test_a_recorded_fault_is_evidence_of_its_node_with_its_place_in_the_timeline() -> None:
    ((signal,), _) = read(fault())
    assert (signal.trust, signal.role, signal.node, signal.at) == (Trust.NODE, Role.INITIATING, "n-1", NOON)
    assert (signal.file, signal.line, signal.kind) == ("timeline of train-a/n-1", 7, "fault.gpu.fatal")


def test_roles_of_codes_apply_and_a_harmless_fault_is_context() -> None:
    signals, _ = read(fault(code="xid.94"), fault(code="xid.13", severity="info", action="none"))
    assert [one.role for one in signals] == [Role.CASCADE, Role.CONTEXT]


@pytest.mark.parametrize(
    "outside",
    [
        fault(node="n-9"),
        fault(at=WINDOW.since - timedelta(seconds=1)),
        fault(at=WINDOW.ended_at + AFTER_END + timedelta(seconds=1)),
    ],
    ids=["another node", "before the window", "long after the end"],
)
def test_other_nodes_and_other_times_are_left_out(outside: dict[str, Any]) -> None:
    assert read(outside)[0] == ()


def test_a_fault_that_was_recorded_twice_is_one_signal_with_a_count() -> None:
    ((signal,), _) = read(fault(), fault(at=NOON + timedelta(seconds=5)))
    assert signal.count == 2


def test_a_node_is_covered_by_its_heartbeats_and_the_job_by_its_end() -> None:
    _, spans = read(n_1=NOON, n_9=NOON)
    assert [(one.trust, one.node, one.last_at) for one in spans] == [(Trust.JOB, None, NOON), (Trust.NODE, "n-1", NOON)]


def test_a_silent_node_and_one_without_heartbeats_are_not_covered() -> None:
    _, spans = read(fault(code="host.silent"), n_1=NOON)
    assert [one.node for one in spans] == [None]


FILE = Path(__file__).parent / "corpus" / "excerpts.yaml"


@cache
def verdicts() -> tuple[tuple[Mapping[str, Any], Verdict], ...]:
    rows = yaml.load(FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tuple((row, verdict(row["log"], nodes={})) for row in rows)


def test_no_excerpt_of_a_job_that_may_restart_stops_it() -> None:
    assert len({row["name"] for row, _ in verdicts()}) == len(verdicts()) == 223
    stopped = [row["name"] for row, one in verdicts() if one.outlook is Outlook.STOP and row["verdict"] != "STOP"]
    assert stopped == []


def test_restart_or_stop_and_the_domain_are_right_in_as_many_excerpts_as_were_measured() -> None:
    right = [row["name"] for row, one in verdicts() if (row["verdict"] == "STOP") is (one.outlook is Outlook.STOP)]
    named = [row["name"] for row, one in verdicts() if one.domain in {row["domain"], *row.get("also", ())}]
    assert len(right) >= 218
    assert len(named) >= 219


def test_no_hardware_is_blamed_without_the_logs_of_a_node() -> None:
    assert [row["name"] for row, one in verdicts() if one.nodes or one.hardware.state == "blamed"] == []
