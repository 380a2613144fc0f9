"""Every type of event has a line of text; an unknown type is named by its type."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.enums import ConditionKind, EntryType
from faultbridge.model.event_data import Component, EventData, ProviderCondition
from faultbridge.model.recorded import RecordedEvent, as_structure, read_event
from faultbridge.record.entry_text import (
    answer_text,
    component_text,
    condition_text,
    duration_text,
    entry_text,
    in_phase_order,
    nodes_text,
    source_answers,
)

GPU = {"type": "gpu", "pci": "0000:c1:00", "uuid": None, "index": 3, "serial": "165", "link": None, "name": None}
FAULT = {"code": "xid.79", "component": GPU, "severity": "fatal", "message": "fell off the bus", "count": 12}


def text_of(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    line = entry_text(kind, read_event({"metadata": {"event_type": kind}, "data": data}).data)
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
        (
            EntryType.FAULT_UPDATED,
            FAULT | {"failure_mode": "gpu.lost", "added_code": "smi.gpu_lost", "component": None, "count": None},
            "fatal xid.79 (gpu.lost) changed, also reported as smi.gpu_lost",
            "fell off the bus",
        ),
        (EntryType.FAULT_UPDATED, FAULT | {"count": None}, "fatal xid.79 gpu 0000:c1:00 changed", "fell off the bus"),
        (
            EntryType.CASE_STATUS,
            {"from": None, "to": "open", "waiting_for": "wait", "reason": "new fault"},
            "case new -> open (waiting period)",
            "new fault",
        ),
        (EntryType.CASE_STATUS, {"from": "queued", "to": "in_progress"}, "case queued -> in_progress", ""),
        (EntryType.CLUSTER_STATUS, {"from": "degraded", "to": "degraded"}, "cluster still degraded", ""),
        (
            EntryType.CLUSTER_INCIDENT,
            {"change": "closed", "from": "open", "to": "closed", "reason": "no node is affected"},
            "incident closed: open -> closed",
            "no node is affected",
        ),
        (
            EntryType.JOB_EXPLAINED,
            {"job_id": "7", "verdict": "STOP", "nodes": None, "mechanism": None, "summary": "a bug"},
            "job 7 explained: STOP",
            "unknown: a bug",
        ),
        (EntryType.NOTE, {"kind": None, "text": "by hand"}, "note", "by hand"),
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
        ({"type": "gpu", "uuid": "GPU-1", "index": 0, "name": "x"}, "gpu GPU-1"),
        ({"type": "gpu", "pci": "0000:c1:00", "uuid": "GPU-1"}, "gpu 0000:c1:00"),
        ({"type": "nvlink", "index": 2, "link": 0}, "nvlink #2 link 0"),
        ({"pci": "0000:c1:00"}, "0000:c1:00"),
    ],
)
def test_a_component_is_named_by_its_type_and_its_most_exact_name(component: Any, text: str) -> None:
    known = None if component is None else as_structure(Component, component)
    assert component_text(known) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (1234, "1.2 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (187_000, "3.1 min"),
        (7_199_000, "120 min"),
        (7_200_000, "2 h"),
        (90_000_000, "25 h"),
        (216_000_000, "2.5 d"),
    ],
)
def test_a_duration_has_one_unit(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("group", "text"), [(None, "no capacity: none left"), ("a", "no capacity in group a: none left")]
)
def test_a_report_of_the_provider_names_its_group_if_it_has_one(group: str | None, text: str) -> None:
    condition = ProviderCondition(kind=ConditionKind.NO_CAPACITY, group=group, message="none left", since=None)
    assert condition_text(condition) == text


@pytest.mark.parametrize(("target", "text"), [(3, "4 registered"), (4, "4 registered"), (5, "4 of 5 registered")])
def test_the_number_of_nodes_names_the_target_only_while_some_are_missing(target: int, text: str) -> None:
    assert nodes_text(4, target) == text


def test_the_answers_of_capacity_sources_are_those_of_the_latest_entry_that_has_some() -> None:
    def entry(minute: int, *sources: str) -> RecordedEvent[EventData | None]:
        facts = {"capacity_sources": [{"source": one} for one in sources]}
        metadata = {"event_type": EntryType.REPLACEMENT_STEP, "occurred_at": f"2026-02-03T12:0{minute}:00.000Z"}
        return read_event({"metadata": metadata, "data": {"facts": facts}})

    others = [entry(5), read_event({"metadata": {"event_type": "New"}, "data": {}})]
    found = source_answers([entry(1, "old"), entry(3, "spare_pool", "on_demand"), entry(2, "older"), *others])
    assert [one["source"] for one in found] == ["spare_pool", "on_demand"]
    assert source_answers(others) == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"source": "own_reservation", "decision": "used", "free": 3}, "own reservation: counts, 3 free"),
        ({"source": "spare_pool", "decision": "none_free", "free": 0}, "spare pool: nothing free, 0 free"),
        ({"source": "on_demand", "decision": "unknown", "reason": "throttled"}, "on demand: unknown (throttled)"),
        ({"source": "on_demand", "decision": "new_word"}, "on demand: new_word"),
    ],
)
def test_the_answer_of_a_source_states_what_it_has_and_why(answer: dict[str, Any], text: str) -> None:
    assert answer_text(answer) == text


def test_phases_are_listed_as_a_repair_passes_them_and_unknown_ones_last() -> None:
    phases = {"verifying": 1, "new": 2, "escalated": 3, "open": 4, "detected": 5, "draining": 6, "another": 7}
    assert [name for name, _ in in_phase_order(phases)] == [
        "detected", "open", "draining", "verifying", "escalated", "another", "new",
    ]  # fmt: skip
