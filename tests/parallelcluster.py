"""AWS ParallelCluster in memory: EC2's instances with its tags, and what its daemon does with the nodes of Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from faultbridge.adapters.slurm.fleets import PARALLEL_CLUSTER_TAGS, SlurmRecords
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.values import replace
from tests.slurm import SlurmInMemory

POOL = "train/queue1/gpu"
CLUSTER_TAG = "parallelcluster:cluster-name"
TAGS = {
    **dict(zip((one.removeprefix("tag:") for one in PARALLEL_CLUSTER_TAGS), POOL.split("/"), strict=True)),
    "parallelcluster:node-type": "Compute",
}


class TaggedInstances:
    """The calls of EC2 that the adapters make, on instances with tags; `terminated` lists the calls that end one."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now, self.instances, self.terminated = now, dict[str, dict[str, Any]](), list[str]()

    @property
    def clients(self) -> Any:
        ssm = SimpleNamespace(describe_instance_information=lambda **_: {"InstanceInformationList": []})
        found = SimpleNamespace(ec2=self, ec2_no_retry=self, ssm=ssm)
        found.for_role = lambda _: found
        return found

    def run(self, tags: dict[str, str], at: datetime | None = None) -> str:
        """Start an instance with an address of its own."""
        number = len(self.instances) + 1
        made = {
            "InstanceId": f"i-{number:017x}",
            "PrivateIpAddress": f"10.0.0.{number}",
            "PrivateDnsName": f"ip-10-0-0-{number}.ec2.internal",
            "LaunchTime": at or self.now(),
            "InstanceType": "p5.48xlarge",
            "State": {"Name": "running"},
            "Placement": {"AvailabilityZone": "us-east-1a"},
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
        self.instances[made["InstanceId"]] = made  # type: ignore[index]
        return str(made["InstanceId"])

    def get_paginator(self, _: str) -> TaggedInstances:
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        yield self.describe_instances(**asked)

    def describe_instances(self, InstanceIds: Any = None, Filters: Any = ()) -> dict[str, Any]:  # noqa: N803 - of boto3
        def has(one: dict[str, Any], name: str) -> str:
            tags = {f"tag:{tag['Key']}": tag["Value"] for tag in one["Tags"]}
            state, instance_id = one["State"]["Name"], one["InstanceId"]
            return str({"instance-state-name": state, "instance-id": instance_id, **tags}.get(name))

        asked = [*Filters, *([{"Name": "instance-id", "Values": InstanceIds}] if InstanceIds else ())]
        found = [one for one in self.instances.values() if all(has(one, by["Name"]) in by["Values"] for by in asked)]
        return {"Reservations": [{"Instances": found}]}

    def describe_instance_status(self, **_: Any) -> dict[str, Any]:
        return {"InstanceStatuses": []}

    def describe_instance_topology(self, **_: Any) -> dict[str, Any]:
        return {"Instances": []}

    def terminate_instances(self, InstanceIds: list[str]) -> None:  # noqa: N803 - of boto3
        for one in InstanceIds:
            self.terminated.append(one)
            self.instances[one]["State"] = {"Name": "shutting-down"}


class ClusterManager:
    """The daemon `clustermgtd`: another instance for a static node without one; DOWN and drained nodes lose theirs.

    `launch` starts an instance, and returns its address and its host name.
    """

    def __init__(self, slurm: SlurmInMemory, launch: Callable[[], tuple[str, str]]) -> None:
        self.slurm, self.launch = slurm, launch

    def start(self, name: str) -> None:
        """Start an instance for a node, which then is up."""
        address, host = self.launch()
        self.slurm.nodes[name] = SlurmNode(name, "IDLE", host=host.partition(".")[0], address=address)

    def loop(self, live: set[str], terminate: Callable[[str], object] = lambda _: None) -> None:
        """Run the daemon once; `live` are the addresses of the instances."""
        for name, one in [*self.slurm.nodes.items()]:
            states = set(one.state.split("+"))
            if one.reason.startswith("Static node maintenance"):
                self.slurm.nodes[name] = replace(one, state="IDLE", reason="")  # "Node start up" of the new instance
                continue
            drained = "DOWN" in states or {"IDLE", "DRAIN"} <= states
            if "POWERED_DOWN" in states or (one.address in live and not drained):
                continue
            if drained:
                terminate(str(one.address))
            if "-st-" in name:
                self.start(name)
                reason = "Static node maintenance: unhealthy node is being replaced"
                self.slurm.nodes[name] = replace(self.slurm.nodes[name], state="DOWN+FAIL", reason=reason)
            else:
                down = "Scheduler health check failed"
                self.slurm.nodes[name] = SlurmNode(name, "IDLE+POWERED_DOWN", reason=down, host=name, address=name)


def records(ec2: TaggedInstances, slurm: SlurmInMemory) -> SlurmRecords:
    return SlurmRecords(ec2.clients, lambda: slurm)  # type: ignore[arg-type, return-value]
