"""Fakes of the AWS calls that connecting and looking for what is missing use, and an installation beside them."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.install.connect import Installation

OUTPUTS = {
    "NodePolicyArn": "arn:aws:iam::123456789012:policy/faultbridge-NodePolicy",
    "RawBucketName": "faultbridge-rawbucket",
    "RawRecordsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/raw",
    "KubernetesRoleArns": "arn:aws:iam::123456789012:role/react arn:aws:iam::123456789012:role/sweep",
    "KubernetesInventoryRoleArn": "arn:aws:iam::123456789012:role/inventory",
    "RawRecordsDeadLettersUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/dead",
    "UrgentTopicArn": "arn:aws:sns:us-east-1:123456789012:urgent",
    "NoticeTopicArn": "arn:aws:sns:us-east-1:123456789012:notice",
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
        self.subscriptions: list[str] = []
        self.dead_letters = 0

    def list_subscriptions_by_topic(self, TopicArn: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        return {"Subscriptions": [{"SubscriptionArn": one, "TopicArn": TopicArn} for one in self.subscriptions]}

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        return {"Attributes": {"ApproximateNumberOfMessages": str(self.dead_letters)}}

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
