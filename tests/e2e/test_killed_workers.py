"""Workers of ingest and publish are killed during a batch: nothing is lost, only deliveries repeat."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.failures import CRASHED_NODES, GPUS, CrashedWorkers

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def test_four_workers_were_killed_during_a_call(crashed_workers: CrashedWorkers) -> None:
    assert [fault.occurred for fault in crashed_workers.faults] == [1, 1, 1, 1]
    assert len(set(crashed_workers.killed)) == 4


def test_every_fault_is_an_active_condition_counted_once(
    installation: Installation, crashed_workers: CrashedWorkers
) -> None:
    for state in installation.states(crashed_workers.cluster).values():
        assert {condition.component.pci: condition.count for condition in state.active()} == {
            f"0000:{16 * gpu + 1:02x}:00": 1 for gpu in range(GPUS)
        }


def test_every_fault_is_recorded_once(installation: Installation, crashed_workers: CrashedWorkers) -> None:
    entries = installation.entries(crashed_workers.cluster).values()
    recorded = Counter(
        (event["metadata"]["node"], event["data"]["component"]["pci"])
        for event in entries
        if event["metadata"]["event_type"] == "Node Fault Detected"
    )
    assert len(recorded) == CRASHED_NODES * GPUS
    assert set(recorded.values()) == {1}
    assert not [event for event in entries if event["metadata"]["event_type"] == "Node Fault Updated"]


def test_every_record_has_an_outcome_although_workers_were_killed(
    installation: Installation, crashed_workers: CrashedWorkers
) -> None:
    outcomes = installation.outcomes(crashed_workers.since)
    records = crashed_workers.records
    assert all(outcomes.get(record) for record in records)
    # A record that was committed before its worker was killed is a duplicate when it is delivered again.
    assert {outcome for record in records for outcome in outcomes[record]} <= {"recorded", "duplicate"}
    assert "duplicate" in {outcomes[record][-1] for record in records}
    assert installation.cli_json("account", "--since", crashed_workers.since.isoformat())["complete"]


def test_every_stream_is_complete_although_workers_were_killed(
    installation: Installation, crashed_workers: CrashedWorkers
) -> None:
    verified = installation.cli_json("verify", "--cluster", crashed_workers.cluster)
    assert verified["whole"]
    assert verified["streams"] == CRASHED_NODES + 1


def test_every_entry_is_published_and_repeated_events_keep_their_id(
    installation: Installation, crashed_workers: CrashedWorkers
) -> None:
    events = installation.events.deliveries(crashed_workers.cluster)
    assert set(events) == set(installation.entries(crashed_workers.cluster))
    assert {len(received) for received in events.values()} >= {1, 2}
    for received in events.values():
        assert all(one["detail"] == received[0]["detail"] for one in received)
