"""Every type of event has a line of text; an unknown type is named by its type."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.domain.entries import EntryType
from faultbridge.ledger.entry_text import component_text, duration_text, entry_text

GPU = {"type": "gpu", "pci": "0000:c1:00", "uuid": None, "index": 3, "serial": "165", "link": None, "name": None}
FAULT = {"code": "xid.79", "component": GPU, "severity": "fatal", "message": "fell off the bus", "count": 12}


def text_of(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    line = entry_text({"metadata": {"event_type": kind}, "data": data})
    return line.what, line.why


@pytest.mark.parametrize(
    ("kind", "data", "what", "why"),
    [
        (EntryType.FAULT_DETECTED, FAULT, "fatal xid.79 gpu 0000:c1:00 detected", "fell off the bus"),
        (EntryType.FAULT_UPDATED, FAULT, "fatal xid.79 gpu 0000:c1:00 changed (seen 12 times)", "fell off the bus"),
        (EntryType.FAULT_CLEARED, FAULT | {"reason": "reboot"}, "fatal xid.79 gpu 0000:c1:00 cleared", "reboot"),
        (
            EntryType.NODE_STATUS,
            {"from": None, "to": "healthy", "unverified": True},
            "node new -> healthy (never verified)",
            "",
        ),
        (
            EntryType.NODE_STATUS,
            {"from": "healthy", "to": "degraded", "reason": "xid.79"},
            "node healthy -> degraded",
            "xid.79",
        ),
        (
            EntryType.CASE_STATUS,
            {"from": "open", "to": "queued", "waiting_for": "admission"},
            "case open -> queued (waiting for admission)",
            "",
        ),
        (
            EntryType.CASE_STATUS,
            {"from": "in_progress", "to": "resolved", "resolution": "replaced"},
            "case in_progress -> resolved (replaced)",
            "",
        ),
        (
            EntryType.CLUSTER_STATUS,
            {"from": "healthy", "to": "degraded", "reason": "1 failed"},
            "cluster healthy -> degraded",
            "1 failed",
        ),
        (
            EntryType.REPLACEMENT_STEP,
            {"step": "await", "outcome": "done", "attempt": 1, "old_instance": "i-1", "new_instance": "i-2"},
            "await done (attempt 1, i-1 -> i-2)",
            "",
        ),
        (
            EntryType.REPLACEMENT_STEP,
            {"step": "verify", "outcome": "begun", "attempt": 1, "operation": "7c1a"},
            "verify begun (attempt 1)",
            "",
        ),
        (
            EntryType.REPLACEMENT_STEP,
            {"step": "intent", "outcome": "done", "attempt": 2, "old_instance": "i-1", "reason": "given up"},
            "intent done (attempt 2, i-1)",
            "given up",
        ),
        (
            EntryType.CLUSTER_INCIDENT,
            {"change": "opened", "from": None, "to": "open", "cause": {"text": "rack 7"}},
            "incident opened: new -> open",
            "rack 7",
        ),
        (
            EntryType.CLUSTER_SAFETY,
            {"kind": "breaker", "from": "closed", "to": "open", "reason": "9 of 40"},
            "breaker closed -> open",
            "9 of 40",
        ),
        (EntryType.JOB, {"job_id": "77", "change": "hit", "reason": "xid.79"}, "job 77 hit", "xid.79"),
        (
            EntryType.JOB_EXPLAINED,
            {
                "job_id": "7",
                "verdict": "RESTART_WITHOUT",
                "nodes": {"count": 1, "listed": ["gpu-1"]},
                "mechanism": "gpu_lost",
                "summary": "a GPU was lost",
            },
            "job 7 explained: RESTART_WITHOUT gpu-1",
            "gpu_lost: a GPU was lost",
        ),
        (
            EntryType.NOTE,
            {"kind": "late_fault", "text": "too late", "about": {"code": "xid.48", "component": GPU}},
            "late fault: xid.48 gpu 0000:c1:00",
            "too late",
        ),
        ("Something Newer", {"a": 1}, "Something Newer", ""),
        (EntryType.NODE_STATUS, {}, "Node Status Change", ""),
    ],
)
def test_an_event_has_one_line_of_text(kind: str, data: dict[str, Any], what: str, why: str) -> None:
    assert text_of(kind, data) == (what, why)


def test_every_type_of_entry_has_a_text() -> None:
    for kind in EntryType:
        assert text_of(kind, {"from": "a", "to": "b"})[0]


@pytest.mark.parametrize(
    ("component", "text"),
    [
        (None, ""),
        ({"type": "node"}, "node"),
        ({"type": "gpu", "index": 0}, "gpu #0"),
        ({"type": "nvlink", "pci": "0000:c1:00", "link": 4}, "nvlink 0000:c1:00 link 4"),
        ({"type": "nic", "name": "mlx5_0"}, "nic mlx5_0"),
    ],
)
def test_a_component_is_named_by_its_type_and_its_most_exact_name(component: Any, text: str) -> None:
    assert component_text(component) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.0s"), (1234, "1.2s"), (59_999, "59.9s"), (60_000, "1m 00s"), (3_661_000, "1h 01m"), (90_000_000, "1d 01h")],
)
def test_a_duration_has_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
