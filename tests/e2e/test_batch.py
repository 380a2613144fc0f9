"""Process 500 raw records of 100 nodes, and the same records again twenty days later."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import FAULTS, UNKNOWN_FAULT
from tests.e2e.scenarios.batch import NODES, RECORDS, ProcessedBatch, ReplayedBatch
from tests.events.validate import assert_valid_event
from tests.sim.invariants.arithmetic import repairs_over_budget

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

MAX_CONCURRENT, MAX_PER_HOUR = 2, 20
"""The limits of repairs in the packaged policy."""


def test_every_record_has_exactly_one_outcome(installation: Installation, processed_batch: ProcessedBatch) -> None:
    outcomes_by_record = installation.outcomes(processed_batch.since)
    assert {record: len(outcomes_by_record.get(record, ())) for record in processed_batch.records} == dict.fromkeys(
        processed_batch.records, 1
    )
    outcomes = Counter(outcomes_by_record[record][0] for record in processed_batch.records)
    assert outcomes["rejected"] == processed_batch.batch.invalid
    max_faults = RECORDS - processed_batch.batch.healthy - processed_batch.batch.invalid
    # The first snapshot of each node is recorded too, because it names the devices of the node.
    assert len(FAULTS) < outcomes["recorded"] + outcomes["folded"] <= max_faults + NODES
    assert outcomes.total() == RECORDS


def test_the_delivery_audit_of_the_batch_is_complete(
    installation: Installation, processed_batch: ProcessedBatch
) -> None:
    account = installation.cli_json("account", "--since", processed_batch.since.isoformat())
    assert account["complete"]
    assert account["sent"] >= RECORDS


def test_no_stream_has_a_gap(installation: Installation, processed_batch: ProcessedBatch) -> None:
    verified = installation.cli_json("verify", "--cluster", processed_batch.cluster)
    assert verified["whole"]
    assert verified["streams"] == NODES + 1
    assert verified["entries"] == len(installation.entries(processed_batch.cluster))


def test_every_entry_is_published_unchanged(installation: Installation, processed_batch: ProcessedBatch) -> None:
    entries, events = (
        installation.entries(processed_batch.cluster),
        installation.events.deliveries(processed_batch.cluster),
    )
    assert set(events) == set(entries)
    for event_id, (envelope, *_) in events.items():
        detail = envelope["detail"]
        assert detail["metadata"] == entries[event_id]["metadata"]
        assert envelope["detail-type"] == detail["metadata"]["event_type"]


def test_without_failures_an_event_is_delivered_once(
    installation: Installation, processed_batch: ProcessedBatch
) -> None:
    counts = Counter(len(received) for received in installation.events.deliveries(processed_batch.cluster).values())
    assert counts[1] == counts.total()


def test_each_known_fault_is_repaired_and_the_unknown_one_is_escalated(
    installation: Installation, processed_batch: ProcessedBatch
) -> None:
    states = installation.states(processed_batch.cluster)
    cases = {state.key.node: state.case for state in states.values() if state.case is not None}
    assert set(cases) == {kind.node for kind in (*FAULTS, UNKNOWN_FAULT)}
    for kind in FAULTS:
        assert kind.node is not None
        assert cases[kind.node].status is CaseStatus.RESOLVED
        assert cases[kind.node].resolution in {Resolution.REPAIRED, Resolution.REPLACED}
        assert states[kind.node].status is NodeStatus.HEALTHY
        assert not states[kind.node].unverified
        assert not list(states[kind.node].active())
    assert UNKNOWN_FAULT.node is not None
    assert cases[UNKNOWN_FAULT.node].status is CaseStatus.ESCALATED


def test_six_faulty_nodes_of_a_hundred_do_not_trip_the_breaker(
    installation: Installation, processed_batch: ProcessedBatch
) -> None:
    types = {event["metadata"]["event_type"] for event in installation.entries(processed_batch.cluster).values()}
    assert "Case Status Change" in types
    assert "Cluster Safety Change" not in types


def test_each_fault_has_one_case_and_one_intent(installation: Installation, processed_batch: ProcessedBatch) -> None:
    assert len(installation.cases(processed_batch.cluster)) == len(FAULTS) + 1
    steps = [
        event["data"]["step"]
        for event in installation.entries(processed_batch.cluster).values()
        if event["metadata"]["event_type"] == "Node Replacement Step"
    ]
    assert steps.count("intent") == len(FAULTS)
    executed = {name.rpartition("-")[0] for name in installation.executions()}
    assert {case.id for case in installation.cases(processed_batch.cluster)} & executed == {
        case.id for case in installation.cases(processed_batch.cluster) if case.attempts
    }


def test_concurrent_repairs_never_exceed_the_slots(installation: Installation, processed_batch: ProcessedBatch) -> None:
    entries = installation.entries(processed_batch.cluster).values()
    starts = [event for event in entries if event["data"].get("to") == "in_progress"]
    assert starts
    assert list(repairs_over_budget(entries, MAX_CONCURRENT, MAX_PER_HOUR)) == []


def test_every_published_event_is_valid(installation: Installation, processed_batch: ProcessedBatch) -> None:
    for received in installation.events.deliveries(processed_batch.cluster).values():
        for envelope in received:
            assert_valid_event(envelope["detail"])
            assert len(json.dumps(envelope["detail"]).encode()) <= 60 * 1024


def test_the_same_batch_twenty_days_later_changes_nothing(replayed_batch: ReplayedBatch) -> None:
    assert replayed_batch.after.conditions == replayed_batch.before.conditions
    assert replayed_batch.after.cases == replayed_batch.before.cases
    assert replayed_batch.after.pages == replayed_batch.before.pages
    assert replayed_batch.after.executions == replayed_batch.before.executions


def test_the_same_batch_twenty_days_later_adds_no_entry(replayed_batch: ReplayedBatch) -> None:
    assert replayed_batch.after.entries == replayed_batch.before.entries


def test_repeated_records_have_the_outcome_of_duplicates(replayed_batch: ReplayedBatch) -> None:
    assert len(replayed_batch.outcomes) == RECORDS
    assert set(replayed_batch.outcomes) <= {"clean", "duplicate", "stale", "rejected"}


def test_the_timeline_is_complete_after_the_repetition(
    installation: Installation, processed_batch: ProcessedBatch, replayed_batch: ReplayedBatch
) -> None:
    assert replayed_batch.before.entries
    assert installation.cli_json("verify", "--cluster", processed_batch.cluster)["whole"]
    assert installation.cli_json("account", "--since", processed_batch.since.isoformat())["complete"]
