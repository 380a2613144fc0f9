"""Many cases at once on the embedded stack: each to its end, never more than the budget, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import NodeStatus
from faultbridge.ingest.send import Parcel
from faultbridge.storage import items, keys
from tests.e2e.batches import LOST
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation, eventually
from tests.e2e.many import put_policy, register
from tests.local.stack import private_stack

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
    """A stack of its own on which nobody overhears the functions, so that times are its own."""
    with private_stack(tmp_path_factory.mktemp("many")) as stack:
        yield listened_to(stack)


def holders(installation: Installation, cluster: str) -> int:
    """How many repairs hold a slot now."""
    found = installation.application.ports.table.get(keys.cluster_control(cluster))
    return len(items.read_control(cluster, found).holders)


def events(installation: Installation, cluster: str) -> list[dict[str, Any]]:
    """Every entry, as it was recorded."""
    found = installation.entries(cluster).values()
    return sorted(found, key=lambda one: one["metadata"]["recorded_at"])


def test_forty_cases_with_a_budget_of_four_end_with_forty_verified_nodes(quiet: Installation) -> None:
    put_policy(quiet, POLICY)
    cluster = register(quiet, "train-forty", 40)
    began, most = time.monotonic(), 0
    quiet.send([Parcel("kernel-log", cluster, LOST.encode(), node=f"node-{number:04}") for number in range(40)])
    seen: list[int] = []

    def over() -> bool:
        seen.append(holders(quiet, cluster))
        cases = quiet.cases(cluster)
        return len(cases) == 40 and all(not case.status.live for case in cases)

    eventually(over, 1800, lambda: [case.status for case in quiet.cases(cluster)])
    took, most = time.monotonic() - began, max(seen)
    assert most == 4
    assert {case.resolution for case in quiet.cases(cluster)} == {Resolution.REPLACED}
    states = quiet.states(cluster)
    assert {state.status for state in states.values()} == {NodeStatus.HEALTHY}
    sitting = {state.incarnation.instance_id for state in states.values() if state.incarnation}
    assert len(sitting) == 40
    released = [one["data"]["old_instance"] for one in events(quiet, cluster) if one["data"].get("step") == "intent"]
    assert len(released) == len(set(released)) == 40
    assert not sitting & set(released)
    print(f"\n40 cases, budget 4: all closed after {took:.0f} s, {len(seen)} looks, never more than {most} at a time")
