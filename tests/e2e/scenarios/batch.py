"""Process a batch of records, and send the same batch again twenty days later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.model.cases import Case
from faultbridge.model.conditions import Condition
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import FAULTS_GROUP_SIZE, Batch, mixed_batch, reverse_and_interleave

RECORDS, NODES = 500, 100
DAYS_LATER = 20


@dataclass(frozen=True)
class ProcessedBatch:
    """A cluster, the records sent to it, and the time of sending."""

    cluster: str
    since: datetime
    messages: list[tuple[str, str]]
    batch: Batch

    @property
    def records(self) -> list[str]:
        """The record ids."""
        return [json.loads(text)["record_id"] for _, text in self.messages]


@dataclass(frozen=True)
class ClusterSnapshot:
    """The state of a cluster that repeated records must not change."""

    conditions: dict[str, dict[str, Condition]]
    cases: list[Case]
    pages: list[tuple[str, str]]
    executions: set[str]
    entries: set[str]


@dataclass(frozen=True)
class ReplayedBatch:
    """The cluster's snapshots before and after the repeated batch, and the outcomes of its deliveries."""

    before: ClusterSnapshot
    after: ClusterSnapshot
    outcomes: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def processed_batch(installation: Installation) -> ProcessedBatch:
    """Process 500 records of 100 nodes until the installation is idle."""
    cluster = installation.register_cluster(NODES, fleet=FAULTS_GROUP_SIZE)
    batch = mixed_batch(cluster, records=RECORDS, nodes=NODES, seed=7)
    since = datetime.now(UTC)
    messages = installation.send(batch.raw_inputs)
    installation.wait_until_idle(cluster, 180)
    processed = ProcessedBatch(cluster, since, messages, batch)
    installation.wait_for_outcomes(processed.records, since)
    return processed


@pytest.fixture(scope="session")
def replayed_batch(installation: Installation, processed_batch: ProcessedBatch) -> ReplayedBatch:
    """Send the same records again twenty days later, reversed and interleaved."""
    cluster = processed_batch.cluster
    with clock_ahead(installation, DAYS_LATER):
        before = stable_snapshot(installation, cluster)
        outcomes = installation.outcomes(processed_batch.since)
        previous = {record: len(each) for record, each in outcomes.items()}
        installation.send_again(reverse_and_interleave(processed_batch.messages))
        installation.wait_until_idle(cluster, 120)
        installation.run_sweep()
        installation.wait_until_idle(cluster)
        after = snapshot_of(installation, cluster)
        installation.wait_for_outcomes(processed_batch.records, processed_batch.since, previous)
        outcomes = installation.outcomes(processed_batch.since)
    repeated = [outcome for record in processed_batch.records for outcome in outcomes[record][previous[record] :]]
    return ReplayedBatch(before, after, repeated)


@contextmanager
def clock_ahead(installation: Installation, days: float, *functions: str) -> Iterator[None]:
    """Set the clock of these functions, by default all functions, ahead by some days within the block."""
    wanted = functions or installation.functions()
    try:
        installation.set_variables({function: _clock_offset(days) for function in wanted})
        yield
    finally:
        installation.set_variables({function: _clock_offset(0) for function in wanted})


def _clock_offset(days: float) -> dict[str, str]:
    return {"FAULTBRIDGE_CLOCK_OFFSET_SECONDS": str(int(days * 86_400))}


def stable_snapshot(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Run sweeps until one changes nothing, and return the snapshot."""
    current = snapshot_of(installation, cluster)
    for _ in range(10):
        installation.run_sweep()
        installation.wait_until_idle(cluster)
        previous, current = current, snapshot_of(installation, cluster)
        if current == previous:
            return current
    raise AssertionError("ten sweeps did not reach a stable state")


def snapshot_of(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Read the cluster's conditions, cases, pages, executions and entries."""
    pages: list[dict[str, Any]] = [*installation.urgent.pages(cluster), *installation.notice.pages(cluster)]
    return ClusterSnapshot(
        conditions={node: dict(state.conditions) for node, state in installation.states(cluster).items()},
        cases=installation.cases(cluster),
        pages=sorted((page["dedup_key"], page["state"]) for page in pages),
        executions=installation.executions(),
        entries=set(installation.entries(cluster)),
    )
