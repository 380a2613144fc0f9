"""A deployment continues what an interrupted one left, and never replaces what keeps data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from faultbridge.install.cloudformation import Deployer
from faultbridge.install.packaging import Packaged
from faultbridge.model.errors import Misconfigured, Transient

PACKAGED = Packaged({"Parameters": {"ArtifactBucket": {}, "Size": {}, "New": {}}, "Resources": {}}, (), "3.11")


class FakeCloudFormation:
    """A fake: one stack whose next statuses are given; it keeps the answers of the API that a deployment reads."""

    def __init__(self, *statuses: str | None, changes: list[dict[str, str]] | None = None, refusal: str = "") -> None:
        self.statuses = list(statuses)
        self.changes = [] if changes is None else changes
        self.refusal = refusal
        self.calls: list[str] = []
        self.created: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - as in boto3
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is None:
            error = {"Error": {"Code": "ValidationError", "Message": f"Stack with id {StackName} does not exist"}}
            raise ClientError(error, "DescribeStacks")
        return {"Stacks": [{"StackStatus": status, "Parameters": [{"ParameterKey": "Size", "ParameterValue": "1"}]}]}

    def create_change_set(self, **given: Any) -> dict[str, str]:
        self.calls.append(f"create {given['ChangeSetType']}")
        self.created = given
        return {"Id": "change-set"}

    def describe_change_set(self, **_: Any) -> dict[str, Any]:
        status = "FAILED" if self.refusal else "CREATE_COMPLETE"
        changes = [{"ResourceChange": one} for one in self.changes]
        return {
            "Status": status,
            "StatusReason": self.refusal,
            "ExecutionStatus": "EXECUTE_COMPLETE",
            "Changes": changes,
        }

    def execute_change_set(self, **_: Any) -> None:
        self.calls.append("execute")

    def delete_change_set(self, **_: Any) -> None:
        self.calls.append("delete change set")

    def delete_stack(self, **_: Any) -> None:
        self.calls.append("delete stack")

    def get_paginator(self, _: str) -> FakeCloudFormation:
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"StackEvents": self.events}]


def deploy(fake: FakeCloudFormation, **parameters: str) -> list[str]:
    """Deploy to the fake and return the progress lines."""
    lines: list[str] = []
    Deployer(fake, "faultbridge", lines.append, 0.0).deploy(PACKAGED, "https://template", "bucket", parameters)
    return lines


def test_a_new_stack_is_created_with_the_defaults_of_the_template() -> None:
    fake = FakeCloudFormation(None, "CREATE_COMPLETE")
    deploy(fake)
    assert fake.calls == ["create CREATE", "execute"]
    assert fake.created["Parameters"] == [{"ParameterKey": "ArtifactBucket", "ParameterValue": "bucket"}]


def test_an_update_keeps_the_parameters_that_are_not_given() -> None:
    fake = FakeCloudFormation("UPDATE_COMPLETE")
    deploy(fake, New="2")
    assert fake.calls == ["create UPDATE", "execute"]
    assert {"ParameterKey": "Size", "UsePreviousValue": True} in fake.created["Parameters"]
    assert {"ParameterKey": "New", "ParameterValue": "2"} in fake.created["Parameters"]


def test_an_operation_in_progress_is_waited_for() -> None:
    fake = FakeCloudFormation("UPDATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE")
    assert deploy(fake) == ["the stack is UPDATE_IN_PROGRESS"]
    assert fake.calls == ["create UPDATE", "execute"]


def test_a_stack_of_which_only_a_change_set_exists_is_created() -> None:
    fake = FakeCloudFormation("REVIEW_IN_PROGRESS", "CREATE_COMPLETE")
    deploy(fake)
    assert fake.calls == ["create CREATE", "execute"]


def test_what_a_failed_creation_left_is_deleted_first() -> None:
    fake = FakeCloudFormation("ROLLBACK_COMPLETE", None, "CREATE_COMPLETE")
    deploy(fake)
    assert fake.calls == ["delete stack", "create CREATE", "execute"]


def test_a_stack_that_is_up_to_date_stays_as_it_is() -> None:
    fake = FakeCloudFormation("UPDATE_ROLLBACK_COMPLETE", refusal="The submitted information didn't contain changes.")
    deploy(fake)
    assert fake.calls == ["create UPDATE", "delete change set"]


def test_a_refused_change_is_reported_with_its_reason() -> None:
    fake = FakeCloudFormation("UPDATE_COMPLETE", refusal="Parameter Size must be a number")
    with pytest.raises(Misconfigured, match="Parameter Size must be a number"):
        deploy(fake)


@pytest.mark.parametrize(
    "change",
    [
        {
            "Action": "Modify",
            "Replacement": "True",
            "LogicalResourceId": "Table",
            "ResourceType": "AWS::DynamoDB::Table",
        },
        {"Action": "Remove", "LogicalResourceId": "Table", "ResourceType": "AWS::DynamoDB::Table"},
    ],
)
def test_a_change_that_would_lose_data_is_not_executed(change: dict[str, str]) -> None:
    fake = FakeCloudFormation("UPDATE_COMPLETE", changes=[change])
    with pytest.raises(Misconfigured, match="Table; nothing was changed"):
        deploy(fake)
    assert fake.calls == ["create UPDATE", "delete change set"]


def of(resource: str, status: str, second: int, reason: str = "") -> dict[str, Any]:
    at = datetime(2026, 2, 3, 12, 0, second, tzinfo=UTC)
    return {"LogicalResourceId": resource, "ResourceStatus": status, "Timestamp": at, "ResourceStatusReason": reason}


@pytest.mark.parametrize("begun_first", [True, False])
def test_a_failed_update_names_the_first_resource_that_failed(begun_first: bool) -> None:
    fake = FakeCloudFormation("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
    same_time = [of("faultbridge", "UPDATE_IN_PROGRESS", 2), of("A", "UPDATE_FAILED", 2, "no permission")]
    fake.events = [
        of("B", "UPDATE_FAILED", 3, "update cancelled"),
        *(same_time if begun_first else reversed(same_time)),
        of("C", "CREATE_FAILED", 1, "of an earlier one"),
    ]
    with pytest.raises(Transient, match="A: no permission"):
        deploy(fake)


def test_a_rollback_that_failed_names_the_command_that_continues_it() -> None:
    with pytest.raises(Misconfigured, match="continue-update-rollback --stack-name faultbridge"):
        deploy(FakeCloudFormation("UPDATE_ROLLBACK_FAILED"))
