"""An instance refresh quiets the nodes of its group; a fault in it is repaired once the refresh is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import version_of
from faultbridge.local.clients import client
from faultbridge.model.cases import Case
from faultbridge.model.enums import NodeStatus, Resolution, WaitingFor
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.repair.registry.replacement_detection import CODE as INSTANCE_REPLACED
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import GPU_LOST
from tests.e2e.scenarios.repairs import TERMINATE
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

FAULTY = "node-000"
POLICY = """
rules:
  - name: lost
    release_without_capacity: true
limits: {update_grace: 0s}
"""


@dataclass(frozen=True)
class Refreshed:
    """A cluster whose group was refreshed: its instances before and after, and what happened to the faulty node."""

    cluster: str
    old: list[str]
    new: list[str]
    waiting: Case
    released_during_refresh: list[str]


@pytest.fixture(scope="module")
def refreshed(installation: Installation) -> Refreshed:
    """Refresh a group of two nodes, report a fault of one meanwhile, end the refresh, and wait for the repair."""
    cluster = installation.register_cluster(2, fleet=2)
    _set_policy(installation, cluster)
    installation.invoke("inventory", {})
    old = _instances(installation, cluster)
    scaling = client("auto-scaling", installation.stack.info.environment)
    scaling.start_instance_refresh(AutoScalingGroupName=cluster)
    installation.invoke("inventory", {})
    eventually(lambda: _serving(installation, cluster), 90, lambda: installation.states(cluster))
    new = _instances(installation, cluster)
    # Right after its instance changed, a record without an instance could be one of the former.
    lost = RawInput("kernel-log", cluster, GPU_LOST.encode(), node=FAULTY, instance_id=new[0])
    installation.send([lost])
    eventually(lambda: _case(installation, cluster).waiting_for is WaitingFor.UPDATE, 60)
    waiting, released = _case(installation, cluster), _released(installation, {*old, *new})
    scaling.cancel_instance_refresh(AutoScalingGroupName=cluster)
    installation.invoke("inventory", {})
    installation.wait_until_idle(cluster)
    return Refreshed(cluster, old, new, waiting, released)


def _set_policy(installation: Installation, cluster: str) -> None:
    """Give the cluster a policy without a grace period after updates."""
    document = read_policy(POLICY)
    ports, version = installation.application.ports, version_of(document)
    stored = items.item(keys.policy(version), ports.clock.now(), {"policy": {**document, "version": version}})
    ports.table.write(Put(stored))
    wire_registration(installation.application).set_cluster(cluster, {"policy": version})


def _instances(installation: Installation, cluster: str) -> list[str]:
    return [installation.instance_of(cluster, node) for node in sorted(installation.states(cluster))]


def _serving(installation: Installation, cluster: str) -> bool:
    states = installation.states(cluster).values()
    return all(one.status is NodeStatus.HEALTHY and not one.unverified and one.former_instances for one in states)


def _case(installation: Installation, cluster: str) -> Case:
    case = installation.states(cluster)[FAULTY].case
    assert case is not None
    return case


def _released(installation: Installation, instances: set[str]) -> list[str]:
    """Return the instances that a function of Faultbridge released."""
    calls = (call for call in installation.required_proxy.calls if call.name == TERMINATE)
    return [str(call.arguments["InstanceId"]) for call in calls if call.arguments.get("InstanceId") in instances]


def _opened(installation: Installation, cluster: str) -> list[dict[str, Any]]:
    """Return the first entry of each case."""
    entries = (one["data"] for one in installation.entries(cluster).values() if "Case" in one["metadata"]["event_type"])
    return [data for data in entries if data["from"] is None]


def test_the_nodes_of_a_refreshed_group_get_new_instances_without_a_repair(
    installation: Installation, refreshed: Refreshed
) -> None:
    assert not set(refreshed.old) & set(refreshed.new)
    assert refreshed.released_during_refresh == []
    codes = sorted(str(data["cause"]["code"]) for data in _opened(installation, refreshed.cluster))
    assert codes == [INSTANCE_REPLACED, INSTANCE_REPLACED, "xid.79"]


def test_a_fault_during_the_refresh_waits_and_is_repaired_after_it(
    installation: Installation, refreshed: Refreshed
) -> None:
    assert refreshed.waiting.attempt is None
    assert f"{refreshed.cluster} is being updated by its owner" in str(refreshed.waiting.reason)
    case, state = _case(installation, refreshed.cluster), installation.states(refreshed.cluster)[FAULTY]
    assert (case.id, case.resolution) == (refreshed.waiting.id, Resolution.REPLACED)
    assert (state.status, state.unverified, list(state.active())) == (NodeStatus.HEALTHY, False, [])
    assert _released(installation, {*refreshed.old, *refreshed.new}) == [refreshed.new[0]]
