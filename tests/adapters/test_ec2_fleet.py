"""Launching a successor through an EC2 fleet: the request, and the result of each response."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.stub import Stubber

from faultbridge.adapters.ec2.launch import FleetLauncher, LaunchTemplateProvider
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.compute import CallResult, LaunchRequest
from tests.adapters.stubs import failing, stubbed

URL = "http://127.0.0.1:1"
NEW = "i-0123456789abcdef0"
CLUSTER = ClusterConfig("train-a", subnets=("subnet-0a1b2c3d", "subnet-0a1b2c3e"))
REQUEST = LaunchRequest(
    CLUSTER, "gpu-workers", "c-1", "c-1-1-0", "i-00000000000000001", ("p5.48xlarge", "p5e.48xlarge")
)


def add_template(stub: Stubber, content: dict[str, Any]) -> None:
    """Answer with the content of the launch template, which each launch reads."""
    versions = {"LaunchTemplateVersions": [{"LaunchTemplateData": content}]}
    stub.add_response("describe_launch_template_versions", versions)


def launched(
    answer: dict[str, Any],
    state: str | None = None,
    launch_request: LaunchRequest = REQUEST,
    template: dict[str, Any] | None = None,
) -> tuple[CallResult, Any]:
    asked: list[Any] = []
    with stubbed("ec2_no_retry") as (clients, stub), Stubber(clients.ec2) as ec2:
        clients.ec2_no_retry.meta.events.register(
            "provide-client-params.ec2.CreateFleet", lambda params, **_: asked.append(params)
        )
        stub.add_response("create_fleet", answer)
        add_template(ec2, template or {})
        for _ in range(2 if state else 1):
            found = [{"InstanceId": NEW, "State": {"Name": state}}] if state else []
            ec2.add_response("describe_instances", {"Reservations": [{"Instances": found}] if found else []})
        return FleetLauncher(clients, "a-stack").launch(launch_request), asked[0]


ONE = {"FleetId": "fleet-1", "Instances": [{"InstanceIds": [NEW]}]}


def refusals(*codes: str) -> dict[str, Any]:
    return {"FleetId": "fleet-1", "Instances": [], "Errors": [{"ErrorCode": c, "ErrorMessage": "no"} for c in codes]}


def test_the_request_is_for_one_instance_of_the_types_in_order_in_each_subnet() -> None:
    answer, asked = launched(ONE)
    assert (answer.failure, answer.operation) == (None, "fleet-1")
    assert (asked["Type"], asked["TargetCapacitySpecification"]["TotalTargetCapacity"]) == ("instant", 1)
    assert asked["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    (template,) = asked["LaunchTemplateConfigs"]
    assert template["LaunchTemplateSpecification"] == {"LaunchTemplateName": "gpu-workers", "Version": "$Default"}
    assert [(one["InstanceType"], one["SubnetId"], one["Priority"]) for one in template["Overrides"]] == [
        ("p5.48xlarge", "subnet-0a1b2c3d", 0),
        ("p5.48xlarge", "subnet-0a1b2c3e", 0),
        ("p5e.48xlarge", "subnet-0a1b2c3d", 1),
        ("p5e.48xlarge", "subnet-0a1b2c3e", 1),
    ]


def test_without_types_and_subnets_the_launch_template_decides() -> None:
    _, asked = launched(ONE, launch_request=LaunchRequest(ClusterConfig("train-a"), "lt-0a1b2c3d", "c-1", "t"))
    assert asked["LaunchTemplateConfigs"] == [
        {"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0a1b2c3d", "Version": "$Default"}}
    ]


def test_a_launch_template_with_a_capacity_block_is_launched_into_the_block_and_nowhere_else() -> None:
    _, asked = launched(ONE, template={"InstanceMarketOptions": {"MarketType": "capacity-block"}})
    assert asked["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "capacity-block",
    }
    assert "OnDemandOptions" not in asked


def test_fleet_and_instance_are_tagged_with_stack_cluster_group_and_case() -> None:
    _, asked = launched(ONE)
    for part in asked["TagSpecifications"]:
        assert {tag["Key"]: tag["Value"] for tag in part["Tags"]} == {
            "faultbridge:stack": "a-stack",
            "faultbridge:cluster": "train-a",
            "faultbridge:group": "gpu-workers",
            "faultbridge:case": "c-1",
        }
    assert {part["ResourceType"] for part in asked["TagSpecifications"]} == {"fleet", "instance"}


def test_a_token_gives_one_client_token_of_at_most_64_characters() -> None:
    first, second = launched(ONE)[1], launched(ONE)[1]
    assert first["ClientToken"] == second["ClientToken"]
    assert len(first["ClientToken"]) <= 64
    other = LaunchRequest(CLUSTER, "gpu-workers", "c-1", "c-1-1-1")
    assert launched(ONE, launch_request=other)[1]["ClientToken"] != first["ClientToken"]


@pytest.mark.parametrize(
    ("codes", "failure"),
    [
        (("InsufficientInstanceCapacity",), ProviderFailure.CAPACITY),
        (("Unsupported", "InsufficientInstanceCapacity"), ProviderFailure.CAPACITY),
        (("RequestLimitExceeded",), ProviderFailure.CONFLICT),
        (("InternalError",), ProviderFailure.CONFLICT),
        (("UnauthorizedOperation",), ProviderFailure.PERMISSION_DENIED),
        (("Unsupported",), ProviderFailure.PROVIDER_ERROR),
        ((), ProviderFailure.CAPACITY),
    ],
)
def test_a_response_without_an_instance_gives_the_reason(codes: tuple[str, ...], failure: ProviderFailure) -> None:
    with stubbed("ec2_no_retry") as (clients, stub), Stubber(clients.ec2) as ec2:
        stub.add_response("create_fleet", refusals(*codes))
        add_template(ec2, {})
        answer = FleetLauncher(clients, "a-stack").launch(REQUEST)
    assert answer.failure is failure
    assert all(code in answer.reason for code in codes)


@pytest.mark.parametrize("state", ["pending", "running", None])
def test_an_instance_that_is_alive_or_not_listed_yet_was_launched(state: str | None) -> None:
    assert launched(ONE, state)[0].ok


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_token_whose_instance_terminated_is_a_conflict(state: str) -> None:
    assert launched(ONE, state)[0].failure is ProviderFailure.CONFLICT


@pytest.mark.parametrize(
    ("code", "status", "failure"),
    [
        ("RequestLimitExceeded", 503, ProviderFailure.THROTTLED),
        ("InternalError", 500, ProviderFailure.AMBIGUOUS),
        ("IdempotentParameterMismatch", 400, ProviderFailure.AMBIGUOUS),
        ("UnauthorizedOperation", 403, ProviderFailure.PERMISSION_DENIED),
        ("InvalidLaunchTemplateName.NotFoundException", 400, ProviderFailure.NOT_FOUND),
    ],
)
def test_a_failed_call_is_mapped_by_its_code(code: str, status: int, failure: ProviderFailure) -> None:
    with stubbed("ec2_no_retry") as (clients, stub), Stubber(clients.ec2) as ec2:
        stub.add_client_error("create_fleet", code, "no", status)
        add_template(ec2, {})
        assert FleetLauncher(clients, "a-stack").launch(REQUEST).failure is failure


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ReadTimeoutError(endpoint_url=URL), ProviderFailure.AMBIGUOUS),
        (ConnectTimeoutError(endpoint_url=URL), ProviderFailure.TIMEOUT),
    ],
)
def test_the_client_never_retries_a_launch(error: Exception, failure: ProviderFailure) -> None:
    requests: list[Any] = []
    with failing("ec2_no_retry", error, requests) as clients, Stubber(clients.ec2) as ec2:
        add_template(ec2, {})
        assert FleetLauncher(clients, "a-stack").launch(REQUEST).failure is failure
    assert len(requests) == 1


def test_live_instances_of_the_case_are_listed_oldest_first_without_the_one_to_replace() -> None:
    def described(name: str, minute: int, state: str) -> dict[str, Any]:
        at = datetime(2026, 2, 3, 12, minute, tzinfo=UTC)
        return {"InstanceId": name, "LaunchTime": at, "State": {"Name": state}}

    instances = [
        described("i-2", 5, "pending"),
        described("i-1", 1, "running"),
        described("i-00000000000000001", 0, "running"),
    ]
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
        {"Name": "tag:faultbridge:case", "Values": ["c-1"]},
        {"Name": "tag:faultbridge:stack", "Values": ["a-stack"]},
    ]
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_instances", {"Reservations": [{"Instances": instances}]}, {"Filters": filters})
        found = FleetLauncher(clients, "a-stack").launched(REQUEST)
    assert [(one.instance_id, one.running) for one in found] == [("i-1", True), ("i-2", False)]


@pytest.mark.parametrize(
    ("code", "status", "failure"),
    [
        ("InvalidInstanceID.NotFound", 400, ProviderFailure.NOT_FOUND),
        ("OperationNotPermitted", 400, ProviderFailure.PERMISSION_DENIED),
        ("InternalError", 500, ProviderFailure.AMBIGUOUS),
    ],
)
def test_a_failed_termination_is_mapped_by_its_code(code: str, status: int, failure: ProviderFailure | None) -> None:
    with stubbed("ec2_no_retry") as (clients, stub):
        stub.add_client_error("terminate_instances", code, "no", status)
        assert LaunchTemplateProvider(clients).replace(NEW, "token").failure is failure


def test_an_unused_instance_that_ec2_has_no_record_of_counts_as_terminated() -> None:
    with stubbed("ec2_no_retry") as (clients, stub):
        stub.add_client_error("terminate_instances", "InvalidInstanceID.NotFound", "no", 400)
        assert FleetLauncher(clients, "a-stack").terminate(NEW).ok


def test_the_client_never_retries_a_termination() -> None:
    requests: list[Any] = []
    with failing("ec2_no_retry", ReadTimeoutError(endpoint_url=URL), requests) as clients:
        assert LaunchTemplateProvider(clients).replace(NEW, "token").failure is ProviderFailure.AMBIGUOUS
    assert len(requests) == 1
