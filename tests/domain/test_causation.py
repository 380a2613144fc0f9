"""The cause of an entry within one commit; whole chains are in `tests/scenarios/repair/test_causation.py`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.model.causation import continues_case, moved_by, name_causes
from faultbridge.model.entries import Draft, EntryMetadata, Stream
from faultbridge.model.enums import Actor, EntryType
from faultbridge.model.event_data import EventData
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.recorded import as_structure
from tests.builders import fault_data

NOW = datetime(2026, 2, 3, tzinfo=UTC)
STREAM = Stream("stack-id", "stack", "train-a", "node-1")


def of_fault(kind: EntryType, code: str, component: str) -> Draft:
    return Draft(kind, NOW, fault_data(code), causation_id="record", subject=f"{code}@{component}")


def test_a_case_of_a_fault_whose_device_is_identified_at_once_is_caused_by_the_detection_of_the_fault() -> None:
    """The device is identified by a record of the same batch, and another fault is found there."""
    state = NodeState(NodeKey("train-a", "node-1"))
    drafts = (
        of_fault(EntryType.FAULT_DETECTED, "dcgm.health_memory", "gpu 0"),
        of_fault(EntryType.FAULT_UPDATED, "dcgm.health_memory", "0000:53:00"),
        of_fault(EntryType.FAULT_DETECTED, "smi.row_remap_pending", "0000:c1:00"),
        Draft(EntryType.CASE_STATUS, NOW, EventData(), case_id="c-1", subject="dcgm.health_memory@0000:53:00"),
    )
    _, (detected, *_, opened) = name_causes(state, state, drafts, STREAM, Actor.INGEST)
    assert detected.causation_id == "record"
    assert opened.causation_id == STREAM.event_id(state.head.epoch, state.head.sequence + 1)


@pytest.mark.parametrize(("actor", "cause"), [(Actor.SWEEP, "status"), (Actor.CLI, None)])
def test_a_first_entry_without_a_case_names_the_last_status_change_unless_its_actor_starts_chains(
    actor: Actor, cause: str | None
) -> None:
    state = NodeState(NodeKey("train-a", "node-1"), status_event="status")
    note = Draft(EntryType.NOTE, NOW, EventData())
    _, (first, second) = name_causes(state, state, (note, note), STREAM, actor)
    assert first.causation_id == cause
    assert second.causation_id == STREAM.event_id(state.head.epoch, state.head.sequence + 1)


def metadata(kind: EntryType, case_id: str | None) -> EntryMetadata:
    return as_structure(EntryMetadata, {"event_type": kind.value, "case_id": case_id})


@pytest.mark.parametrize(
    ("case_id", "cause", "continues"),
    [
        ("c-1", EntryType.CLUSTER_INCIDENT, True),
        ("c-1", EntryType.CASE_STATUS, False),
        (None, EntryType.CLUSTER_INCIDENT, False),
        (None, EntryType.CLUSTER_STATUS, False),
    ],
)
def test_the_chain_of_a_case_continues_beside_the_incident_that_moved_it(
    case_id: str | None, cause: EntryType, continues: bool
) -> None:
    assert continues_case(metadata(EntryType.CASE_STATUS, case_id), metadata(cause, None)) is continues


def test_an_incident_causes_the_first_status_change_of_a_case_and_nothing_else() -> None:
    note, moved, again = (Draft(kind, NOW, EventData()) for kind in (EntryType.NOTE, *[EntryType.CASE_STATUS] * 2))
    assert [one.causation_id for one in moved_by((note, moved, again), "incident")] == [None, "incident", None]
    assert moved_by((note, moved), None) == (note, moved)
    assert moved_by((note,), "incident") == (note,)
