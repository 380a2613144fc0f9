"""Entry builder: the complete data of the drafts of faults, statuses, cases, notes and steps."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.decide.entry_builder import (
    case_change,
    component_data,
    fault_change,
    node_list,
    note,
    status_change,
    step,
)
from faultbridge.decide.fold.changes import ADDED_CODE, Change, ChangeKind
from faultbridge.model.cases import OUT_OF_SERVICE, Approval, Case
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import MAX_REASON, Draft
from faultbridge.model.enums import (
    MAX_LISTED,
    CaseStatus,
    EntryType,
    NodeStatus,
    NoteKind,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.event_data import NodeList, plain
from faultbridge.model.nodes import Incarnation
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, POLICY, after, case, condition, data_of, fault, node

NOON_TEXT = "2026-02-03T12:00:00.000Z"
CASE = case(RepairAction.REPLACE_NODE)
CLOSED = replace(
    CASE,
    status=CaseStatus.RESOLVED,
    resolution=Resolution.REPLACED,
    gpus=8,
    marks={
        "detected": NOON,
        CaseStatus.IN_PROGRESS: after(seconds=1),
        OUT_OF_SERVICE: after(seconds=2),
        CaseStatus.RESOLVED: after(seconds=3),
    },
)
CONDITION = replace(condition(), attributes={"pid": "7"})
STATE = node(
    incarnation=Incarnation(2, 3, "i-0aaaaaaaaaaaaaaa1", "boot", NOON),
    conditions={"xid.1@gpu/pci=0000:c1:00": CONDITION},
    case=CASE,
)
COMPONENT = plain(component_data(GPU))
INCARNATION = {"instance_id": "i-0aaaaaaaaaaaaaaa1", "instance": 2, "boot": 3}
LONG = "x" * 3000
PLACEMENT = {"group": "gpu-workers", "instance_type": "p5.48xlarge", "domain": None, "domains": {}}


def changed(kind: ChangeKind, about: Condition | None = CONDITION, **others: Any) -> Draft:
    given = {"fault": fault("xid.1", attributes={"pid": "8"}), "record_id": "r-1"} | others
    return fault_change(Change(kind, NOON, about, **given), STATE, CATALOG, POLICY)


def test_the_entry_of_a_fault_has_the_condition_and_what_the_source_reported() -> None:
    draft = changed(ChangeKind.UPDATED, changed_parts=("count",), reason="more")
    assert data_of(draft) == {
        "code": "xid.1",
        "component": COMPONENT,
        "severity": "fatal",
        "action": "replace_node",
        "message": "a fault",
        "since": NOON_TEXT,
        "count": 1,
        "reporters": ["kernel-log"],
        "incarnation": INCARNATION,
        "placement": PLACEMENT,
        "rule": "default",
        "policy": "test-policy",
        "observed_at": NOON_TEXT,
        "source": "kernel-log",
        "failure_mode": "xid.1",
        "codes": ["xid.1"],
        "attributes": {"pid": "8"},
        "changed": ["count"],
        "reason": "more",
        "catalog": CATALOG.version,
    }
    assert (draft.type, draft.causation_id, draft.evidence) == (EntryType.FAULT_UPDATED, "r-1", "raw xid.1")
    assert (draft.case_id, draft.subject) == ("c-1", "xid.1@gpu/pci=0000:c1:00")


def test_the_entry_of_a_condition_that_ended_without_a_report_has_the_attributes_of_the_condition() -> None:
    draft = changed(ChangeKind.ENDED, fault=None, record_id=None)
    named = ("source", "attributes", "reason")
    assert [data_of(draft)[name] for name in named] == [None, {"pid": "7"}, None]
    assert (draft.type, draft.causation_id, draft.evidence) == (EntryType.FAULT_CLEARED, None, "")


def test_the_entry_of_a_further_code_names_it() -> None:
    draft = changed(ChangeKind.UPDATED, fault=fault("smi.gpu_lost"), changed_parts=(ADDED_CODE,))
    assert (data_of(draft)["code"], data_of(draft)["added_code"]) == ("xid.1", "smi.gpu_lost")
    assert "added_code" not in data_of(changed(ChangeKind.UPDATED, fault=fault("smi.gpu_lost")))


def test_a_fault_names_an_incarnation_only_if_it_is_known_and_a_case_only_if_it_is_open() -> None:
    assert data_of(changed(ChangeKind.BEGAN, replace(CONDITION, known_incarnation=False)))["incarnation"] is None
    change = Change(ChangeKind.BEGAN, NOON, CONDITION)
    assert fault_change(change, replace(STATE, case=CLOSED), CATALOG, POLICY).case_id is None


@pytest.mark.parametrize(("reason", "text"), [("two hours old", "two hours old"), ("", "xid.1 happened")])
def test_a_change_without_a_condition_is_a_note_with_its_reason_or_the_message_of_the_fault(
    reason: str, text: str
) -> None:
    draft = changed(ChangeKind.LATE, None, reason=reason, facts={"sender": "one"})
    assert draft.type is EntryType.NOTE
    assert data_of(draft) == {
        "kind": "late_fault",
        "text": text,
        "about": {"code": "xid.1", "component": COMPONENT},
        "facts": {"sender": "one"},
        "operator": None,
    }
    assert (draft.case_id, draft.causation_id, draft.evidence) == (None, "r-1", "raw xid.1")


def test_a_note_about_no_fault_has_no_evidence_and_a_stage_only_if_one_is_given() -> None:
    bare = note(kind=NoteKind.DEVICES, text="new", at=NOON)
    assert data_of(bare) == {"kind": "devices", "text": "new", "about": None, "facts": {}, "operator": None}
    assert bare.evidence == ""
    lasting = note(kind=NoteKind.APPROVAL, text="", at=NOON, stage="begun", case_id="c-1", operator="arn")
    assert (data_of(lasting)["stage"], data_of(lasting)["operator"], lasting.case_id) == ("begun", "arn", "c-1")


def test_the_entry_of_a_status_has_the_place_of_the_node_and_its_open_case() -> None:
    draft = status_change(STATE, NodeStatus.DEGRADED, NOON, "xid.1")
    assert data_of(draft) == {
        "from": "healthy",
        "to": "degraded",
        "reason": "xid.1",
        "incarnation": INCARNATION,
        "isolation": "none",
        "unverified": False,
        "placement": PLACEMENT,
    }
    assert draft.case_id == "c-1"


@pytest.mark.parametrize(
    ("state", "given", "case_id"), [(STATE, "c-2", "c-2"), (replace(STATE, case=CLOSED), None, None)]
)
def test_the_entry_of_a_status_has_the_given_case_and_no_closed_one(
    state: Any, given: str | None, case_id: str
) -> None:
    assert status_change(state, NodeStatus.DEGRADED, NOON, "xid.1", given).case_id == case_id


def test_the_first_status_of_a_node_without_an_instance_has_neither_a_status_before_nor_an_incarnation() -> None:
    draft = status_change(node(None, incarnation=None), NodeStatus.PROVISIONING, NOON, "added")
    assert (data_of(draft)["from"], data_of(draft)["incarnation"]) == (None, None)


def test_the_entry_of_a_closed_case_has_the_times_of_its_phases_and_the_lost_gpu_time() -> None:
    draft = case_change(CaseStatus.IN_PROGRESS, CLOSED, after(seconds=3), "repaired", STATE)
    assert data_of(draft) == {
        "from": "in_progress",
        "to": "resolved",
        "reason": "repaired",
        "waiting_for": None,
        "resolution": "replaced",
        "cause": {
            "failure_mode": "xid.1",
            "code": "xid.1",
            "codes": ["xid.1"],
            "component": COMPONENT,
            "message": "a fault",
        },
        "severity": "fatal",
        "action": "replace_node",
        "repair_action": "replace_node",
        "attempt": 0,
        "opened_at": NOON_TEXT,
        "detected_at": NOON_TEXT,
        "not_before": None,
        "answer_by": None,
        "phases": {"detected": 1000, "in_progress": 2000},
        "gpus": 8,
        "gpu_time_lost": 8_000,
        "receipt": {
            "recorded": 8_000,
            "provider_repair": 8 * (10 + 5) * 60_000,
            "no_automation": 8 * 4 * 3_600_000,
            "unknown": ["detection", "launch", "operator", "lost_work"],
        },
        "previous_case": None,
        "owner": None,
        "owner_note": "",
        "acknowledged_until": None,
        "rule": "rule",
        "policy": "p",
        "incarnation": INCARNATION,
        "placement": PLACEMENT,
    }
    assert (draft.case_id, draft.subject) == ("c-1", "xid.1@gpu/pci=0000:c1:00")


def moved(about: Case, *names: str) -> list[Any]:
    """Return parts of the data of an entry that is written without the state of the node."""
    data = data_of(case_change(None, about, NOON, "moved"))
    return [data.get(name) for name in names]


def test_the_entry_of_an_open_case_has_neither_phases_nor_lost_gpu_time() -> None:
    assert moved(replace(CASE, gpus=8), "from", "phases", "gpu_time_lost", "resolution") == [None, {}, None, None]


def test_the_entry_of_a_case_without_the_state_of_its_node_has_neither_its_place_nor_the_message() -> None:
    assert moved(CASE, "incarnation", "placement", "detected_at") == [None, None, None]
    assert moved(CASE, "cause")[0]["message"] is None


def test_the_entry_of_a_case_has_no_message_once_the_condition_ended() -> None:
    data = data_of(case_change(None, CASE, NOON, "moved", replace(STATE, conditions={})))
    assert (data["cause"]["message"], data["incarnation"]) == (None, INCARNATION)


def test_the_entry_of_a_case_that_waits_states_for_what_and_until_when() -> None:
    approval = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))
    waiting = replace(CASE, waiting_for=WaitingFor.APPROVAL, not_before=NOON, approval=approval)
    expected = ["approval", NOON_TEXT, "2026-02-03T13:00:00.000Z"]
    assert moved(waiting, "waiting_for", "not_before", "answer_by") == expected
    assert moved(replace(waiting, status=CaseStatus.IN_PROGRESS), "answer_by") == [None]


def test_the_entry_of_a_case_names_its_incident_and_the_case_of_which_it_is_a_relapse() -> None:
    assert moved(replace(CASE, incident="inc-1", relapse_of="c-0"), "incident_id", "relapse_of") == ["inc-1", "c-0"]
    assert moved(CASE, "incident_id", "relapse_of") == [None, None]


def test_the_entry_of_a_step_has_its_outcome_reason_and_facts() -> None:
    draft = step(CASE, "verify", "failed", NOON, reason="one GPU", facts={"level": 3}, evidence="FAIL")
    assert data_of(draft) == {
        "step": "verify",
        "outcome": "failed",
        "attempt": 0,
        "repair_action": "replace_node",
        "reason": "one GPU",
        "failure": None,
        "operation": None,
        "old_instance": None,
        "new_instance": None,
        "facts": {"level": 3},
    }
    assert (draft.case_id, draft.evidence) == ("c-1", "FAIL")
    bare = step(CASE, "verify", "passed", NOON)
    assert (data_of(bare)["reason"], data_of(bare)["facts"]) == (None, {})


def test_a_list_of_nodes_has_the_number_of_all_nodes_and_the_first_names() -> None:
    names = [f"n-{number:02}" for number in range(MAX_LISTED + 1)]
    assert node_list(list(reversed(names))) == NodeList(count=MAX_LISTED + 1, listed=tuple(names[:MAX_LISTED]))
    assert node_list(["n-1"], 7) == NodeList(count=7, listed=("n-1",))


@pytest.mark.parametrize(
    "draft",
    [
        status_change(STATE, NodeStatus.DEGRADED, NOON, LONG),
        case_change(None, CASE, NOON, LONG),
        step(CASE, "verify", "failed", NOON, reason=LONG),
    ],
    ids=["node", "case", "step"],
)
def test_the_reason_of_an_entry_has_a_limited_length(draft: Draft) -> None:
    assert len(data_of(draft)["reason"]) == MAX_REASON
