"""`faultbridge connect` plans, asks once, makes what is missing, and finds what it made before."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from faultbridge.cli.commands.install import connect as command
from faultbridge.cli.stack.session import Session
from faultbridge.install import connect
from faultbridge.install.connect import Installation
from faultbridge.model.cluster.config import Mode
from faultbridge.model.errors import Misconfigured
from tests.cli.desk import Desk
from tests.sim.fakes.inventory import FakeInventory

OUTPUTS = {
    "NodePolicyArn": "arn:aws:iam::123456789012:policy/faultbridge-NodePolicy",
    "RawBucketName": "faultbridge-rawbucket",
    "RawRecordsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/raw",
    "KubernetesRoleArns": "arn:aws:iam::123456789012:role/react arn:aws:iam::123456789012:role/sweep",
    "KubernetesInventoryRoleArn": "arn:aws:iam::123456789012:role/inventory",
}
STACK = Installation("faultbridge", OUTPUTS)
GROUP, ROLE, HEAD = "gpu-b", "gpu-node", "i-0123456789abcdef0"
TAG = "faultbridge:stack"


class FakeEks:
    """A fake of the calls of EKS that connecting uses: one cluster with a GPU node group and one without GPUs."""

    def __init__(self, mode: str = "API", *, public: bool = True) -> None:
        self.mode, self.public = mode, public
        self.entries: dict[str, list[str]] = {}

    def describe_cluster(self, name: str) -> dict[str, Any]:
        if name != "gpu":
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeCluster")
        network = {"endpointPublicAccess": self.public}
        return {"cluster": {"accessConfig": {"authenticationMode": self.mode}, "resourcesVpcConfig": network}}

    def get_paginator(self, _: str) -> FakeEks:
        return self

    def paginate(self, clusterName: str) -> list[dict[str, Any]]:  # noqa: N803 - as in boto3
        return [{"nodegroups": ["workers", "system"]}]

    def describe_nodegroup(self, clusterName: str, nodegroupName: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        gpus = nodegroupName == "workers"
        return {
            "nodegroup": {
                "instanceTypes": ["p5.48xlarge" if gpus else "m5.large"],
                "nodeRole": f"arn:aws:iam::123456789012:role/{ROLE}",
                "resources": {"autoScalingGroups": [{"name": GROUP if gpus else "system"}]},
            }
        }

    def describe_access_entry(self, clusterName: str, principalArn: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        if principalArn not in self.entries:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeAccessEntry")
        return {"accessEntry": {"kubernetesGroups": self.entries[principalArn]}}

    def create_access_entry(self, clusterName: str, principalArn: str, kubernetesGroups: list[str]) -> None:  # noqa: N803
        self.entries[principalArn] = kubernetesGroups

    update_access_entry = create_access_entry


class FakeAccount:
    """A fake of the calls of EC2, Auto Scaling and IAM that connecting uses: one group of two instances with one role.

    moto is not used: it gives the instances of a group no instance profile, and loads every managed policy for one.
    """

    def __init__(self) -> None:
        self.tags: dict[tuple[str, str], str] = {}
        self.attached: set[str] = set()
        self.inline: dict[str, Any] = {}

    def describe_auto_scaling_groups(self, AutoScalingGroupNames: list[str]) -> dict[str, Any]:  # noqa: N803 - as in boto3
        tags = [{"Key": key, "Value": value} for (name, key), value in self.tags.items() if name == GROUP]
        group = {"AutoScalingGroupName": GROUP, "Instances": [{"InstanceId": HEAD}], "Tags": tags}
        return {"AutoScalingGroups": [group] if AutoScalingGroupNames == [GROUP] else []}

    def create_or_update_tags(self, Tags: list[dict[str, Any]]) -> None:  # noqa: N803 - as in boto3
        assert all(one["PropagateAtLaunch"] and one["ResourceType"] == "auto-scaling-group" for one in Tags)
        self.tags |= {(one["ResourceId"], one["Key"]): one["Value"] for one in Tags}

    def describe_instances(self, InstanceIds: list[str]) -> dict[str, Any]:  # noqa: N803 - as in boto3
        profile = {"Arn": "arn:aws:iam::123456789012:instance-profile/gpu"}
        return {
            "Reservations": [{"Instances": [{"InstanceId": one, "IamInstanceProfile": profile}]} for one in InstanceIds]
        }

    def describe_tags(self, Filters: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - as in boto3
        (resource,), (key,) = (one["Values"] for one in Filters)
        return {"Tags": [{"Value": self.tags[resource, key]}] if (resource, key) in self.tags else []}

    def create_tags(self, Resources: list[str], Tags: list[dict[str, str]]) -> None:  # noqa: N803 - as in boto3
        self.tags |= {(resource, one["Key"]): one["Value"] for resource in Resources for one in Tags}

    def get_instance_profile(self, InstanceProfileName: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        assert InstanceProfileName == "gpu"
        return {"InstanceProfile": {"Roles": [{"RoleName": ROLE}]}}

    def get_paginator(self, _: str) -> FakeAccount:
        return self

    def paginate(self, RoleName: str) -> list[dict[str, Any]]:  # noqa: N803 - as in boto3
        assert RoleName == ROLE
        return [{"AttachedPolicies": [{"PolicyArn": one} for one in self.attached]}]

    def attach_role_policy(self, RoleName: str, PolicyArn: str) -> None:  # noqa: N803 - as in boto3
        assert RoleName == ROLE
        self.attached.add(PolicyArn)

    def get_role_policy(self, RoleName: str, PolicyName: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        if PolicyName not in self.inline:
            raise ClientError({"Error": {"Code": "NoSuchEntity"}}, "GetRolePolicy")
        return {"RoleName": RoleName, "PolicyDocument": self.inline[PolicyName]}

    def put_role_policy(self, RoleName: str, PolicyName: str, PolicyDocument: str) -> None:  # noqa: N803 - as in boto3
        assert RoleName == ROLE
        self.inline[PolicyName] = json.loads(PolicyDocument)


@pytest.fixture
def account() -> FakeAccount:
    return FakeAccount()


@pytest.fixture
def aws(account: FakeAccount) -> SimpleNamespace:
    """The clients of the account and of EKS."""
    return SimpleNamespace(autoscaling=account, ec2=account, iam=account, eks=FakeEks())


@pytest.fixture
def connected(aws: SimpleNamespace, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose stack is in this account; its inventory has two instances in the group."""
    monkeypatch.setattr(command, "_installation", lambda _session: STACK)
    monkeypatch.setattr(Session, "clients", property(lambda _session: aws))
    monkeypatch.setattr(Session, "place", property(lambda _session: "stack faultbridge"))
    desk.world.ports.inventories["ec2-auto-scaling"] = FakeInventory(desk.world.ports.fleet)
    for _ in range(2):
        desk.world.ports.fleet.launch(GROUP)
    return desk


def results(rows: list[dict[str, str]]) -> list[str]:
    return [row["result"] for row in rows]


def test_a_plan_lists_every_change_and_makes_none(connected: Desk, account: FakeAccount) -> None:
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--plan")
    assert set(results(rows)) == {"to do"}
    assert {row["target"] for row in rows} == {GROUP, f"role {ROLE}", "cluster train-b", f"group {GROUP}"}
    assert (account.tags, account.attached) == ({}, set())
    assert "train-b" not in [one["cluster"] for one in connected.json("cluster", "list")]


def test_without_an_answer_nothing_is_changed(connected: Desk, account: FakeAccount) -> None:
    ran = connected("connect", "asg", GROUP)
    assert ran.code == 2
    assert "changes in the account" in ran.err
    assert (account.tags, account.attached) == ({}, set())


def test_a_group_is_tagged_its_role_permitted_and_its_nodes_are_watched(connected: Desk, account: FakeAccount) -> None:
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    assert set(results(rows)) == {"made"}
    assert account.tags == {(GROUP, TAG): "faultbridge"}
    assert account.attached == {OUTPUTS["NodePolicyArn"], "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}
    assert account.inline == {"faultbridge-verify": connect.verify_policy("aws", "faultbridge-rawbucket")}
    shown = connected.json("cluster", "show", "train-b")
    assert shown["mode"] == Mode.OBSERVE
    assert len(connected.json("node", "list", "--cluster", "train-b")) == 2


def test_a_repeated_command_finds_what_was_made(connected: Desk) -> None:
    connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    assert set(results(rows[:-1])) == {"made before"}


def test_an_eks_cluster_gets_its_access_entries_and_only_its_gpu_groups(connected: Desk, aws: SimpleNamespace) -> None:
    rows = connected.json("connect", "eks", "gpu", "--yes")
    assert aws.eks.entries == {
        "arn:aws:iam::123456789012:role/react": ["faultbridge"],
        "arn:aws:iam::123456789012:role/sweep": ["faultbridge"],
        "arn:aws:iam::123456789012:role/inventory": ["faultbridge-inventory"],
    }
    assert "system" not in {row["target"] for row in rows}
    shown = connected.json("cluster", "show", "gpu")
    assert (shown["mode"], shown["orchestrator"], shown["eks_cluster"]) == (Mode.OBSERVE, "eks", "gpu")


def test_an_access_entry_of_another_purpose_keeps_its_groups(aws: SimpleNamespace) -> None:
    arn = OUTPUTS["KubernetesInventoryRoleArn"]
    aws.eks.entries[arn] = ["viewers"]
    for change in connect.access_entries(aws, "gpu", STACK):
        change.make()
    assert aws.eks.entries[arn] == ["viewers", "faultbridge-inventory"]


def test_the_values_of_the_chart_are_printed(connected: Desk) -> None:
    printed = connected("connect", "eks", "gpu", "--yes").out
    assert f"queueUrl: {OUTPUTS['RawRecordsQueueUrl']}" in printed
    assert "cluster: gpu" in printed


def test_a_slurm_cluster_gets_the_tag_of_its_head_node(connected: Desk, account: FakeAccount) -> None:
    connected.json("connect", "slurm", "train-s", "--head-node", HEAD, "--group", GROUP, "--yes")
    assert account.tags == {(HEAD, TAG): "faultbridge", (GROUP, TAG): "faultbridge"}
    assert connected.json("cluster", "show", "train-s")["slurm_head_node"] == HEAD


@pytest.mark.parametrize(
    ("fake", "name", "said"),
    [
        (FakeEks(), "other", "EKS cluster not found: 'other'"),
        (FakeEks("CONFIG_MAP"), "gpu", "authenticationMode=API_AND_CONFIG_MAP"),
    ],
)
def test_an_eks_cluster_that_cannot_be_connected_says_why(
    aws: SimpleNamespace, fake: FakeEks, name: str, said: str
) -> None:
    aws.eks = fake
    with pytest.raises(Misconfigured, match=said):
        connect.read_eks(aws, name, gpu_types=["p5.48xlarge"], in_subnets=False)


def test_a_private_endpoint_is_reachable_only_from_subnets(aws: SimpleNamespace) -> None:
    aws.eks = FakeEks(public=False)
    assert not connect.read_eks(aws, "gpu", gpu_types=[], in_subnets=False).reachable
    assert connect.read_eks(aws, "gpu", gpu_types=[], in_subnets=True).reachable


def test_an_unknown_group_is_named(aws: SimpleNamespace) -> None:
    with pytest.raises(Misconfigured, match="'nowhere'"):
        connect.tag_group(aws, "nowhere", "faultbridge")
