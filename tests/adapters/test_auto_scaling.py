"""Terminating an instance of an Auto Scaling group: the result of each AWS response."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.auto_scaling import AutoScalingProvider
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.compute import CallResult, Capacity
from faultbridge.record.ports.presence import Presence
from tests.adapters.stubs import answering, failing, stubbed

INSTANCE = "i-0123456789abcdef0"
URL = "http://127.0.0.1:1"
OPERATION = "terminate_instance_in_auto_scaling_group"


def failed_replacement(code: str, message: str = "", status: int = 400, *, alive: bool = True) -> CallResult:
    with stubbed("autoscaling_no_retry") as (clients, stub):
        stub.add_client_error(OPERATION, code, message, status)
        with Stubber(clients.ec2) as ec2:
            ec2.add_response("describe_instances", described("running" if alive else "terminated"))
            return AutoScalingProvider(clients).replace(INSTANCE, "token")


def described(state: str) -> dict[str, Any]:
    return {"Reservations": [{"Instances": [{"InstanceId": INSTANCE, "State": {"Name": state}}]}]}


@pytest.mark.parametrize(
    ("code", "message", "status", "failure"),
    [
        ("AccessDenied", "no", 403, ProviderFailure.PERMISSION_DENIED),
        ("UnauthorizedOperation", "no", 403, ProviderFailure.PERMISSION_DENIED),
        ("OperationNotPermitted", "termination protection", 400, ProviderFailure.PERMISSION_DENIED),
        ("ValidationError", "the instance is protected", 400, ProviderFailure.PERMISSION_DENIED),
        ("ValidationError", "LifecycleState is Pending", 400, ProviderFailure.CONFLICT),
        ("ValidationError", "an unknown message", 400, ProviderFailure.PROVIDER_ERROR),
        ("ResourceContention", "busy", 500, ProviderFailure.CONFLICT),
        ("ScalingActivityInProgress", "busy", 400, ProviderFailure.CONFLICT),
        ("Throttling", "slower", 400, ProviderFailure.THROTTLED),
        ("RequestLimitExceeded", "slower", 503, ProviderFailure.THROTTLED),
        ("InsufficientInstanceCapacity", "none", 500, ProviderFailure.CAPACITY),
        ("InternalFailure", "sorry", 500, ProviderFailure.AMBIGUOUS),
        ("SomethingNew", "sorry", 500, ProviderFailure.AMBIGUOUS),
        ("SomethingNew", "no", 400, ProviderFailure.PROVIDER_ERROR),
    ],
)
def test_a_failure_is_mapped_by_its_code_and_message(
    code: str, message: str, status: int, failure: ProviderFailure
) -> None:
    answer = failed_replacement(code, message, status)
    assert answer.failure is failure
    assert code in answer.reason


NOT_FOUND = "Instance Id not found - No managed instance found for instance ID i-0123456789abcdef0"


def test_an_instance_that_is_already_gone_counts_as_replaced() -> None:
    assert failed_replacement("ValidationError", NOT_FOUND, alive=False).ok


def test_a_live_instance_outside_every_group_is_not_found() -> None:
    assert failed_replacement("ValidationError", NOT_FOUND).failure is ProviderFailure.NOT_FOUND


def test_an_instance_that_is_not_found_and_cannot_be_read_does_not_count_as_replaced() -> None:
    with stubbed("autoscaling_no_retry") as (clients, stub), Stubber(clients.ec2) as ec2:
        stub.add_client_error(OPERATION, "ValidationError", NOT_FOUND)
        ec2.add_client_error("describe_instances", "InternalError", http_status_code=500)
        assert AutoScalingProvider(clients).replace(INSTANCE, "token").failure is ProviderFailure.NOT_FOUND


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ReadTimeoutError(endpoint_url=URL), ProviderFailure.AMBIGUOUS),
        (ConnectionClosedError(endpoint_url=URL), ProviderFailure.AMBIGUOUS),
        (ConnectTimeoutError(endpoint_url=URL), ProviderFailure.TIMEOUT),
        (EndpointConnectionError(endpoint_url=URL), ProviderFailure.TIMEOUT),
        (NoCredentialsError(), ProviderFailure.PROVIDER_ERROR),
    ],
)
def test_a_lost_response_is_ambiguous_unless_no_connection_was_made(error: Exception, failure: ProviderFailure) -> None:
    requests: list[Any] = []
    with failing("autoscaling_no_retry", error, requests) as clients:
        assert AutoScalingProvider(clients).replace(INSTANCE, "token").failure is failure
    assert len(requests) == 1, "the client does not retry"


def test_an_error_page_instead_of_a_response_is_ambiguous() -> None:
    requests: list[Any] = []
    with answering("autoscaling_no_retry", 500, b"<html>oops</html>", requests) as clients:
        assert AutoScalingProvider(clients).replace(INSTANCE, "token").failure is ProviderFailure.AMBIGUOUS
    assert len(requests) == 1


def test_the_group_size_is_kept_and_the_activity_id_is_the_operation() -> None:
    activity = {
        "ActivityId": "a-1", "AutoScalingGroupName": "g", "Cause": "c", "StartTime": 0, "StatusCode": "InProgress",
    }  # fmt: skip
    expected = {"InstanceId": INSTANCE, "ShouldDecrementDesiredCapacity": False}
    with stubbed("autoscaling_no_retry") as (clients, stub):
        stub.add_response(OPERATION, {"Activity": activity}, expected)
        assert AutoScalingProvider(clients).replace(INSTANCE, "token") == CallResult(operation="a-1")


STATES: Mapping[str, Presence] = {
    "pending": Presence.ALIVE,
    "running": Presence.ALIVE,
    "stopping": Presence.ALIVE,
    "stopped": Presence.ALIVE,
    "shutting-down": Presence.GONE,
    "terminated": Presence.GONE,
}


@pytest.mark.parametrize("state", sorted(STATES))
def test_an_instance_is_gone_from_shutting_down_on(state: str) -> None:
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_instances", described(state))
        assert AutoScalingProvider(clients).probe(INSTANCE) is STATES[state]


@pytest.mark.parametrize("empty", [False, True])
def test_an_instance_of_which_ec2_has_no_record_is_unlisted_and_not_proven_gone(empty: bool) -> None:
    with stubbed("ec2") as (clients, stub):
        if empty:
            stub.add_response("describe_instances", {"Reservations": []})
        else:
            stub.add_client_error("describe_instances", "InvalidInstanceID.NotFound")
        assert AutoScalingProvider(clients).probe(INSTANCE) is Presence.UNLISTED


def test_a_probe_without_a_response_returns_unknown() -> None:
    with failing("ec2", ReadTimeoutError(endpoint_url=URL)) as clients:
        assert AutoScalingProvider(clients).probe(INSTANCE) is Presence.UNKNOWN


def test_a_probe_without_permission_is_misconfigured() -> None:
    with stubbed("ec2") as (clients, stub):
        stub.add_client_error("describe_instances", "UnauthorizedOperation", http_status_code=403)
        with pytest.raises(Misconfigured):
            AutoScalingProvider(clients).probe(INSTANCE)


def test_terminating_members_are_no_candidates() -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response("describe_auto_scaling_groups", {"AutoScalingGroups": [group(("Terminating:Wait", "i-1"))]})
        assert candidates(clients) == ()


INTENT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def from_warm_pool(*activities: tuple[int, str]) -> tuple[str, ...]:
    """The candidates of a group with a warm pool; each activity began this many minutes after the intent.

    Both members of the group were launched a day before the intent.
    """
    old, warm = "i-0aaaaaaaaaaaaaaaa", "i-0bbbbbbbbbbbbbbbb"
    described_group = {**group(("InService", old), ("InService", warm)), "WarmPoolConfiguration": {"MinSize": 1}}
    instances = [
        {"InstanceId": each, "State": {"Name": "running"}, "LaunchTime": INTENT - timedelta(days=1)}
        for each in (old, warm)
    ]
    listed = [
        {
            "ActivityId": "a", "AutoScalingGroupName": "g", "Cause": "c", "StatusCode": "Successful",
            "StartTime": INTENT + timedelta(minutes=minutes), "Description": description,
        }
        for minutes, description in activities
    ]  # fmt: skip
    with stubbed("autoscaling") as (clients, stub), Stubber(clients.ec2) as ec2:
        stub.add_response("describe_auto_scaling_groups", {"AutoScalingGroups": [described_group]})
        ec2.add_response("describe_instances", {"Reservations": [{"Instances": instances}]})
        stub.add_response("describe_scaling_activities", {"Activities": listed}, {"AutoScalingGroupName": "g"})
        return tuple(one.instance_id for one in AutoScalingProvider(clients).candidates("g", INTENT))


def test_an_instance_that_joined_from_the_warm_pool_after_the_intent_is_a_candidate() -> None:
    joined = "Launching a new EC2 instance from warm pool: i-0bbbbbbbbbbbbbbbb"
    assert from_warm_pool((3, joined)) == ("i-0bbbbbbbbbbbbbbbb",)


def test_an_instance_that_joined_from_the_warm_pool_before_the_intent_is_no_candidate() -> None:
    joined = "Launching a new EC2 instance from warm pool: i-0bbbbbbbbbbbbbbbb"
    assert from_warm_pool((1, "Terminating EC2 instance: i-0aaaaaaaaaaaaaaaa"), (-3, joined)) == ()


def test_an_instance_that_waits_in_the_warm_pool_is_no_candidate() -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response("describe_auto_scaling_groups", {"AutoScalingGroups": [group(("Warmed:Running", "i-1"))]})
        assert candidates(clients) == ()


def candidates(clients: Clients) -> tuple[Any, ...]:
    from tests.contracts.provider import LONG_AGO

    return AutoScalingProvider(clients).candidates("g", LONG_AGO)


def group(*members: tuple[str, str]) -> dict[str, Any]:
    instances = [
        {
            "InstanceId": name, "LifecycleState": state, "AvailabilityZone": "a", "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
        }
        for state, name in members
    ]  # fmt: skip
    return {
        "AutoScalingGroupName": "g", "MinSize": 0, "MaxSize": 1, "DesiredCapacity": 1, "DefaultCooldown": 0,
        "AvailabilityZones": [], "HealthCheckType": "EC2", "CreatedTime": 0, "Instances": instances,
    }  # fmt: skip


GROUP = "workers"


def capacity_of(group: dict[str, Any], *activities: dict[str, Any]) -> Capacity:
    """Return the answer for on-demand capacity of a group that AWS describes so."""
    required = {
        "AutoScalingGroupName": GROUP, "MinSize": 0, "MaxSize": 9, "DefaultCooldown": 0, "HealthCheckType": "EC2",
        "AvailabilityZones": ["us-east-1a"], "CreatedTime": datetime(2026, 1, 1, tzinfo=UTC), "Instances": [],
    }  # fmt: skip
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response("describe_auto_scaling_groups", {"AutoScalingGroups": [required | group]})
        if activities:
            stub.add_response("describe_scaling_activities", {"Activities": list(activities)})
        return AutoScalingProvider(clients).capacity(CapacitySource.ON_DEMAND, INSTANCE, GROUP)


def activity(status: str, text: str = "Launching a new EC2 instance") -> dict[str, Any]:
    return {
        "ActivityId": "a", "AutoScalingGroupName": GROUP, "Cause": "a user request", "Description": text,
        "StatusCode": status,
        "StatusMessage": "We currently do not have sufficient p5.48xlarge capacity.",
        "StartTime": datetime(2026, 1, 1, tzinfo=UTC),
    }  # fmt: skip


@pytest.mark.parametrize("process", ["Launch", "Terminate"])
def test_no_instance_is_released_while_the_processes_that_replace_it_are_suspended(process: str) -> None:
    found = capacity_of({"DesiredCapacity": 0, "SuspendedProcesses": [{"ProcessName": process}]})
    assert (found.free, found.reason) == (False, f"workers: suspended processes: {process}")


def test_other_suspended_processes_hold_no_release() -> None:
    assert capacity_of({"DesiredCapacity": 0, "SuspendedProcesses": [{"ProcessName": "AZRebalance"}]}).free


def test_a_group_that_lacks_an_instance_and_failed_to_launch_one_has_no_capacity() -> None:
    found = capacity_of({"DesiredCapacity": 1}, activity("Failed"))
    assert (found.free, "sufficient p5.48xlarge capacity" in found.reason) == (False, True)


@pytest.mark.parametrize("newest", [activity("Successful"), activity("Failed", "Terminating EC2 instance: i-1")])
def test_a_launch_that_did_not_fail_says_nothing_about_capacity(newest: dict[str, Any]) -> None:
    assert capacity_of({"DesiredCapacity": 1}, newest).free


def test_an_old_failed_launch_of_a_full_group_is_not_read() -> None:
    assert capacity_of({"DesiredCapacity": 0}).free
