"""Two fleets from their fault or growth to verified nodes: a HyperPod cluster, and a group that grows.

The tests use a private stack, because they change the next launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge import local
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import GPU_LOST
from tests.local.stack import private_stack
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

HYPERPOD, GROUP = "hp-train", "gpu-workers"


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with private_stack(tmp_path_factory.mktemp("fleets")) as stack:
        yield observe(stack)


def steps(installation: Installation, cluster: str, node: str) -> list[tuple[str, str]]:
    """Return the steps and outcomes of a node's repairs in recording order."""
    entries = sorted(installation.entries(cluster).values(), key=lambda one: one["metadata"]["recorded_at"])
    own = (one["data"] for one in entries if one["metadata"]["node"] == node and "step" in one["data"])
    return [(one["step"], one["outcome"]) for one in own]


class HyperPod:
    """A HyperPod cluster of three nodes (fake), registered with the commands of the documentation."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.sagemaker = installation.stack.client("sagemaker")
        group = {
            "InstanceGroupName": GROUP,
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 3,
            "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-lifecycle/", "OnCreate": "on_create.sh"},
            "ExecutionRole": "arn:aws:iam::000000000000:role/hyperpod",
            "ThreadsPerCore": 1,
        }
        self.sagemaker.create_cluster(
            ClusterName=HYPERPOD, InstanceGroups=[group], NodeRecovery="None", NodeProvisioningMode="Continuous"
        )
        options = ("--provider", "hyperpod", "--hyperpod-cluster", HYPERPOD)
        acts = ("--mode", "act", "--repair-owner", "faultbridge")
        installation.cli_json("cluster", "add", HYPERPOD, *options, *acts)
        installation.cli("node", "import", "--cluster", HYPERPOD, "--group", GROUP)
        self.names = sorted(installation.states(HYPERPOD))

    def slots(self) -> dict[str, str]:
        """Return the instance that HyperPod has in each slot."""
        listed = self.sagemaker.list_cluster_nodes(ClusterName=HYPERPOD, IncludeNodeLogicalIds=True)
        return {one["NodeLogicalId"]: one["InstanceId"] for one in listed["ClusterNodeSummaries"]}

    def lose_a_gpu(self, node: str) -> Any:
        """Let a node fail, wait for the end of its repair, and return its state."""
        before = len(self.installation.cases(HYPERPOD))
        self.installation.send([RawInput("kernel-log", HYPERPOD, GPU_LOST.encode(), node=node)])
        eventually(lambda: len(self.installation.cases(HYPERPOD)) > before, 60)
        self.installation.wait_until_idle(HYPERPOD, 240)
        return self.installation.states(HYPERPOD)[node]


@pytest.fixture(scope="module")
def hyperpod(fleets: Installation) -> HyperPod:
    return HyperPod(fleets)


def test_a_faulty_node_of_hyperpod_is_replaced_and_its_successor_is_verified(hyperpod: HyperPod) -> None:
    node, others = hyperpod.names[0], set(hyperpod.slots().values())
    first = hyperpod.installation.instance_of(HYPERPOD, node)
    state = hyperpod.lose_a_gpu(node)
    assert (state.status, state.unverified, state.case.resolution) == (
        NodeStatus.HEALTHY,
        False,
        Resolution.REPLACED,
    )
    now = hyperpod.slots()
    assert now[state.placement.slot] == state.incarnation.instance_id != first
    assert set(now.values()) & others == others - {first}
    found = steps(hyperpod.installation, HYPERPOD, node)
    wanted = [
        ("intent", "committed"),
        ("release_instance", "released"),
        ("await_successor", "claimed"),
        ("verify", "passed"),
    ]
    assert [one for one in found if one in wanted] == wanted


def test_a_group_grows_from_two_to_six_verified_nodes_although_one_new_instance_is_bad(fleets: Installation) -> None:
    cluster = fleets.register_cluster(2, fleet=2)
    fleets.invoke("inventory", {})
    for node in fleets.states(cluster):
        verify_imported(fleets, cluster, node)
    endpoint, scaling = fleets.stack.info.compute_endpoint, fleets.stack.client("auto-scaling")
    local.make_next_instance_bad(endpoint)
    scaling.update_auto_scaling_group(AutoScalingGroupName=cluster, MaxSize=7, DesiredCapacity=6)
    launched = _instances(fleets, cluster)
    fleets.invoke("inventory", {})
    assert len(fleets.states(cluster)) == 6
    fleets.wait_until_idle(cluster, 400)
    states, cases = fleets.states(cluster), fleets.cases(cluster)
    assert {one.status for one in states.values()} == {NodeStatus.HEALTHY}
    assert not any(one.unverified for one in states.values())
    assert [one.status for one in cases] == [CaseStatus.RESOLVED] * 6
    assert sorted(one.resolution for one in cases if one.resolution) == [
        *["cancelled"] * 2,  # the quarantines of the imported nodes: they were only verified
        *["recovered"] * 3,
        "replaced",
    ]
    assert len(launched - _instances(fleets, cluster)) == 1
    entries = sorted(fleets.entries(cluster).values(), key=lambda one: one["metadata"]["recorded_at"])
    statuses = [one["data"] for one in entries if one["metadata"]["event_type"] == "Cluster Status Change"]
    growing = [one for one in statuses if one["expected"] == 6]
    assert growing[0]["in_service"] < 6
    assert all(one["verified"] == one["in_service"] for one in growing)
    assert growing[0]["reason"].startswith(f"{growing[0]['in_service']} of 6 nodes in service")
    assert (growing[-1]["to"], growing[-1]["in_service"], growing[-1]["verified"]) == ("healthy", 6, 6)
    assert not any(one["to"] == "healthy" for one in growing[:-1])


def verify_imported(installation: Installation, cluster: str, node: str) -> None:
    """Let a node that was imported while it served be verified, with the commands of the documentation."""
    installation.cli("node", "quarantine", node, "--cluster", cluster, "--reason", "verify it")
    eventually(lambda: installation.states(cluster)[node].status is NodeStatus.QUARANTINED, 60)
    installation.cli("node", "return", node, "--cluster", cluster)
    installation.wait_until_idle(cluster, 240)


def _instances(installation: Installation, group: str) -> set[str]:
    scaling = installation.stack.client("auto-scaling")
    (found,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return {one["InstanceId"] for one in found["Instances"]}
