"""Every AWS call of the adapters reads all pages, or is bounded; and one that changes something may not act twice."""

from __future__ import annotations

from fnmatch import fnmatchcase

from botocore import xform_name

from infra.docs.aws_calls import AwsCall, calls
from infra.docs.template import resources
from tests.architecture.iam import is_allowed
from tests.architecture.roles import actions, deployed, statements
from tests.loops import for_each

BY_ID = "its request names the ids, fewer than a page has"
FIRST_PAGES = {
    "autoscaling describe_auto_scaling_groups": "its request names one group",
    "autoscaling describe_scaling_activities": "only the newest activity counts; MaxRecords is 1",
    "autoscaling describe_instance_refreshes": "only the newest refresh counts; MaxRecords is 1",
    "cloudformation describe_stacks": "its request names one stack",
    "dynamodb query": "the table port returns a page and its position; query_all reads them all",
    "ec2 describe_capacity_block_status": BY_ID,
    "ec2 describe_capacity_reservations": BY_ID,
    "ec2 describe_instance_status": BY_ID,
    "ec2 describe_instance_topology": BY_ID,
    "ec2 describe_instances": BY_ID,
    "ec2 describe_launch_template_versions": "its request names one version",
    "logs filter_log_events": "the reader continues with nextToken itself, because pages may be empty",
    "ssm describe_instance_information": BY_ID,
    "ssm list_commands": "its request names one command",
}
"""Why a call whose operation has pages may read only the first one."""

REPEATABLE = {
    "autoscaling terminate_instance_in_auto_scaling_group": "it names one instance, which ends once",
    "dynamodb batch_write_item": "the same items are written again",
    "ec2 create_tags": "the same tags are set again",
    "ec2 terminate_instances": "it names one instance, which ends once",
    "events put_events": "consumers find duplicates by the event id",
    "firehose put_record_batch": "readers of the archive find duplicates by the entry id",
    "logs create_log_group": "a group or stream that exists is used",
    "logs create_log_stream": "a group or stream that exists is used",
    "logs put_log_events": "receipts are compared as a set",
    "s3 put_object": "the same object is written again",
    "sagemaker attach_cluster_node_volume": "SageMaker refuses to attach an attached volume",
    "sagemaker batch_reboot_cluster_nodes": "never repeated by the client; the request log finds a lost one",
    "sagemaker batch_replace_cluster_nodes": "never repeated by the client; the request log finds a lost one",
    "sagemaker detach_cluster_node_volume": "SageMaker refuses to detach a detached volume",
    "sagemaker start_cluster_health_check": "never repeated by the client",
    "ec2 attach_volume": "EC2 refuses to attach an attached volume",
    "ec2 detach_volume": "EC2 refuses to detach a detached volume",
    "sns publish": "a page that arrives twice is one page for the operator",
    "sqs change_message_visibility_batch": "the same time is set again",
    "sqs delete_message": "a deleted message stays deleted",
    "sqs send_message_batch": "ingest finds duplicates by the record id",
    "ssm cancel_command": "a canceled command stays canceled",
    "ssm send_command": "callers pass a client that never repeats; the comment finds a lost one",
    "stepfunctions send_task_success": "a token is used once",
    "stepfunctions start_execution": "the name of an execution is used once",
}
"""Why a second call without a token has no second effect."""


def name_of(call: AwsCall) -> str:
    return f"{call.service} {call.method}"


def test_every_call_of_an_operation_with_pages_reads_them_all_or_says_why_not() -> None:
    single = {name_of(one) for one in calls() if one.can_paginate and not one.paginated}
    assert single == FIRST_PAGES.keys() & single
    assert FIRST_PAGES.keys() <= {name_of(one) for one in calls()}


def test_every_change_has_a_token_or_a_reason_why_it_may_be_repeated() -> None:
    without = {name_of(one) for one in calls() if not one.reads and not one.tokens}
    assert without == REPEATABLE.keys()


def test_a_call_that_starts_ends_or_restarts_an_instance_is_never_repeated_by_its_client() -> None:
    final = ("create_fleet", "terminate", "batch_re", "attach_volume", "detach_volume", "start_cluster")
    repeated = [one for one in calls() if one.method.startswith(final) and not one.client.endswith("_no_retry")]
    assert repeated == []


SERVICE_OF = {"states": "stepfunctions", "ssm": "ssm", "eks": "eks", "sagemaker": "sagemaker", "ec2": "ec2"}


def test_every_granted_call_of_the_compute_services_is_made() -> None:
    made = {name_of(one) for one in calls()}
    granted = {
        f"{SERVICE_OF[service]} {xform_name(operation)}"
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        for service, _, operation in (action.partition(":") for action in actions(statement))
        if service in SERVICE_OF and not operation.endswith("RunInstances") and operation != "GetParameters"
    }
    assert granted - made <= {"sts assume_role"}


TAG = "aws:ResourceTag/faultbridge:stack"
STACK = deployed({"Ref": "RepairTagValue"})
INSTANCE = "arn:aws-us-gov:ec2:us-gov-west-1:111122223333:instance/i-0123456789abcdef0"
CHANGES = {
    "ec2:TerminateInstances": INSTANCE,
    "autoscaling:TerminateInstanceInAutoScalingGroup": (
        "arn:aws-us-gov:autoscaling:us-gov-west-1:111122223333:autoScalingGroup:0-1:autoScalingGroupName/gpu"
    ),
    "sagemaker:BatchReplaceClusterNodes": "arn:aws-us-gov:sagemaker:us-gov-west-1:111122223333:cluster/abc",
    "sagemaker:BatchRebootClusterNodes": "arn:aws-us-gov:sagemaker:us-gov-west-1:111122223333:cluster/abc",
}
"""The calls that end or restart an instance, with a resource."""


@for_each(("role", "action"), [(role, action) for role in ("SweepRole", "ReplacementRole") for action in CHANGES])
def test_a_role_that_repairs_ends_only_what_has_the_tag_of_the_stack(role: str, action: str) -> None:
    resource = CHANGES[action]
    assert is_allowed(role, action, resource, {TAG: (STACK,)})
    assert not is_allowed(role, action, resource, {TAG: ("another-stack",)})
    assert not is_allowed(role, action, resource, {})


def test_no_other_role_ends_or_restarts_an_instance() -> None:
    repairing = {"SweepRole", "ReplacementRole"}
    others = resources("AWS::IAM::Role").keys() - repairing
    allowed = {
        (role, action)
        for role in others
        for statement in statements(role)
        for action in CHANGES
        if any(fnmatchcase(action, one) for one in actions(statement))
    }
    assert allowed == set()
