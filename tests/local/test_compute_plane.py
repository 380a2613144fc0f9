"""The compute plane through boto3: moto with the patches of `gaps`."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from faultbridge import local
from tests.local.stack import PrivateStack
from tests.waiting import eventually

pytestmark = pytest.mark.embedded

TYPE = "p5.48xlarge"


@pytest.fixture(autouse=True)
def _without_faults(tiny_stack: PrivateStack) -> None:
    local.reset_faults(tiny_stack.info.compute_endpoint)


@pytest.fixture
def group() -> str:
    return f"fleet-{uuid4().hex[:8]}"


@pytest.fixture
def scaling(tiny_stack: PrivateStack) -> Any:
    return tiny_stack.client("auto-scaling")


def fleet(stack: PrivateStack, group: str, size: int) -> list[str]:
    return local.create_fleet(group, size, stack=stack.info.stack, environment=stack.environment)


def diagnose(stack: PrivateStack, instance_id: str) -> dict[str, Any]:
    ssm = stack.client("ssm")
    command = ssm.send_command(
        InstanceIds=[instance_id],
        DocumentName="AWS-RunShellScript",
        Parameters={"commands": ["dcgmi diag -r 2 -j"]},
    )["Command"]
    answer: dict[str, Any] = ssm.get_command_invocation(CommandId=command["CommandId"], InstanceId=instance_id)
    return answer


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_fleet_is_a_group_of_tagged_gpu_instances(tiny_stack: PrivateStack, group: str) -> None:
    ids = fleet(tiny_stack, group, 3)
    assert len(set(ids)) == 3
    found = tiny_stack.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    instances = [instance for reservation in found for instance in reservation["Instances"]]
    assert {instance["InstanceType"] for instance in instances} == {TYPE}
    assert all({"Key": "faultbridge:stack", "Value": "faultbridge"} in instance["Tags"] for instance in instances)


def test_an_existing_fleet_is_not_created_again(tiny_stack: PrivateStack, group: str) -> None:
    assert fleet(tiny_stack, group, 2) == fleet(tiny_stack, group, 2)


def test_a_node_passes_its_diagnostics_by_default(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    answer = diagnose(tiny_stack, instance_id)
    assert (answer["Status"], answer["ResponseCode"]) == ("Success", 0)
    assert len(json.loads(answer["StandardOutputContent"])["entity_groups"][0]["entities"]) == 8


def test_a_node_with_an_injected_fault_fails_its_diagnostics(tiny_stack: PrivateStack, group: str) -> None:
    bad, good = fleet(tiny_stack, group, 2)
    local.set_command_output(tiny_stack.info.compute_endpoint, bad, exit_code=226, stdout="{}")
    answer = diagnose(tiny_stack, bad)
    assert (answer["Status"], answer["ResponseCode"], answer["StandardOutputContent"]) == ("Failed", 226, "{}")
    assert diagnose(tiny_stack, good)["Status"] == "Success"


def test_output_is_truncated_as_systems_manager_does(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    local.set_command_output(tiny_stack.info.compute_endpoint, instance_id, exit_code=0, stdout="x" * 30_000)
    assert len(diagnose(tiny_stack, instance_id)["StandardOutputContent"]) == 24_000


def test_the_complete_output_is_in_the_bucket_of_the_command(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    s3, ssm = tiny_stack.client("s3"), tiny_stack.client("ssm")
    s3.create_bucket(Bucket=group)
    local.set_command_output(tiny_stack.info.compute_endpoint, instance_id, exit_code=0, stdout="x" * 30_000)
    command = ssm.send_command(
        InstanceIds=[instance_id],
        DocumentName="AWS-RunShellScript",
        Parameters={"commands": ["dcgmi diag -r 3 -j"]},
        OutputS3BucketName=group,
        OutputS3KeyPrefix="verify",
    )["Command"]["CommandId"]
    answer = ssm.get_command_invocation(CommandId=command, InstanceId=instance_id)
    key = f"verify/{command}/{instance_id}/awsrunShellScript/0.awsrunShellScript/stdout"
    assert answer["StandardOutputUrl"].endswith(f"/{group}/{key}")
    assert len(s3.get_object(Bucket=group, Key=key)["Body"].read()) == 30_000


def test_the_next_launched_instance_can_be_bad(tiny_stack: PrivateStack, group: str, scaling: Any) -> None:
    before = fleet(tiny_stack, group, 2)
    local.make_next_instance_bad(tiny_stack.info.compute_endpoint)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=before[0], ShouldDecrementDesiredCapacity=False)
    (successor,) = set(fleet(tiny_stack, group, 2)) - set(before)
    assert diagnose(tiny_stack, successor)["Status"] == "Failed"
    assert diagnose(tiny_stack, before[1])["Status"] == "Success"


def test_a_command_goes_only_to_the_named_instance(tiny_stack: PrivateStack, group: str) -> None:
    named, _other = fleet(tiny_stack, group, 2)
    sent = tiny_stack.client("ssm").send_command(
        InstanceIds=[named], DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]}
    )
    assert sent["Command"]["InstanceIds"] == [named]


def test_a_command_to_a_terminated_instance_is_refused(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    tiny_stack.client("ec2").terminate_instances(InstanceIds=[instance_id])
    with pytest.raises(ClientError) as error:
        diagnose(tiny_stack, instance_id)
    assert code_of(error) == "InvalidInstanceId"


def test_systems_manager_lists_running_instances(tiny_stack: PrivateStack, group: str) -> None:
    ids = fleet(tiny_stack, group, 2)
    found = tiny_stack.client("ssm").describe_instance_information(
        Filters=[{"Key": "InstanceIds", "Values": [ids[0]]}]
    )["InstanceInformationList"]
    assert [(each["InstanceId"], each["PingStatus"]) for each in found] == [(ids[0], "Online")]


def test_terminating_a_terminated_instance_is_a_validation_error(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    request = {"InstanceId": instance_id, "ShouldDecrementDesiredCapacity": False}
    scaling.terminate_instance_in_auto_scaling_group(**request)
    with pytest.raises(ClientError, match="No managed instance found") as error:
        scaling.terminate_instance_in_auto_scaling_group(**request)
    assert code_of(error) == "ValidationError"


def launch(stack: PrivateStack, token: str, instance_type: str = TYPE) -> str:
    answer = stack.client("ec2").run_instances(
        ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType=instance_type, ClientToken=token
    )
    return str(answer["Instances"][0]["InstanceId"])


def test_one_client_token_launches_one_instance(tiny_stack: PrivateStack) -> None:
    token = uuid4().hex
    assert launch(tiny_stack, token) == launch(tiny_stack, token)
    assert launch(tiny_stack, uuid4().hex) != launch(tiny_stack, token)


def test_a_client_token_with_other_parameters_is_refused(tiny_stack: PrivateStack) -> None:
    token = uuid4().hex
    launch(tiny_stack, token)
    with pytest.raises(ClientError) as error:
        launch(tiny_stack, token, "p4d.24xlarge")
    assert code_of(error) == "IdempotentParameterMismatch"


def test_a_type_without_capacity_cannot_be_launched(tiny_stack: PrivateStack) -> None:
    local.set_capacity(tiny_stack.info.compute_endpoint, TYPE, available=False)
    with pytest.raises(ClientError) as error:
        launch(tiny_stack, uuid4().hex)
    assert code_of(error) == "InsufficientInstanceCapacity"
    assert launch(tiny_stack, uuid4().hex, "p4d.24xlarge")


def test_a_fleet_whose_group_has_no_instances_gets_them(tiny_stack: PrivateStack, group: str, scaling: Any) -> None:
    ids = fleet(tiny_stack, group, 1)
    scaling.update_auto_scaling_group(AutoScalingGroupName=group, DesiredCapacity=0)
    assert members(scaling, group) == []
    launched = fleet(tiny_stack, group, 3)
    assert len(set(launched) - set(ids)) == 3
    assert fleet(tiny_stack, group, 5) == launched


def test_a_fleet_without_capacity_is_empty_until_its_capacity_returns(tiny_stack: PrivateStack, group: str) -> None:
    endpoint = tiny_stack.info.compute_endpoint
    local.set_capacity(endpoint, TYPE, available=False)
    assert [fleet(tiny_stack, group, 2) for _ in range(2)] == [[], []]
    local.set_capacity(endpoint, TYPE, available=True)
    assert len(fleet(tiny_stack, group, 2)) == 2


def test_a_group_without_capacity_reports_it_and_launches_when_capacity_returns(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    (old,) = fleet(tiny_stack, group, 1)
    local.set_capacity(tiny_stack.info.compute_endpoint, TYPE, available=False)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=old, ShouldDecrementDesiredCapacity=False)
    assert members(scaling, group) == []
    latest = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
    assert latest["StatusCode"] == "Failed"
    assert "sufficient p5.48xlarge capacity" in latest["StatusMessage"]

    local.set_capacity(tiny_stack.info.compute_endpoint, TYPE, available=True)
    (successor,) = members(scaling, group)
    assert successor != old
    latest = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
    assert latest["StatusCode"] == "Successful"
    assert successor in latest["Description"]


def test_an_instance_refresh_replaces_the_instances_of_a_group_and_is_listed(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    (old,) = fleet(tiny_stack, group, 1)
    assert scaling.describe_instance_refreshes(AutoScalingGroupName=group)["InstanceRefreshes"] == []
    started = scaling.start_instance_refresh(AutoScalingGroupName=group)["InstanceRefreshId"]
    (new,) = members(scaling, group)
    assert new != old
    (listed,) = scaling.describe_instance_refreshes(AutoScalingGroupName=group, MaxRecords=1)["InstanceRefreshes"]
    assert (listed["InstanceRefreshId"], listed["Status"]) == (started, "InProgress")
    scaling.cancel_instance_refresh(AutoScalingGroupName=group)
    (listed,) = scaling.describe_instance_refreshes(AutoScalingGroupName=group)["InstanceRefreshes"]
    assert listed["Status"] == "Cancelled"


def members(scaling: Any, group: str) -> list[str]:
    (found,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return [instance["InstanceId"] for instance in found["Instances"]]


def test_the_control_routes_refuse_invalid_requests(tiny_stack: PrivateStack) -> None:
    from faultbridge.local import clients
    from faultbridge.model.errors import Transient

    endpoint = tiny_stack.info.compute_endpoint
    with pytest.raises(Transient, match=r"400.*KeyError"):
        clients.http_call(f"{endpoint}/faultbridge/command-output", {"instance_id": "i-1"})
    with pytest.raises(Transient, match="404"):
        clients.http_call(f"{endpoint}/faultbridge/nothing", {})


def states(stack: PrivateStack, group: str) -> list[str]:
    filters = [{"Name": "tag:aws:autoscaling:groupName", "Values": [group]}]
    found = stack.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance["State"]["Name"] for reservation in found for instance in reservation["Instances"]]


def test_a_slow_launch_is_pending_first(tiny_stack: PrivateStack, group: str) -> None:
    rates = local.LaunchFaultRates(slow=1.0, slow_seconds=0.5)
    local.set_launch_faults(tiny_stack.info.compute_endpoint, 1, rates)
    fleet(tiny_stack, group, 1)
    assert states(tiny_stack, group) == ["pending"]
    eventually(lambda: states(tiny_stack, group) == ["running"])


def test_a_group_reports_a_failed_launch_and_retries_it(tiny_stack: PrivateStack, group: str, scaling: Any) -> None:
    endpoint = tiny_stack.info.compute_endpoint
    local.set_launch_faults(endpoint, 1, local.LaunchFaultRates(failing=1.0, retry_seconds=0.5))
    assert fleet(tiny_stack, group, 1) == []
    failed = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"]
    assert failed[-1]["StatusCode"] == "Failed"
    local.set_launch_faults(endpoint, 1, local.LaunchFaultRates())
    eventually(lambda: states(tiny_stack, group) == ["running"])


def test_a_bad_instance_fails_its_diagnostics(tiny_stack: PrivateStack, group: str) -> None:
    local.set_launch_faults(tiny_stack.info.compute_endpoint, 1, local.LaunchFaultRates(bad=1.0))
    (instance_id,) = fleet(tiny_stack, group, 1)
    assert diagnose(tiny_stack, instance_id)["Status"] == "Failed"
