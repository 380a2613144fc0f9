"""The entries of our own stages give events that are valid for producers."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.decide import entry_builder
from faultbridge.decide.fold.changes import ADDED_CODE, Change, ChangeKind
from faultbridge.model.cases import Case, case_id
from faultbridge.model.conditions import Condition, Reporter, condition_key
from faultbridge.model.entries import Draft, Stream, chain, seal
from faultbridge.model.enums import (
    Actor,
    CaseStatus,
    EntryType,
    NodeStatus,
    NoteKind,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.event_data import EVENTS
from faultbridge.model.events import CaseStatusChange, NodeFaultUpdated, read
from faultbridge.model.events.wire import body_of, detail_of
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component
from faultbridge.model.nodes import Head, Incarnation
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, KEY, NOON, POLICY, STACK_ID, fault, node
from tests.events.validate import assert_valid_event, watch_entries

ALL_NAMES = Component(ComponentType.NVLINK, "0008:06:00.1", "GPU-1", 5, "1652523010451", 17, "nvlink17")
INCARNATION = Incarnation(2, 3, "i-0aaaaaaaaaaaaaaa1", "boot", NOON)
CONDITION = Condition(
    code="xid.79",
    component=GPU,
    severity=Severity.FATAL,
    action=Action.REPLACE_NODE,
    scope=CATALOG.row("xid.79").scope,
    ends_on=("replace_node",),
    since=NOON,
    last_at=NOON,
    message="GPU has fallen off the bus.",
    reporters={"kernel-log xid.79": Reporter(active=True, last_at=NOON)},
    attributes={"pid": "1234"},
    mode="gpu.lost",
)
STATE = node(incarnation=INCARNATION, conditions={condition_key("gpu.lost", GPU): CONDITION})
CASE = Case(
    id=case_id(STACK_ID, *KEY, 1, 2),
    status=CaseStatus.OPEN,
    opened_at=NOON,
    code="xid.79",
    mode="gpu.lost",
    component=GPU,
    severity=Severity.FATAL,
    action=Action.REPLACE_NODE,
    repair_action=RepairAction.REPLACE_NODE,
    rule="default",
    policy="test-policy",
    waiting_for=WaitingFor.WAIT,
    not_before=NOON + timedelta(seconds=90),
    marks={"detected": NOON, "open": NOON},
)
CLOSED = replace(
    CASE,
    status=CaseStatus.RESOLVED,
    resolution=Resolution.REPLACED,
    waiting_for=None,
    previous_case=case_id(STACK_ID, *KEY, 1, 1),
    marks={"detected": NOON, "open": NOON + timedelta(seconds=1), "resolved": NOON + timedelta(hours=1)},
)


def changed(kind: ChangeKind, condition: Condition | None = CONDITION, **others: object) -> Draft:
    """Return the draft of a change to a condition."""
    given = {"fault": fault(attributes={"pid": "1"}), "record_id": "r-1"} | others
    change = Change(kind, NOON, condition, **given)  # type: ignore[arg-type]  # values of several types
    return entry_builder.fault_change(change, STATE, CATALOG, POLICY)


DRAFTS = {
    "a condition begins": changed(ChangeKind.BEGAN),
    "another source's code for it": changed(
        ChangeKind.UPDATED, fault=fault("smi.gpu_lost"), changed_parts=(ADDED_CODE,)
    ),
    "a component with every name": changed(ChangeKind.BEGAN, replace(CONDITION, component=ALL_NAMES)),
    "an unknown incarnation": changed(ChangeKind.BEGAN, replace(CONDITION, known_incarnation=False)),
    "a condition changes": changed(ChangeKind.UPDATED, changed_parts=("count", "reporters")),
    "a condition ends": changed(ChangeKind.ENDED, fault=None, reason="no longer present"),
    "information": changed(ChangeKind.NOTED, None),
    "a late fault": changed(ChangeKind.LATE, None, reason="two hours old"),
    "a node is registered": entry_builder.status_change(
        node(None, incarnation=None), NodeStatus.PROVISIONING, NOON, "added"
    ),
    "a node degrades": entry_builder.status_change(STATE, NodeStatus.DEGRADED, NOON, "xid.79"),
    "a case opens": entry_builder.case_change(None, CASE, NOON, "xid.79", STATE),
    "a case moves": entry_builder.case_change(
        CaseStatus.OPEN, replace(CASE, status=CaseStatus.QUEUED), NOON, "wait over"
    ),
    "a case ends": entry_builder.case_change(CaseStatus.IN_PROGRESS, CLOSED, NOON + timedelta(hours=1), "done", STATE),
    "a step": entry_builder.step(
        CASE, "verify", "passed", NOON, new_instance="i-1", facts={"level": 3}, evidence="PASS"
    ),
    "an order": entry_builder.note(
        kind=NoteKind.OPERATOR, text="keep it", at=NOON, case_id=CASE.id, facts={"by": "arn"}
    ),
}


def published(draft: Draft, stream: Stream | None = None) -> str:
    """Return the detail of the event of a draft."""
    stream = stream or Stream(STACK_ID, "faultbridge", *KEY)
    (entry,), _ = seal(stream, Head(), [draft], actor=Actor.INGEST, severity=Severity.FATAL, recorded_at=NOON)
    return detail_of(entry.body, entry.evidence)


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_every_draft_gives_a_valid_event_that_can_be_read(draft: Draft) -> None:
    detail = published(draft)
    assert_valid_event(json.loads(detail))
    assert type(read(detail)).event_type == draft.type.value
    assert type(draft.data) is EVENTS[draft.type][0]


def test_a_note_about_a_cluster_has_no_node() -> None:
    draft = entry_builder.note(kind=NoteKind.ANCHOR, text="heads anchored", at=NOON)
    event = json.loads(published(draft, Stream(STACK_ID, "faultbridge", KEY.cluster)))
    assert_valid_event(event)
    assert event["metadata"]["node"] is None


def test_the_drafts_cover_every_entry_type_of_nodes() -> None:
    node_types = {kind for kind in EntryType if kind.value.startswith(("Node", "Case"))}
    assert {draft.type for draft in DRAFTS.values()} == node_types


def test_a_case_event_contains_the_fault_and_its_place() -> None:
    event = read(published(DRAFTS["a case opens"]))
    assert isinstance(event, CaseStatusChange)
    assert event.data.cause.message == "GPU has fallen off the bus."
    assert event.data.incarnation is not None
    assert event.data.incarnation.instance_id == "i-0aaaaaaaaaaaaaaa1"
    assert event.data.placement is not None
    assert event.data.placement.group == "gpu-workers"
    assert event.data.detected_at == NOON


def test_the_hash_of_an_entry_can_be_computed_from_its_event() -> None:
    stream = Stream(STACK_ID, "faultbridge", *KEY)
    drafts = [DRAFTS["a condition begins"], DRAFTS["a case opens"], DRAFTS["a step"]]
    entries, _ = seal(stream, Head(), drafts, actor=Actor.INGEST, severity=None, recorded_at=NOON)
    previous = stream.genesis(1)
    for entry in entries:
        through_a_bus = json.dumps(json.loads(detail_of(entry.body, entry.evidence)), indent=1)
        body = body_of(through_a_bus)
        assert body is not None
        assert chain(previous, body) == entry.hash
        previous = entry.hash


def test_an_event_contains_the_first_code_and_the_added_one() -> None:
    event = read(published(DRAFTS["another source's code for it"]))
    assert isinstance(event, NodeFaultUpdated)
    assert (event.data.code, event.data.added_code) == ("xid.79", "smi.gpu_lost")


def test_the_closed_form_refuses_undescribed_values_and_fields() -> None:
    event = json.loads(published(DRAFTS["an order"]))
    with pytest.raises(AssertionError, match="'gossip' is not one of"):
        assert_valid_event({**event, "data": event["data"] | {"kind": "gossip"}})
    with pytest.raises(AssertionError, match="'mood' was unexpected"):
        assert_valid_event({**event, "data": event["data"] | {"mood": "fine"}})


def test_watched_entries_fail_on_an_entry_outside_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    watch_entries(monkeypatch)
    published(DRAFTS["a step"])
    with pytest.raises(AssertionError, match="'gossip' is not one of"):
        published(entry_builder.note(kind="gossip", text="unconfirmed", at=NOON))
