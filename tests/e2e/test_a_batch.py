"""500 raw records of 100 nodes through the queue, and the same again twenty days later."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from tests.e2e.batches import FAULTY, NEEDS_A_PERSON
from tests.e2e.installation import Installation
from tests.e2e.scenarios import NODES, RECORDS, Replayed, Sent
from tests.events.validate import assert_valid_event

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

CONCURRENT = 2
"""Repairs at once that the packaged policy permits."""


def test_every_record_has_exactly_one_outcome(installation: Installation, sent: Sent) -> None:
    told = installation.outcomes(sent.since)
    assert {record: len(told.get(record, ())) for record in sent.records} == dict.fromkeys(sent.records, 1)
    outcomes = Counter(told[record][0] for record in sent.records)
    assert outcomes["rejected"] == sent.batch.unusable
    told_of_faults = RECORDS - sent.batch.healthy - sent.batch.unusable
    assert len(FAULTY) < outcomes["recorded"] + outcomes["folded"] <= told_of_faults
    assert outcomes.total() == RECORDS


def test_the_account_of_the_batch_is_complete(installation: Installation, sent: Sent) -> None:
    account = installation.as_json("audit", "--since", sent.since.isoformat())
    assert account["complete"]
    assert account["sent"] >= RECORDS


def test_nothing_is_missing_from_any_stream(installation: Installation, sent: Sent) -> None:
    verified = installation.as_json("verify", "--cluster", sent.cluster)
    assert verified["whole"]
    assert verified["streams"] == NODES + 1
    assert verified["entries"] == len(installation.entries(sent.cluster))


def test_every_entry_is_on_the_bus_as_it_was_recorded(installation: Installation, sent: Sent) -> None:
    entries, events = installation.entries(sent.cluster), installation.tap.deliveries(sent.cluster)
    assert set(events) == set(entries)
    for event_id, (envelope, *_) in events.items():
        detail = envelope["detail"]
        assert detail["metadata"] == entries[event_id]["metadata"]
        assert envelope["detail-type"] == detail["metadata"]["event_type"]


def test_without_an_accident_an_event_comes_once(installation: Installation, sent: Sent) -> None:
    # What comes twice is a retry of the emulators' on a slow machine, or ours: either must be rare.
    counts = Counter(len(seen) for seen in installation.tap.deliveries(sent.cluster).values())
    assert counts[1] == counts.total()


def test_each_fault_is_mended_and_the_unknown_one_goes_to_a_person(installation: Installation, sent: Sent) -> None:
    states = installation.states(sent.cluster)
    cases = {state.key.node: state.case for state in states.values() if state.case is not None}
    assert set(cases) == {kind.node for kind in (*FAULTY, NEEDS_A_PERSON)}
    for kind in FAULTY:
        assert kind.node is not None
        assert cases[kind.node].status is CaseStatus.RESOLVED
        assert cases[kind.node].resolution in {Resolution.REPAIRED, Resolution.REPLACED}
        assert states[kind.node].status is NodeStatus.HEALTHY
        assert not states[kind.node].unverified
        assert not list(states[kind.node].active())
    assert NEEDS_A_PERSON.node is not None
    assert cases[NEEDS_A_PERSON.node].status is CaseStatus.ESCALATED


def test_six_of_a_hundred_nodes_give_the_breaker_no_reason_to_trip(installation: Installation, sent: Sent) -> None:
    types = {event["metadata"]["event_type"] for event in installation.entries(sent.cluster).values()}
    assert "Case Status Change" in types
    assert "Cluster Safety Change" not in types


def test_there_is_one_case_and_one_intent_for_one_trouble(installation: Installation, sent: Sent) -> None:
    assert len(installation.cases(sent.cluster)) == len(FAULTY) + 1
    steps = [
        event["data"]["step"]
        for event in installation.entries(sent.cluster).values()
        if event["metadata"]["event_type"] == "Node Replacement Step"
    ]
    assert steps.count("intent") == len(FAULTY)
    machines = {name.rpartition("-")[0] for name in installation.executions()}
    assert {case.id for case in installation.cases(sent.cluster)} & machines == {
        case.id for case in installation.cases(sent.cluster) if case.attempts
    }


def test_never_are_more_repairs_under_way_than_there_are_slots(installation: Installation, sent: Sent) -> None:
    changes = [
        (event["metadata"]["recorded_at"], event["data"]["to"] == "in_progress")
        for event in installation.entries(sent.cluster).values()
        if event["metadata"]["event_type"] == "Case Status Change"
        and "in_progress" in {event["data"]["from"], event["data"]["to"]}
    ]
    under_way = most = 0
    for _at, begins in sorted(changes):  # within a millisecond a slot is given back before it is taken again
        under_way += 1 if begins else -1
        most = max(most, under_way)
    assert under_way == 0
    assert 1 <= most <= CONCURRENT


def test_every_event_on_the_bus_is_what_the_contract_says(installation: Installation, sent: Sent) -> None:
    for seen in installation.tap.deliveries(sent.cluster).values():
        for envelope in seen:
            assert_valid_event(envelope["detail"])
            assert len(json.dumps(envelope["detail"]).encode()) <= 60 * 1024


def test_the_same_batch_twenty_days_later_changes_nothing(replayed: Replayed) -> None:
    assert replayed.after.conditions == replayed.before.conditions
    assert replayed.after.cases == replayed.before.cases
    assert replayed.after.pages == replayed.before.pages
    assert replayed.after.executions == replayed.before.executions


def test_the_same_batch_twenty_days_later_leaves_no_line_on_the_record(replayed: Replayed) -> None:
    assert replayed.after.entries == replayed.before.entries


def test_what_comes_again_is_told_apart_from_what_is_new(replayed: Replayed) -> None:
    assert len(replayed.outcomes) == RECORDS
    assert set(replayed.outcomes) <= {"clean", "duplicate", "stale", "rejected"}


def test_the_record_is_whole_after_the_repetition(installation: Installation, sent: Sent, replayed: Replayed) -> None:
    assert replayed.before.entries
    assert installation.as_json("verify", "--cluster", sent.cluster)["whole"]
    assert installation.as_json("audit", "--since", sent.since.isoformat())["complete"]
