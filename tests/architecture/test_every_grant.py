"""What the roles of the template allow and deny, for each action of each of their statements."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from infra.docs.template import resources
from tests.architecture.iam import applies, conditions, is_allowed, listed
from tests.architecture.roles import DEPLOYED, actions, deployed, statements
from tests.loops import for_each

FOREIGN = "arn:aws-us-gov:another:us-gov-west-1:444455556666:another/resource"
UNLIMITED = {
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeInstanceRefreshes",
    "autoscaling:DescribeScalingActivities",
    "dynamodb:ListStreams",
    "ec2:DescribeCapacityBlockStatus",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTopology",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeVolumes",
    "ssm:CancelCommand",
    "ssm:DescribeInstanceInformation",
    "ssm:GetCommandInvocation",
    "ssm:ListCommands",
}
"""The only actions that a role may call on every resource; IAM has no narrower right for them."""


class Grant(NamedTuple):
    """An action that a statement of a role allows."""

    role: str
    sid: str
    action: str


def grants() -> list[tuple[Grant, dict[str, Any]]]:
    return [
        (Grant(role, statement["Sid"], action), statement)
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        for action in actions(statement)
    ]


def fitting(statement: Mapping[str, Any]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return a resource and the condition keys of a request that the statement is made for."""
    resource = listed(deployed(statement["Resource"]))[0].replace("*", "its-name")
    context = {
        key: ("given",) if operator == "Null" else (wanted[0].replace("*", "its-name"),)
        for operator, key, wanted in conditions(statement)
        if (operator, wanted) != ("Null", ("true",))
    }
    return resource, context


def others(grant: Grant) -> list[dict[str, Any]]:
    """Return the other statements of the role that name the action."""
    return [
        one
        for one in statements(grant.role)
        if one["Sid"] != grant.sid and any(fnmatchcase(grant.action, name) for name in actions(one))
    ]


@for_each("grant", [one for one, _ in grants()])
def test_a_request_for_which_a_statement_is_made_is_allowed(grant: Grant) -> None:
    resource, context = fitting(statement_of(grant))
    assert is_allowed(grant.role, grant.action, resource, context)


def statement_of(grant: Grant) -> dict[str, Any]:
    return next(statement for one, statement in grants() if one == grant)


def test_only_actions_without_a_narrower_right_are_allowed_on_every_resource() -> None:
    unlimited = {
        grant.action
        for grant, statement in grants()
        if is_allowed(grant.role, grant.action, FOREIGN, {})
        or (not statement.get("Condition") and "*" in listed(deployed(statement["Resource"])))
    }
    assert unlimited == UNLIMITED


@for_each("grant", [one for one, _ in grants() if one.action not in UNLIMITED])
def test_the_same_action_on_a_resource_of_another_account_without_any_tag_is_denied(grant: Grant) -> None:
    assert not is_allowed(grant.role, grant.action, FOREIGN, {})


LIMITED = [(grant, statement) for grant, statement in grants() if statement.get("Condition")]


@for_each("grant", [one for one, _ in LIMITED])
def test_a_request_with_another_value_of_any_condition_key_is_denied(grant: Grant) -> None:
    statement = statement_of(grant)
    resource, context = fitting(statement)
    for operator, key, _ in conditions(statement):
        changed = {name: one for name, one in context.items() if name != key}
        if operator != "Null":
            changed[key] = ("another-value",)
        by_another = any(applies(one, grant.action, resource, changed) for one in others(grant))
        assert by_another or not is_allowed(grant.role, grant.action, resource, changed), key


@for_each("grant", [one for one, statement in LIMITED if "StringEquals" in statement["Condition"]])
def test_a_request_without_the_condition_key_of_an_exact_value_is_denied(grant: Grant) -> None:
    statement = statement_of(grant)
    resource, context = fitting(statement)
    for operator, key, _ in conditions(statement):
        if operator == "StringEquals":
            changed = {name: one for name, one in context.items() if name != key}
            by_another = any(applies(one, grant.action, resource, changed) for one in others(grant))
            assert by_another or not is_allowed(grant.role, grant.action, resource, changed), key


def test_no_role_may_change_policies_roles_functions_or_the_settings_of_the_table() -> None:
    forbidden = (
        *("iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:CreateRole", "sts:AssumeRoleWithWebIdentity"),
        *("lambda:UpdateFunctionCode", "lambda:AddPermission", "dynamodb:DeleteTable", "dynamodb:UpdateTable"),
        *("dynamodb:Scan", "s3:PutBucketPolicy", "s3:BypassGovernanceRetention", "kms:ScheduleKeyDeletion"),
        *("states:UpdateStateMachine", "sqs:SetQueueAttributes", "events:PutRule", "ec2:RunScheduledInstances"),
    )
    allowed = {
        (role, action)
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        for name in actions(statement)
        for action in forbidden
        if fnmatchcase(action.lower(), name.lower())
    }
    assert allowed == set()


COMPUTE = frozenset({"autoscaling", "ec2", "eks", "iam", "kms", "sagemaker", "ssm"})
READS = ("Describe", "List", "Get")
WITHOUT_KEY = {
    "Key": "the one key of the stack, if it has one",
    "VolumeKeys": "its key has the same name here as that of the stack",
    "CancelCommands": "IAM has no narrower right, and the caller knows only the commands that it sent",
    "VerifyHow": "the document; a command also needs an instance with the tag",
    "LaunchWith": "what a launch uses; it also needs a launch template and new instances with the tag",
}
"""The statements that allow a change of compute without a condition key, and why."""


def test_every_change_of_compute_needs_a_condition_key_of_the_request() -> None:
    free = {
        grant.sid
        for grant, statement in grants()
        if grant.action.split(":")[0] in COMPUTE
        and not grant.action.split(":")[1].startswith(READS)
        and is_allowed(grant.role, grant.action, fitting(statement)[0], {})
    }
    assert free == WITHOUT_KEY.keys()


def test_a_right_on_resources_of_the_own_account_is_none_on_those_of_another_account() -> None:
    foreign = {
        (grant.role, grant.action, resource)
        for grant, statement in grants()
        for resource in [fitting(statement)[0].replace(DEPLOYED["AccountId"], "444455556666")]
        if "444455556666" in resource and is_allowed(grant.role, grant.action, resource, fitting(statement)[1])
    }
    assert foreign == set()
