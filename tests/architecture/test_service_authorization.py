"""Each granted action exists, and AWS evaluates the condition keys of its statement for it.

`service_authorization.json` lists, for the actions that the template grants, the condition keys of the service
authorization reference: those of the action and those of the resource types that it takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.session import get_session

from infra.docs.template import resources
from tests.architecture.roles import actions, managed_policies, statements

REFERENCE: dict[str, list[str]] = json.loads(Path(__file__).with_name("service_authorization.json").read_text())
TAGS = ("aws:ResourceTag/", "aws:RequestTag/", "aws:TagKeys")
"""The global condition keys that only some actions evaluate; all others are part of every request."""

NEWER = {
    "ec2:DescribeCapacityBlockStatus",
    "sagemaker:AttachClusterNodeVolume",
    "sagemaker:BatchRebootClusterNodes",
    "sagemaker:BatchReplaceClusterNodes",
    "sagemaker:DescribeTrainingPlan",
    "sagemaker:DetachClusterNodeVolume",
    "sagemaker:ListClusterEvents",
    "sagemaker:StartClusterHealthCheck",
}
"""Actions that the data does not have yet: they are operations of botocore, their condition keys are not checked."""

REVIEWED: frozenset[tuple[str, str]] = frozenset()
"""Pairs of action and key that the reference does not list, although AWS evaluates them."""


def granted() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each action that the template grants, with its statement."""
    of_roles = (one for role in resources("AWS::IAM::Role") for one in statements(role))
    written = (one for policy in managed_policies().values() for one in policy["PolicyDocument"]["Statement"])
    for statement in (*of_roles, *(one["Fn::If"][1] if "Fn::If" in one else one for one in written)):
        yield from ((action, statement) for action in actions(statement))


def normal(key: str) -> str:
    """Return a condition key without the name of a tag or column."""
    head, slash, _ = key.partition("/")
    return f"{head}{slash}".lower()


def test_every_granted_action_exists() -> None:
    assert {action for action, _ in granted()} == {*REFERENCE, *NEWER}
    session = get_session()
    for action in NEWER:
        service, _, operation = action.partition(":")
        assert operation in session.get_service_model(service).operation_names


def test_every_condition_key_is_evaluated_for_each_action_of_its_statement() -> None:
    unknown = {
        (action, key)
        for action, statement in granted()
        if action not in NEWER
        for keys in statement.get("Condition", {}).values()
        for key in keys
        if (not key.startswith("aws:") or key.startswith(TAGS))
        and normal(key) not in {normal(one) for one in REFERENCE[action]}
    }
    assert unknown - REVIEWED == set()
    assert REVIEWED - unknown == set()
