"""Daily notes: informational faults and faults of other instances are recorded within limits, with their sender."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.entry_builder import fault_change
from faultbridge.decide.fold.changes import Arrival, Change
from faultbridge.decide.fold.daily_notes import (
    INFORMATION,
    LATE,
    MAX_NOTED,
    MAX_PER_DAY,
    UNREGISTERED,
    Note,
    summary_text,
    take_note,
)
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.enums import EntryType
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import CATALOG, NOON, OTHER_GPU, POLICY, arrival, data_of, fault, folded, node

STRANGER, FORMER = "i-0123456789abcdef0", "i-0aaaaaaaaaaaaaaa0"


def late(number: int, instance_id: str | None) -> Arrival:
    """Return the arrival of one fault of an instance that does not back the node."""
    found = arrival(fault(f"xid.{1000 + number}"), record_id=f"r-{number}", incarnation=IncarnationMatch.EARLIER)
    return replace(found, instance_id=instance_id, sender=f"AROAX:{instance_id}")


def information(number: int) -> Arrival:
    return arrival(fault("xid.31", replace(OTHER_GPU, link=number)), record_id=f"r-{number}")


def changes(state: NodeState, *arrivals: Arrival) -> tuple[NodeState, tuple[Change, ...]]:
    found: list[Change] = []
    while arrivals:
        result = fold(state, arrivals, now=NOON + timedelta(days=2), catalog=CATALOG, limits=Limits())
        state, arrivals = result.state, result.remaining
        found += result.changes
    return state, tuple(found)


@pytest.mark.parametrize(
    ("group", "make"),
    [
        (UNREGISTERED, lambda number: late(number, STRANGER)),
        (LATE, lambda number: late(number, FORMER)),
        (LATE, lambda number: late(number, None)),
        (INFORMATION, information),
    ],
)
def test_notes_of_a_day_are_limited_and_one_note_says_that_there_are_more(group, make) -> None:
    state = node(former_instances=(FORMER,))
    state, found = changes(state, *(make(number) for number in range(70)))
    assert len(found) == MAX_PER_DAY[group] + 1
    assert [change.reason for change in found if change.fault is None] == [summary_text(group)]
    assert changes(state, make(71))[1] == ()
    tomorrow = replace(make(72), at=NOON + timedelta(days=1))
    assert [change.fault is not None for change in changes(state, tomorrow)[1]] == [True]


def test_faults_of_an_unregistered_instance_do_not_prevent_other_notes() -> None:
    state, _ = changes(node(former_instances=(FORMER,)), *(late(number, STRANGER) for number in range(70)))
    _, found = changes(state, information(1), late(1, FORMER))
    assert len(found) == 2


def test_a_note_about_a_late_fault_names_the_instance_and_the_sender() -> None:
    _, (change,) = changes(node(), late(1, STRANGER))
    assert change.facts == {"instance_id": STRANGER, "sender": f"AROAX:{STRANGER}"}
    assert change.reason == "reported by an instance that never backed this node"


@pytest.mark.parametrize("instance_id", [None, FORMER])
def test_a_note_about_a_late_fault_of_the_node_says_that_it_is_late(instance_id: str | None) -> None:
    found = replace(late(1, instance_id), sender=None)
    _, (change,) = changes(node(former_instances=(FORMER,)), found)
    assert change.facts == ({"instance_id": FORMER} if instance_id else {})
    assert change.reason == "about an earlier incarnation"


def test_the_note_of_an_informational_fault_names_no_sender() -> None:
    _, (change,) = changes(node(), replace(information(1), instance_id=FORMER, sender="AROAX"))
    assert change.facts == {}


def test_a_late_fault_is_recorded_once_a_day_and_then_stale() -> None:
    state, outcomes = node(), []
    for number in range(2):
        result = folded(state, replace(late(1, STRANGER), record_id="r-1", at=NOON + timedelta(hours=number)))
        state, outcomes = result.state, [*outcomes, result.outcomes["r-1"]]
    assert outcomes == [Outcome.RECORDED, Outcome.STALE]


def test_the_limits_of_all_groups_together_fit_into_the_stored_notes() -> None:
    assert sum(limit + 1 for limit in MAX_PER_DAY.values()) < MAX_NOTED


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (INFORMATION, "More than 40 different informational faults today; more only get an outcome."),
        (LATE, "More than 10 different late faults today; more only get an outcome."),
        (
            UNREGISTERED,
            "More than 6 different faults of an earlier or unknown instance today; more only get an outcome.",
        ),
    ],
)
def test_the_summary_of_a_group_says_which_faults_it_is_about(group: str, text: str) -> None:
    assert summary_text(group) == text


@pytest.mark.parametrize(
    ("noted", "text"),
    [
        (information(1), "xid.31 happened"),
        (late(1, STRANGER), "reported by an instance that never backed this node"),
    ],
)
def test_the_text_of_a_note_is_its_reason_else_the_message_of_the_fault(noted: Arrival, text: str) -> None:
    state, (change,) = changes(node(), noted)
    draft = fault_change(change, state, CATALOG, POLICY)
    assert (draft.type, data_of(draft)["text"]) == (EntryType.NOTE, text)


@pytest.mark.parametrize(("stored", "kept"), [(MAX_NOTED - 1, MAX_NOTED - 1), (MAX_NOTED, MAX_NOTED - 1)])
def test_the_oldest_note_above_the_limit_is_forgotten(stored: int, kept: int) -> None:
    old = {f"xid.{1000 + number}": f"2025-0{1 + number // 28}-{1 + number % 28:02}" for number in range(stored)}
    noted = dict(old)
    assert take_note(noted, "xid.31", NOON) is Note.FAULT
    assert noted == {**dict(list(old.items())[stored - kept :]), "xid.31": "2026-02-03"}
