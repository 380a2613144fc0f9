"""Workers of ingest and publish killed in mid-batch: nothing is lost, and nothing is doubled but deliveries."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.e2e.installation import Installation
from tests.e2e.scenarios import CRASHED_NODES, GPUS, Crashed

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def test_four_workers_were_killed_in_the_middle_of_a_call(crashed: Crashed) -> None:
    assert [accident.happened for accident in crashed.accidents] == [1, 1, 1, 1]
    assert len(set(crashed.killed)) == 4


def test_every_fault_is_an_active_condition_counted_once(installation: Installation, crashed: Crashed) -> None:
    for state in installation.states(crashed.cluster).values():
        assert {condition.component.pci: condition.count for condition in state.active()} == {
            f"0000:{16 * gpu + 1:02x}:00": 1 for gpu in range(GPUS)
        }


def test_every_fault_is_on_the_record_once(installation: Installation, crashed: Crashed) -> None:
    entries = installation.entries(crashed.cluster).values()
    told = Counter(
        (event["metadata"]["node"], event["data"]["component"]["pci"])
        for event in entries
        if event["metadata"]["event_type"] == "Node Fault Detected"
    )
    assert len(told) == CRASHED_NODES * GPUS
    assert set(told.values()) == {1}
    assert not [event for event in entries if event["metadata"]["event_type"] == "Node Fault Updated"]


def test_every_record_has_an_outcome_though_its_worker_died(installation: Installation, crashed: Crashed) -> None:
    told = installation.outcomes(crashed.since)
    records = [json.loads(text)["record_id"] for _, text in crashed.messages]
    assert all(told.get(record) for record in records)
    # What was committed before the worker died is known when it comes again.
    assert {outcome for record in records for outcome in told[record]} <= {"recorded", "duplicate"}
    assert "duplicate" in {told[record][-1] for record in records}
    assert installation.as_json("audit", "--since", crashed.since.isoformat())["complete"]


def test_every_stream_is_whole_though_workers_died(installation: Installation, crashed: Crashed) -> None:
    verified = installation.as_json("verify", "--cluster", crashed.cluster)
    assert verified["whole"]
    assert verified["streams"] == CRASHED_NODES + 1


def test_every_entry_is_on_the_bus_and_some_came_twice_under_one_id(
    installation: Installation, crashed: Crashed
) -> None:
    events = installation.tap.deliveries(crashed.cluster)
    assert set(events) == set(installation.entries(crashed.cluster))
    assert {len(seen) for seen in events.values()} >= {1, 2}
    for seen in events.values():
        assert all(again["detail"] == seen[0]["detail"] for again in seen)
