"""Remove everything that a smoke test created; all of it is found by its name and tag."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.smoke.plan import TAG
from infra.smoke.run import POLL_SECONDS, Smoke

STOPPED = ("shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource: `find` yields the ids that exist, `remove` starts the removal of one.

    If `after_stack` is True, it is removed after the stack, which may still use it.
    """

    name: str
    find: Callable[[Smoke], Iterator[str]]
    remove: Callable[[Smoke, str], object]
    after_stack: bool = False


def clean_up(smoke: Smoke) -> list[str]:
    """Remove everything until nothing is left or the deadline is over; return what is left."""
    while left := remaining(smoke):
        if time.monotonic() > smoke.deadline:
            break
        stack_exists = any(kind is STACK for kind, _ in left)
        for kind, found in left:
            if not (kind.after_stack and stack_exists):
                _remove(smoke, kind, found)
        time.sleep(POLL_SECONDS)
    return [f"{kind.name} {found}" for kind, found in left]


def remaining(smoke: Smoke) -> list[tuple[Kind, str]]:
    """List what exists of a run, in the order of removal."""
    return [(kind, found) for kind in KINDS for found in kind.find(smoke)]


def _remove(smoke: Smoke, kind: Kind, found: str) -> None:
    """Start the removal of one resource. A refusal is reported; the next round tries again."""
    print(f"removing {kind.name} {found}", file=sys.stderr)
    try:
        kind.remove(smoke, found)
    except (ClientError, BotoCoreError) as error:
        print(f"  not yet: {error}", file=sys.stderr)


def _groups(smoke: Smoke) -> Iterator[str]:
    answer = smoke.clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[smoke.group])
    yield from (one["AutoScalingGroupName"] for one in answer["AutoScalingGroups"])


def _delete_group(smoke: Smoke, found: str) -> object:
    return smoke.clients.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=found, ForceDelete=True)


def _instances(smoke: Smoke) -> Iterator[str]:
    wanted: Any = [{"Name": f"tag:{TAG}", "Values": [smoke.name]}]
    for reservation in smoke.clients.ec2.describe_instances(Filters=wanted)["Reservations"]:
        yield from (one["InstanceId"] for one in reservation["Instances"] if one["State"]["Name"] not in STOPPED)


def _launch_templates(smoke: Smoke) -> Iterator[str]:
    wanted: Any = [{"Name": "launch-template-name", "Values": [smoke.group]}]
    answer = smoke.clients.ec2.describe_launch_templates(Filters=wanted)
    yield from (one["LaunchTemplateId"] for one in answer["LaunchTemplates"])


def _profiles(smoke: Smoke) -> Iterator[str]:
    try:
        smoke.clients.iam.get_instance_profile(InstanceProfileName=smoke.role)
    except smoke.clients.iam.exceptions.NoSuchEntityException:
        return
    yield smoke.role


def _delete_profile(smoke: Smoke, found: str) -> None:
    iam = smoke.clients.iam
    for role in iam.get_instance_profile(InstanceProfileName=found)["InstanceProfile"]["Roles"]:
        iam.remove_role_from_instance_profile(InstanceProfileName=found, RoleName=role["RoleName"])
    iam.delete_instance_profile(InstanceProfileName=found)


def _roles(smoke: Smoke) -> Iterator[str]:
    try:
        smoke.clients.iam.get_role(RoleName=smoke.role)
    except smoke.clients.iam.exceptions.NoSuchEntityException:
        return
    yield smoke.role


def _delete_role(smoke: Smoke, found: str) -> None:
    iam = smoke.clients.iam
    for policy in iam.list_attached_role_policies(RoleName=found)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=found, PolicyArn=policy["PolicyArn"])
    for inline in iam.list_role_policies(RoleName=found)["PolicyNames"]:
        iam.delete_role_policy(RoleName=found, PolicyName=inline)
    iam.delete_role(RoleName=found)


def _queues(smoke: Smoke) -> Iterator[str]:
    try:
        yield smoke.clients.sqs.get_queue_url(QueueName=f"{smoke.name}-pages")["QueueUrl"]
    except smoke.clients.sqs.exceptions.QueueDoesNotExist:
        return


def _stacks(smoke: Smoke) -> Iterator[str]:
    try:
        stacks = smoke.clients.cloudformation.describe_stacks(StackName=smoke.name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return
        raise
    yield from (one["StackName"] for one in stacks if one["StackStatus"] != "DELETE_COMPLETE")


def _buckets(smoke: Smoke) -> Iterator[str]:
    buckets = smoke.clients.s3.list_buckets()["Buckets"]
    yield from (one["Name"] for one in buckets if one["Name"].startswith(f"{smoke.name}-"))


def _delete_bucket(smoke: Smoke, found: str) -> None:
    """Delete all versions of all objects, then the bucket; the vault's locks are in the mode GOVERNANCE."""
    s3 = smoke.clients.s3
    locked: Any = {"BypassGovernanceRetention": True} if found.startswith(f"{smoke.name}-vaultbucket-") else {}
    for versions in s3.get_paginator("list_object_versions").paginate(Bucket=found):
        rows = [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]
        keys: Any = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in rows]
        if keys:
            s3.delete_objects(Bucket=found, Delete={"Objects": keys, "Quiet": True}, **locked)
    s3.delete_bucket(Bucket=found)


def _tables(smoke: Smoke) -> Iterator[str]:
    for names in smoke.clients.dynamodb.get_paginator("list_tables").paginate():
        yield from (one for one in names["TableNames"] if one.startswith(f"{smoke.name}-"))


def _log_groups(smoke: Smoke) -> Iterator[str]:
    logs = smoke.clients.logs
    for prefix in (f"/aws/lambda/{smoke.name}-", f"/faultbridge/{smoke.name}/"):
        yield from (one["logGroupName"] for one in logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"])


STACK = Kind("stack", _stacks, lambda smoke, found: smoke.clients.cloudformation.delete_stack(StackName=found))
KINDS = (
    Kind("Auto Scaling group", _groups, _delete_group),
    Kind("instance", _instances, lambda smoke, one: smoke.clients.ec2.terminate_instances(InstanceIds=[one])),
    Kind(
        "launch template",
        _launch_templates,
        lambda smoke, one: smoke.clients.ec2.delete_launch_template(LaunchTemplateId=one),
    ),
    Kind("instance profile", _profiles, _delete_profile),
    Kind("role", _roles, _delete_role),
    Kind("queue", _queues, lambda smoke, one: smoke.clients.sqs.delete_queue(QueueUrl=one)),
    STACK,
    Kind("bucket", _buckets, _delete_bucket, after_stack=True),
    Kind("table", _tables, lambda smoke, one: smoke.clients.dynamodb.delete_table(TableName=one), after_stack=True),
    Kind(
        "log group",
        _log_groups,
        lambda smoke, one: smoke.clients.logs.delete_log_group(logGroupName=one),
        after_stack=True,
    ),
)
"""What a run creates, in the order of removal."""
