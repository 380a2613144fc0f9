"""Many concurrent cases on the embedded stack: all are closed, and the repair limit holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge.model.enums import NodeStatus, Resolution
from faultbridge.model.storage import items, keys
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.large_clusters import put_policy, register_large_cluster
from tests.e2e.harness.records import GPU_LOST
from tests.local.stack import private_stack
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(5400)]

POLICY = """
rules:
  - name: mild
    match: {codes: [xid.48]}
    severity: error
  - name: lost
    release_without_capacity: true
limits: {concurrent: 4, per_hour: 1000}
"""


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Run a private stack without the proxy, so that the proxy does not slow it down."""
    with private_stack(tmp_path_factory.mktemp("many")) as stack:
        yield observe(stack)


def holders(installation: Installation, cluster: str) -> int:
    """Return the number of repairs that currently hold a slot."""
    found = installation.application.ports.table.get(keys.cluster_control(cluster))
    return len(items.read_control(cluster, found).holders)


def events(installation: Installation, cluster: str) -> list[dict[str, Any]]:
    """Return every entry in recording order."""
    found = installation.entries(cluster).values()
    return sorted(found, key=lambda one: one["metadata"]["recorded_at"])


def test_forty_cases_with_four_slots_end_with_forty_verified_nodes(quiet: Installation) -> None:
    put_policy(quiet, POLICY)
    cluster = register_large_cluster(quiet, "train-forty", 40)
    started = time.monotonic()
    quiet.send([RawInput("kernel-log", cluster, GPU_LOST.encode(), node=f"node-{number:04}") for number in range(40)])
    samples: list[int] = []

    def is_finished() -> bool:
        samples.append(holders(quiet, cluster))
        cases = quiet.cases(cluster)
        return len(cases) == 40 and all(not case.status.live for case in cases)

    eventually(is_finished, 1800, lambda: [case.status for case in quiet.cases(cluster)])
    seconds, peak = time.monotonic() - started, max(samples)
    assert peak == 4
    assert {case.resolution for case in quiet.cases(cluster)} == {Resolution.REPLACED}
    states = quiet.states(cluster)
    assert {state.status for state in states.values()} == {NodeStatus.HEALTHY}
    current = {state.incarnation.instance_id for state in states.values() if state.incarnation}
    assert len(current) == 40
    released = [one["data"]["old_instance"] for one in events(quiet, cluster) if one["data"].get("step") == "intent"]
    assert len(released) == len(set(released)) == 40
    assert not current & set(released)
    print(f"\n40 cases, 4 slots: all closed after {seconds:.0f} s, at most {peak} at a time in {len(samples)} samples")
