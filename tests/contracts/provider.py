"""Builders of provider that several test modules use."""

from __future__ import annotations

from datetime import UTC, datetime

from faultbridge.adapters.aws.clients import Clients
from tests.contracts.aws import fresh

SIZE = 2

IMAGE = "ami-12c6146b"  # one that moto always has


def group_of(clients: Clients) -> tuple[str, list[str]]:
    name = fresh("group")
    clients.ec2.create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"ImageId": IMAGE, "InstanceType": "p4d.24xlarge"}
    )
    clients.autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        MinSize=0,
        MaxSize=9,
        DesiredCapacity=SIZE,
        AvailabilityZones=["us-east-1a"],
    )
    described = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    return name, [each["InstanceId"] for each in described["AutoScalingGroups"][0]["Instances"]]


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
