"""Create the instances of the smoke test, their role, and the queue that receives its pages."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of
from faultbridge.local.servers.fault_injection import healthy_diagnostics
from infra.smoke.plan import INSTANCE_TYPE, TAG
from infra.smoke.run import Smoke, SmokeFailed
from infra.smoke.soak import HEALTH, WHEEL, agent_setup

IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
REPAIR_TAG = "faultbridge:stack"
ROLE_NOT_VISIBLE = frozenset({"ValidationError", "InvalidParameterValue"})
"""Answers of Auto Scaling while a new instance profile is not visible everywhere."""


def create_role(smoke: Smoke, outputs: dict[str, str]) -> str:
    """Create the role and the instance profile of the instances; return the id of the role."""
    iam = smoke.clients.iam
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [trust]}
    role = iam.create_role(RoleName=smoke.role, AssumeRolePolicyDocument=json.dumps(document), Tags=smoke.tags)["Role"]
    partition = role["Arn"].split(":")[1]
    managed = f"arn:{partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
    for policy in (managed, outputs["NodePolicyArn"]):
        iam.attach_role_policy(RoleName=smoke.role, PolicyArn=policy)
    output = f"arn:{partition}:s3:::{outputs['RawBucketName']}/verify/*"
    allowed = [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": output}]
    if smoke.hours:
        wheel = f"arn:{partition}:s3:::{smoke.bucket}/{WHEEL}"
        allowed.append({"Effect": "Allow", "Action": "s3:GetObject", "Resource": wheel})
    policy_document = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    iam.put_role_policy(RoleName=smoke.role, PolicyName="verify", PolicyDocument=policy_document)
    iam.create_instance_profile(InstanceProfileName=smoke.role, Tags=smoke.tags)
    iam.add_role_to_instance_profile(InstanceProfileName=smoke.role, RoleName=smoke.role)
    return str(role["RoleId"])


def create_group(smoke: Smoke, outputs: dict[str, str]) -> None:
    """Create the launch template and the Auto Scaling group."""
    ec2 = smoke.clients.ec2
    image = smoke.clients.ssm.get_parameter(Name=IMAGE)["Parameter"]["Value"]
    kinds = ("volume", "network-interface", "launch-template")
    *of_instances, of_template = [{"ResourceType": kind, "Tags": smoke.tags} for kind in kinds]
    instance_tags: list[Any] = of_instances
    template_tags: list[Any] = [of_template]
    commands = agent_setup(smoke, outputs, smoke.bucket) if smoke.hours else []
    ec2.create_launch_template(
        LaunchTemplateName=smoke.group,
        LaunchTemplateData={
            "ImageId": image,
            "InstanceType": INSTANCE_TYPE,
            "IamInstanceProfile": {"Name": smoke.role},
            "UserData": base64.b64encode(user_data(commands).encode()).decode(),
            "MetadataOptions": {"HttpTokens": "required"},
            "TagSpecifications": instance_tags,
        },
        TagSpecifications=template_tags,
    )
    subnets = ",".join(_subnets(smoke))
    smoke.wait_for("the instance profile is visible to Auto Scaling", lambda: _group_created(smoke, subnets))


def user_data(commands: Sequence[Any] = ()) -> str:
    """Return the cloud-init document that installs the scripted `dcgmi`: it prints a report without failures."""
    health = f"{HEALTH}\n" if commands else ""
    packed = base64.b64encode(gzip.compress(healthy_diagnostics().encode(), mtime=0)).decode()
    report = {"path": "/opt/faultbridge/report.json", "encoding": "gz+b64", "content": packed}
    script = {"path": "/usr/bin/dcgmi", "permissions": "0755", "content": f"#!/bin/sh\n{health}cat {report['path']}\n"}
    # cloud-init writes files before the network is up, so the agent of Systems Manager cannot be faster.
    late = {"runcmd": list(commands)} if commands else {}
    return "#cloud-config\n" + json.dumps({"write_files": [report, script], **late})


def create_page_queue(smoke: Smoke, outputs: dict[str, str]) -> str:
    """Create a queue, subscribe it to both page topics for this cluster, and return its URL."""
    topics = [outputs["UrgentTopicArn"], outputs["NoticeTopicArn"]]
    sqs = smoke.clients.sqs
    url = sqs.create_queue(QueueName=f"{smoke.name}-pages", tags={TAG: smoke.name})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topics}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": json.dumps({"cluster": [smoke.group]})}
    for topic in topics:
        smoke.clients.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
    return url


def ready_instances(smoke: Smoke) -> list[str]:
    """Return the instances of the group once all are in service and their Systems Manager agent is online."""
    groups = smoke.clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[smoke.group])
    members = [one for group in groups["AutoScalingGroups"] for one in group["Instances"]]
    serving = [one["InstanceId"] for one in members if one["LifecycleState"] == "InService"]
    if len(serving) < smoke.nodes:
        return []
    wanted: Any = [{"Key": "InstanceIds", "Values": serving}]
    answer = smoke.clients.ssm.describe_instance_information(Filters=wanted)
    online = {one["InstanceId"] for one in answer["InstanceInformationList"] if one["PingStatus"] == "Online"}
    return serving if online >= set(serving) else []


def _subnets(smoke: Smoke) -> list[str]:
    """Return the default subnets in zones that offer the instance type."""
    ec2 = smoke.clients.ec2
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [INSTANCE_TYPE]}]
    )["InstanceTypeOfferings"]
    zones = {one["Location"] for one in offered}
    subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    found = [subnet["SubnetId"] for subnet in subnets if subnet["AvailabilityZone"] in zones]
    if not found:
        raise SmokeFailed(f"no default subnet offers {INSTANCE_TYPE}; use a region with a default VPC")
    return found


def _group_created(smoke: Smoke, subnets: str) -> bool:
    """Create the group; False while its instance profile is not visible yet."""
    tags = {TAG: smoke.name, REPAIR_TAG: smoke.name}
    try:
        smoke.clients.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=smoke.group,
            LaunchTemplate={"LaunchTemplateName": smoke.group, "Version": "$Latest"},
            MinSize=0,
            MaxSize=smoke.nodes + 1,
            DesiredCapacity=smoke.nodes,
            VPCZoneIdentifier=subnets,
            Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
        )
    except ClientError as error:
        if code_of(error) in ROLE_NOT_VISIBLE and "nstance profile" in str(error):
            return False
        raise
    return True
