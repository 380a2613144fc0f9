"""A fleet for the demo and for tests: an Auto Scaling group of GPU instances on the fake compute plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.local.clients import client
from faultbridge.local.launcher import DEFAULT_STACK, endpoint_environment

INSTANCE_TYPE = "p5.48xlarge"
# Without this tag the deployed functions may not touch the group or its instances.
REPAIR_TAG = "faultbridge:stack"

_IMAGE = "ami-12c6146b"  # one that moto knows
_ZONE = "us-east-1a"


def create_fleet(
    group: str,
    size: int,
    instance_type: str = INSTANCE_TYPE,
    *,
    stack: str = DEFAULT_STACK,
    environment: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> list[str]:
    """Make a launch template and an Auto Scaling group of that size; returns its instance ids, in order of launch.

    A group that is there already stays as it is. `environment` is `StackInfo.environment`; by default that of the
    stack that is up. Raises `Misconfigured` when none is.
    """
    aimed = dict(environment) if environment is not None else endpoint_environment(stack=stack)
    if not aimed:
        raise Misconfigured("no embedded stack is up (run `faultbridge up`)")
    scaling = client("auto-scaling", aimed)
    if not _members(scaling, group):
        _create(client("ec2", aimed), scaling, group, size, instance_type, {REPAIR_TAG: stack, **(tags or {})})
    return _members(scaling, group)


def _create(
    ec2: Any,  # noqa: ANN401 - a boto3 client
    scaling: Any,  # noqa: ANN401 - a boto3 client
    group: str,
    size: int,
    instance_type: str,
    tags: Mapping[str, str],
) -> None:
    ec2.create_launch_template(
        LaunchTemplateName=group,
        LaunchTemplateData={"ImageId": _IMAGE, "InstanceType": instance_type},
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=group,
        LaunchTemplate={"LaunchTemplateName": group, "Version": "$Latest"},
        MinSize=0,
        MaxSize=size + 1,  # room for a successor that is launched before its predecessor ends
        DesiredCapacity=size,
        AvailabilityZones=[_ZONE],
        Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
    )


def _members(scaling: Any, group: str) -> list[str]:  # noqa: ANN401 - a boto3 client
    groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return [instance["InstanceId"] for found in groups for instance in found["Instances"]]
