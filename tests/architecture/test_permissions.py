"""The reviewed table of permissions equals the grants of the template, and the code makes the calls that it names."""

from __future__ import annotations

import re

import pytest
from botocore import xform_name

from infra.docs.template import resources
from tests.architecture.builders import ROW, Grant, documented
from tests.architecture.project import PACKAGE, ROOT
from tests.architecture.roles import actions, document_size, inline_size, managed_policies, statements
from tests.loops import for_each

# Rights that no call of the same name uses.
CALLS = {
    "dynamodb:ConditionCheckItem": ("transact_write_items",),
    "ec2:RunInstances": ("create_fleet",),
    "ec2:CreateTags": ("create_fleet", "create_tags"),
    "ec2:DescribeInstances": ("describe_instances", "instances_where"),  # the read that the EC2 adapters share
    "iam:PassRole": ("create_fleet",),
    "s3:ListBucket": ("get_object",),
    "s3:GetObjectVersion": ("get_object",),
    "s3:ListBucketVersions": ("list_object_versions",),
    "sqs:SendMessage": ("send_message_batch",),
}


def granted() -> set[Grant]:
    """Return the grants of the template, without the customer's key, which one rule in the text covers."""
    return {
        Grant(role.removesuffix("Role"), statement["Sid"], frozenset(actions(statement)))
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        if statement["Sid"] != "Key"
    }


def test_the_table_says_what_the_template_grants() -> None:
    assert set(documented()) == granted()


def named(part: Grant | str) -> str:
    """Return a test id that is the same in every process; the text of a set depends on the hash seed."""
    return part if isinstance(part, str) else f"{part.role}/{part.sid}"


@for_each(("grant", "by"), [(g, by) for g, by in documented().items() if by != "-"], ids=named)
def test_the_file_that_is_said_to_need_a_right_makes_the_call(grant: Grant, by: str) -> None:
    code = (PACKAGE / by).read_text(encoding="utf-8")
    for action in grant.actions:
        calls = CALLS.get(action, (xform_name(action.split(":")[1]),))
        assert any(call in code for call in calls), action


@pytest.mark.parametrize("role", sorted(resources("AWS::IAM::Role")))
def test_the_inline_policies_of_a_role_fit_into_the_limit_of_iam(role: str) -> None:
    """IAM rejects more than 10,240 characters, and with them the deployment (IAM User Guide, "IAM quotas")."""
    assert inline_size(role) <= 10_240


@pytest.mark.parametrize("policy", sorted(managed_policies()))
def test_a_managed_policy_fits_into_the_limit_of_iam(policy: str) -> None:
    """IAM rejects more than 6,144 characters."""
    assert document_size(managed_policies()[policy]) <= 6_144


def test_the_statements_of_a_managed_policy_count_for_each_of_its_roles() -> None:
    launches = {role for role in ("SweepRole", "ReplacementRole", "ReactRole") if "LaunchFrom" in sids(role)}
    assert launches == {"SweepRole", "ReplacementRole"}


def sids(role: str) -> set[str]:
    return {str(one["Sid"]) for one in statements(role)}


PARTITIONS = {
    "Intake/Taken": ["WEBHOOK#*"],
    "Sweep/Jobs": ["JOB#*"],
    "Console/Orders": ["NODE#*", "CASE#*", "ORDER#*", "CLUSTER#*#*"],
    "Console/Controls": ["CLUSTER#*"],
    "Timeline/Answers": ["NODE#*", "CASE#*", "JOB#*", "ORDER#*", "CLUSTER#*#*"],
    "Timeline/Incidents": ["CLUSTER#*"],
    "Pager/Marks": ["CASE#*", "PAGES#*"],
}
"""The partitions of the table to which a statement is limited."""


def test_a_statement_is_limited_to_the_partitions_that_it_needs() -> None:
    limited = {
        f"{role.removesuffix('Role')}/{one['Sid']}": keys["dynamodb:LeadingKeys"]
        for role in resources("AWS::IAM::Role")
        for one in statements(role)
        for operator, keys in one.get("Condition", {}).items()
        if "dynamodb:LeadingKeys" in keys and operator == "ForAllValues:StringLike"
    }
    assert limited == PARTITIONS


def test_the_table_names_the_partitions_of_each_limited_statement() -> None:
    rows = ROW.finditer((ROOT / "docs" / "permissions.md").read_text(encoding="utf-8"))
    named_in = {f"{r['role']}/{r['sid']}": re.findall(r"`([A-Z]+#[^`]*)`", r["on"]) for r in rows}
    as_written = {one: [key[:-1].replace("*", "...") for key in PARTITIONS[one]] for one in PARTITIONS}
    assert {one: found for one, found in named_in.items() if found} == as_written
