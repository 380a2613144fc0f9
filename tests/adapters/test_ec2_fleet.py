"""Launching a successor: what is asked of an EC2 fleet, and what each answer means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.stub import Stubber

from faultbridge.adapters.launchers.ec2_fleet import FleetLauncher
from faultbridge.adapters.providers.ec2_launch_template import LaunchTemplateProvider
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.ports import Answer, ProviderFailure, Vacancy
from tests.adapters.stubs import failing, stubbed

URL = "http://127.0.0.1:1"
NEW = "i-0123456789abcdef0"
CLUSTER = ClusterConfig("train-a", subnets=("subnet-0a1b2c3d", "subnet-0a1b2c3e"))
VACANCY = Vacancy(CLUSTER, "gpu-workers", "c-1", "c-1-1-0", "i-00000000000000001", ("p5.48xlarge", "p5e.48xlarge"))


def launched(answer: dict[str, Any], state: str | None = None, vacancy: Vacancy = VACANCY) -> tuple[Answer, Any]:
    asked: list[Any] = []
    with stubbed("ec2_once") as (clients, stub), Stubber(clients.ec2) as ec2:
        clients.ec2_once.meta.events.register(
            "provide-client-params.ec2.CreateFleet", lambda params, **_: asked.append(params)
        )
        stub.add_response("create_fleet", answer)
        for _ in range(2 if state else 1):
            found = [{"InstanceId": NEW, "State": {"Name": state}}] if state else []
            ec2.add_response("describe_instances", {"Reservations": [{"Instances": found}] if found else []})
        return FleetLauncher(clients, "a-stack").launch(vacancy), asked[0]


ONE = {"FleetId": "fleet-1", "Instances": [{"InstanceIds": [NEW]}]}


def refusals(*codes: str) -> dict[str, Any]:
    return {"FleetId": "fleet-1", "Instances": [], "Errors": [{"ErrorCode": c, "ErrorMessage": "no"} for c in codes]}


def test_one_instance_is_asked_for_of_each_type_in_each_subnet_the_types_in_their_order() -> None:
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


def test_what_the_cluster_does_not_say_the_template_says() -> None:
    _, asked = launched(ONE, vacancy=Vacancy(ClusterConfig("train-a"), "lt-0a1b2c3d", "c-1", "t"))
    assert asked["LaunchTemplateConfigs"] == [
        {"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0a1b2c3d", "Version": "$Default"}}
    ]


def test_fleet_and_instance_are_marked_with_stack_cluster_group_and_case() -> None:
    _, asked = launched(ONE)
    for part in asked["TagSpecifications"]:
        assert {tag["Key"]: tag["Value"] for tag in part["Tags"]} == {
            "faultbridge:stack": "a-stack",
            "faultbridge:cluster": "train-a",
            "faultbridge:group": "gpu-workers",
            "faultbridge:case": "c-1",
        }
    assert {part["ResourceType"] for part in asked["TagSpecifications"]} == {"fleet", "instance"}


def test_a_try_has_one_client_token_of_at_most_64_characters() -> None:
    first, second = launched(ONE)[1], launched(ONE)[1]
    assert first["ClientToken"] == second["ClientToken"]
    assert len(first["ClientToken"]) <= 64
    other = Vacancy(CLUSTER, "gpu-workers", "c-1", "c-1-1-1")
    assert launched(ONE, vacancy=other)[1]["ClientToken"] != first["ClientToken"]


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
def test_an_answer_without_an_instance_says_why(codes: tuple[str, ...], failure: ProviderFailure) -> None:
    with stubbed("ec2_once") as (clients, stub):
        stub.add_response("create_fleet", refusals(*codes))
        answer = FleetLauncher(clients, "a-stack").launch(VACANCY)
    assert answer.failure is failure
    assert all(code in answer.reason for code in codes)


@pytest.mark.parametrize("state", ["pending", "running", None])
def test_an_instance_that_lives_or_that_nobody_has_heard_of_yet_was_launched(state: str | None) -> None:
    assert launched(ONE, state)[0].ok


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_token_whose_instance_has_ended_is_used_up(state: str) -> None:
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
def test_a_refused_call_is_mapped_by_its_code(code: str, status: int, failure: ProviderFailure) -> None:
    with stubbed("ec2_once") as (clients, stub):
        stub.add_client_error("create_fleet", code, "no", status)
        assert FleetLauncher(clients, "a-stack").launch(VACANCY).failure is failure


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ReadTimeoutError(endpoint_url=URL), ProviderFailure.AMBIGUOUS),
        (ConnectTimeoutError(endpoint_url=URL), ProviderFailure.TIMEOUT),
    ],
)
def test_a_lost_launch_is_never_repeated_by_the_client(error: Exception, failure: ProviderFailure) -> None:
    requests: list[Any] = []
    with failing("ec2_once", error, requests) as clients:
        assert FleetLauncher(clients, "a-stack").launch(VACANCY).failure is failure
    assert len(requests) == 1


def test_of_the_case_only_what_lives_and_is_not_to_be_replaced_is_told_the_oldest_first() -> None:
    def told(name: str, minute: int, state: str) -> dict[str, Any]:
        at = datetime(2026, 2, 3, 12, minute, tzinfo=UTC)
        return {"InstanceId": name, "LaunchTime": at, "State": {"Name": state}}

    instances = [told("i-2", 5, "pending"), told("i-1", 1, "running"), told("i-00000000000000001", 0, "running")]
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
        {"Name": "tag:faultbridge:case", "Values": ["c-1"]},
        {"Name": "tag:faultbridge:stack", "Values": ["a-stack"]},
    ]
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_instances", {"Reservations": [{"Instances": instances}]}, {"Filters": filters})
        found = FleetLauncher(clients, "a-stack").launched(VACANCY)
    assert [(one.instance_id, one.running) for one in found] == [("i-1", True), ("i-2", False)]


@pytest.mark.parametrize(
    ("code", "status", "failure"),
    [
        ("InvalidInstanceID.NotFound", 400, None),
        ("OperationNotPermitted", 400, ProviderFailure.PERMISSION_DENIED),
        ("InternalError", 500, ProviderFailure.AMBIGUOUS),
    ],
)
def test_terminating_is_mapped_by_its_code(code: str, status: int, failure: ProviderFailure | None) -> None:
    with stubbed("ec2_once") as (clients, stub):
        stub.add_client_error("terminate_instances", code, "no", status)
        assert LaunchTemplateProvider(clients).replace(NEW, "token").failure is failure


def test_a_lost_termination_is_never_repeated_by_the_client() -> None:
    requests: list[Any] = []
    with failing("ec2_once", ReadTimeoutError(endpoint_url=URL), requests) as clients:
        assert LaunchTemplateProvider(clients).replace(NEW, "token").failure is ProviderFailure.AMBIGUOUS
    assert len(requests) == 1
