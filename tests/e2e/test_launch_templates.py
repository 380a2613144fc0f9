"""Nodes that no group has: a successor is launched, of the second type, before the old machine goes; or a spare waits.

On a stack of its own: capacity is taken away from everybody here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge import local
from faultbridge.domain.cases import Resolution
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.spares import SpareStatus
from faultbridge.ingest.send import Parcel
from faultbridge.local.fleet import REPAIR_TAG
from faultbridge.registry.registration import NewNode
from faultbridge.repair.spares.pool import Pool
from tests.e2e.batches import LOST
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation, eventually
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

CLUSTER, GROUP = "templates", "gpu-workers"
IMAGE = "ami-12c6146b"  # one that moto has
OUT_OF, LEFT = "p5.48xlarge", "p5e.48xlarge"
WANTED = [
    ("intent", "committed"),
    ("release_instance", "released"),
    ("await_successor", "claimed"),
    ("verify", "passed"),
]


@dataclass
class Templates:
    """A cluster of two machines from one launch template, whose own type has run out."""

    installation: Installation
    ec2: Any

    def lose_a_gpu(self, node: str) -> None:
        """Let a node fail and its repair come to its end."""
        before = len(self.installation.cases(CLUSTER))
        self.installation.send([Parcel("kernel-log", CLUSTER, LOST.encode(), node=node)])
        eventually(lambda: len(self.installation.cases(CLUSTER)) > before, 60)
        self.installation.settle(CLUSTER, 180)

    def steps(self, node: str) -> dict[tuple[str, str], dict[str, Any]]:
        """What was recorded of a node's repair, by step and outcome."""
        told = [one for one in self.installation.entries(CLUSTER).values() if one["metadata"]["node"] == node]
        return {(one["data"]["step"], one["data"]["outcome"]): one["data"] for one in told if "step" in one["data"]}

    def state_of(self, instance: str) -> str:
        """What EC2 says of an instance."""
        found = self.ec2.describe_instances(InstanceIds=[instance])
        return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])

    def owned_by(self, owner: str) -> list[tuple[str, str]]:
        """The instances that carry the tag of a case, and how they are."""
        found = self.ec2.describe_instances(Filters=[{"Name": "tag:faultbridge:case", "Values": [owner]}])
        machines = [one for each in found["Reservations"] for one in each["Instances"]]
        return [(one["InstanceId"], one["State"]["Name"]) for one in machines]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    with private_stack(tmp_path_factory.mktemp("templates")) as stack:
        installation, ec2 = listened_to(stack), stack.client("ec2")
        tags = [{"Key": REPAIR_TAG, "Value": stack.info.stack}]
        ec2.create_launch_template(
            LaunchTemplateName=GROUP,
            LaunchTemplateData={"ImageId": IMAGE, "InstanceType": OUT_OF},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        )
        ran = ec2.run_instances(
            LaunchTemplate={"LaunchTemplateName": GROUP},
            MinCount=2,
            MaxCount=2,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        registration = installation.application.registration
        config = ClusterConfig(
            CLUSTER,
            provider="ec2-launch-template",
            repair_owner=RepairOwner.FAULTBRIDGE,
            mode=Mode.ACT,
            instance_types=(OUT_OF, LEFT),
        )
        registration.add_cluster(config)
        for number, one in enumerate(ran["Instances"]):
            registration.add_node(CLUSTER, NewNode(f"node-{number}", one["InstanceId"], GROUP, OUT_OF))
        local.script_capacity(stack.info.compute_endpoint, OUT_OF, available=False)
        yield Templates(installation, ec2)


def test_the_second_type_is_launched_and_serves_and_the_old_machine_is_gone(templates: Templates) -> None:
    templates.lose_a_gpu("node-0")
    assert [one for one in templates.steps("node-0") if one in WANTED] == WANTED
    (case,) = templates.installation.cases(CLUSTER)
    state = templates.installation.states(CLUSTER)["node-0"]
    assert (case.resolution, state.status) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert state.incarnation is not None
    assert state.placement.instance_type == LEFT
    assert templates.owned_by(case.id) == [(state.incarnation.instance_id, "running")]
    (old,) = state.former_instances
    assert templates.state_of(old) == "terminated"
    assert templates.steps("node-0")["intent", "committed"]["facts"]["capacity_evidence"] == "launch_first"


def test_a_spare_that_was_verified_before_takes_the_node_and_is_followed_by_another(templates: Templates) -> None:
    application = templates.installation.application
    application.registration.set_cluster(CLUSTER, {"spares": 1, "spare_group": GROUP})
    pool = Pool(application.ports.table, application.ports.clock)

    def waiting() -> list[str]:
        return [str(one.instance_id) for one in pool.places(CLUSTER) if one.status is SpareStatus.READY]

    (spare,) = eventually(waiting, 120, lambda: pool.places(CLUSTER))
    templates.lose_a_gpu("node-1")
    state = templates.installation.states(CLUSTER)["node-1"]
    assert state.incarnation is not None
    assert (state.status, state.incarnation.instance_id) == (NodeStatus.HEALTHY, spare)
    facts = templates.steps("node-1")["intent", "committed"]["facts"]
    assert (facts["capacity_evidence"], facts["spare"]) == ("spare", spare)
    assert state.case is not None
    assert templates.owned_by(state.case.id) == [(spare, "running")]
    (next_one,) = eventually(waiting, 120, lambda: pool.places(CLUSTER))
    assert next_one != spare
