"""Nodes of a launch template: a successor of the second type is launched first, or a spare takes over.

The tests use a private stack, because they remove capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge import local
from faultbridge.local.compute_control import REPAIR_TAG
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.enums import NodeStatus, Resolution
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.spares.pool import SparePool
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import GPU_LOST
from tests.local.stack import private_stack
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

CLUSTER, GROUP = "templates", "gpu-workers"
IMAGE = "ami-12c6146b"  # one that moto has
EXHAUSTED, AVAILABLE = "p5.48xlarge", "p5e.48xlarge"
WANTED = [
    ("intent", "committed"),
    ("release_instance", "released"),
    ("await_successor", "claimed"),
    ("verify", "passed"),
]


@dataclass
class Templates:
    """A cluster of two instances of one launch template, whose instance type has no capacity."""

    installation: Installation
    ec2: Any

    def lose_a_gpu(self, node: str) -> None:
        """Let a node fail and wait for the end of its repair."""
        before = len(self.installation.cases(CLUSTER))
        self.installation.send([RawInput("kernel-log", CLUSTER, GPU_LOST.encode(), node=node)])
        eventually(lambda: len(self.installation.cases(CLUSTER)) > before, 60)
        self.installation.wait_until_idle(CLUSTER, 180)

    def steps(self, node: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the recorded data of a node's repair by step and outcome."""
        entries = [one for one in self.installation.entries(CLUSTER).values() if one["metadata"]["node"] == node]
        return {(one["data"]["step"], one["data"]["outcome"]): one["data"] for one in entries if "step" in one["data"]}

    def state_of(self, instance: str) -> str:
        """Return the state of an instance from EC2."""
        found = self.ec2.describe_instances(InstanceIds=[instance])
        return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])

    def owned_by(self, owner: str) -> list[tuple[str, str]]:
        """Return the id and the state of each instance with the tag of a case."""
        found = self.ec2.describe_instances(Filters=[{"Name": "tag:faultbridge:case", "Values": [owner]}])
        instances = [one for each in found["Reservations"] for one in each["Instances"]]
        return [(one["InstanceId"], one["State"]["Name"]) for one in instances]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    with private_stack(tmp_path_factory.mktemp("templates")) as stack:
        installation, ec2 = observe(stack), stack.client("ec2")
        tags = [{"Key": REPAIR_TAG, "Value": stack.info.stack}]
        ec2.create_launch_template(
            LaunchTemplateName=GROUP,
            LaunchTemplateData={"ImageId": IMAGE, "InstanceType": EXHAUSTED},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        )
        launched = ec2.run_instances(
            LaunchTemplate={"LaunchTemplateName": GROUP},
            MinCount=2,
            MaxCount=2,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        registration = wire_registration(installation.application)
        config = ClusterConfig(
            CLUSTER,
            provider="ec2-launch-template",
            repair_owner=RepairOwner.FAULTBRIDGE,
            mode=Mode.ACT,
            instance_types=(EXHAUSTED, AVAILABLE),
        )
        registration.add_cluster(config)
        for number, one in enumerate(launched["Instances"]):
            registration.add_node(CLUSTER, NewNode(f"node-{number}", one["InstanceId"], GROUP, EXHAUSTED))
        local.set_capacity(stack.info.compute_endpoint, EXHAUSTED, available=False)
        yield Templates(installation, ec2)


def test_a_successor_of_the_second_type_serves_and_the_old_instance_is_terminated(templates: Templates) -> None:
    templates.lose_a_gpu("node-0")
    assert [one for one in templates.steps("node-0") if one in WANTED] == WANTED
    (case,) = templates.installation.cases(CLUSTER)
    state = templates.installation.states(CLUSTER)["node-0"]
    assert (case.resolution, state.status) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert state.incarnation is not None
    assert state.placement.instance_type == AVAILABLE
    assert templates.owned_by(case.id) == [(state.incarnation.instance_id, "running")]
    (old,) = state.former_instances
    assert templates.state_of(old) == "terminated"
    assert templates.steps("node-0")["intent", "committed"]["facts"]["capacity_evidence"] == "launch_first"


def test_a_verified_spare_takes_over_and_another_spare_is_prepared(templates: Templates) -> None:
    application = templates.installation.application
    wire_registration(application).set_cluster(CLUSTER, {"spares": 1, "spare_group": GROUP})
    pool = SparePool(application.ports.table, application.ports.clock)

    def waiting() -> list[str]:
        return [str(one.instance_id) for one in pool.spares(CLUSTER) if one.status is SpareStatus.READY]

    (spare,) = eventually(waiting, 120, lambda: pool.spares(CLUSTER))
    templates.lose_a_gpu("node-1")
    state = templates.installation.states(CLUSTER)["node-1"]
    assert state.incarnation is not None
    assert (state.status, state.incarnation.instance_id) == (NodeStatus.HEALTHY, spare)
    facts = templates.steps("node-1")["intent", "committed"]["facts"]
    assert (facts["capacity_evidence"], facts["spare"]) == ("spare", spare)
    assert state.case is not None
    assert templates.owned_by(state.case.id) == [(spare, "running")]
    (next_one,) = eventually(waiting, 120, lambda: pool.spares(CLUSTER))
    assert next_one != spare
