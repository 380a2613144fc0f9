"""A policy that asks for an open reservation first and for on-demand capacity then, on the embedded stack.

The emulator has no reservations: its compute plane lists a fake one, and no launch uses it. The test uses a private
stack, because it sets a policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultbridge.local.compute_control import INSTANCE_TYPE, set_reservations
from faultbridge.model.enums import NodeStatus, Resolution
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.large_clusters import put_policy
from tests.e2e.scenarios.repairs import send_fault
from tests.local.stack import private_stack
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

POLICY = """
rules:
  - name: lost
    release_without_capacity: true
capacity: [open_reservation, on_demand]
"""


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with private_stack(tmp_path) as stack:
        yield observe(stack)


def reservation(free: int) -> dict[str, Any]:
    """An open reservation of the nodes' type, in the zone of their group."""
    placed = {"InstanceType": INSTANCE_TYPE, "AvailabilityZone": "us-east-1a", "InstancePlatform": "Linux/UNIX"}
    state = {"State": "active", "InstanceMatchCriteria": "open", "Tenancy": "default"}
    counts = {"AvailableInstanceCount": free, "TotalInstanceCount": 8}
    return {"CapacityReservationId": "cr-open", **placed, **state, **counts}


def repair(installation: Installation, cluster: str, node: str) -> tuple[Any, dict[str, str]]:
    """Let a node fail; return the evidence of its intent and the decision about each source, once it is repaired."""
    send_fault(installation, cluster, node)
    eventually(lambda: installation.states(cluster)[node].case, 60)
    installation.wait_until_idle(cluster, 180)
    state = installation.states(cluster)[node]
    assert state.case is not None
    assert (state.status, state.case.resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    entries = [one for one in installation.entries(cluster).values() if one["metadata"]["node"] == node]
    (facts,) = [one["data"]["facts"] for one in entries if one["data"].get("outcome") == "committed"]
    return facts["capacity_evidence"], {one["source"]: one["decision"] for one in facts["capacity_sources"]}


def test_a_free_reservation_is_used_and_without_one_on_demand_capacity_is_asked_next(
    installation: Installation,
) -> None:
    endpoint, cluster = installation.stack.info.compute_endpoint, installation.register_cluster(2, fleet=2)
    put_policy(installation, POLICY)
    set_reservations(endpoint, [reservation(free=1)])
    assert repair(installation, cluster, "node-000") == ("reservation", {"open_reservation": "used"})
    set_reservations(endpoint, [reservation(free=0)])
    evidence, decisions = repair(installation, cluster, "node-001")
    assert evidence == "none"
    assert list(decisions.items()) == [("open_reservation", "none_free"), ("on_demand", "unknown")]
