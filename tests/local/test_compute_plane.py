"""The compute plane as boto3 sees it: moto, with what the gaps add."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from faultbridge import local
from faultbridge.adapters.kubernetes.client import Access, ApiRejection, Kubernetes
from faultbridge.errors import Misconfigured
from tests.local.stack import PrivateStack
from tests.local.waiting import eventually

pytestmark = pytest.mark.embedded

TYPE = "p5.48xlarge"


@pytest.fixture(autouse=True)
def _nothing_scripted(tiny_stack: PrivateStack) -> None:
    local.forget_script(tiny_stack.info.compute_endpoint)


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


def test_a_fleet_that_is_there_is_not_made_again(tiny_stack: PrivateStack, group: str) -> None:
    assert fleet(tiny_stack, group, 2) == fleet(tiny_stack, group, 2)


def test_a_node_passes_its_diagnostics_unless_told_otherwise(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    answer = diagnose(tiny_stack, instance_id)
    assert (answer["Status"], answer["ResponseCode"]) == ("Success", 0)
    assert len(json.loads(answer["StandardOutputContent"])["entity_groups"][0]["entities"]) == 8


def test_a_scripted_node_fails_its_diagnostics(tiny_stack: PrivateStack, group: str) -> None:
    bad, good = fleet(tiny_stack, group, 2)
    local.script_command(tiny_stack.info.compute_endpoint, bad, exit_code=226, stdout="{}")
    answer = diagnose(tiny_stack, bad)
    assert (answer["Status"], answer["ResponseCode"], answer["StandardOutputContent"]) == ("Failed", 226, "{}")
    assert diagnose(tiny_stack, good)["Status"] == "Success"


def test_output_is_cut_where_systems_manager_cuts_it(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    local.script_command(tiny_stack.info.compute_endpoint, instance_id, exit_code=0, stdout="x" * 30_000)
    assert len(diagnose(tiny_stack, instance_id)["StandardOutputContent"]) == 24_000


def test_the_whole_output_is_in_the_bucket_that_the_command_named(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    s3, ssm = tiny_stack.client("s3"), tiny_stack.client("ssm")
    s3.create_bucket(Bucket=group)
    local.script_command(tiny_stack.info.compute_endpoint, instance_id, exit_code=0, stdout="x" * 30_000)
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


def test_the_successor_can_be_bad_on_arrival(tiny_stack: PrivateStack, group: str, scaling: Any) -> None:
    before = fleet(tiny_stack, group, 2)
    local.script_bad_on_arrival(tiny_stack.info.compute_endpoint)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=before[0], ShouldDecrementDesiredCapacity=False)
    (successor,) = set(fleet(tiny_stack, group, 2)) - set(before)
    assert diagnose(tiny_stack, successor)["Status"] == "Failed"
    assert diagnose(tiny_stack, before[1])["Status"] == "Success"


def test_a_command_goes_to_the_instance_that_was_named_and_no_other(tiny_stack: PrivateStack, group: str) -> None:
    one, _other = fleet(tiny_stack, group, 2)
    sent = tiny_stack.client("ssm").send_command(
        InstanceIds=[one], DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]}
    )
    assert sent["Command"]["InstanceIds"] == [one]


def test_a_command_to_an_instance_that_is_gone_is_refused(tiny_stack: PrivateStack, group: str) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    tiny_stack.client("ec2").terminate_instances(InstanceIds=[instance_id])
    with pytest.raises(ClientError) as error:
        diagnose(tiny_stack, instance_id)
    assert code_of(error) == "InvalidInstanceId"


def test_systems_manager_knows_running_instances(tiny_stack: PrivateStack, group: str) -> None:
    ids = fleet(tiny_stack, group, 2)
    found = tiny_stack.client("ssm").describe_instance_information(
        Filters=[{"Key": "InstanceIds", "Values": [ids[0]]}]
    )["InstanceInformationList"]
    assert [(each["InstanceId"], each["PingStatus"]) for each in found] == [(ids[0], "Online")]


def test_terminating_an_instance_that_is_gone_is_a_validation_error(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    (instance_id,) = fleet(tiny_stack, group, 1)
    order = {"InstanceId": instance_id, "ShouldDecrementDesiredCapacity": False}
    scaling.terminate_instance_in_auto_scaling_group(**order)
    with pytest.raises(ClientError, match="No managed instance found") as error:
        scaling.terminate_instance_in_auto_scaling_group(**order)
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
    local.script_capacity(tiny_stack.info.compute_endpoint, TYPE, available=False)
    with pytest.raises(ClientError) as error:
        launch(tiny_stack, uuid4().hex)
    assert code_of(error) == "InsufficientInstanceCapacity"
    assert launch(tiny_stack, uuid4().hex, "p4d.24xlarge")


def test_a_group_without_capacity_says_so_and_goes_on_when_there_is_some(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    (old,) = fleet(tiny_stack, group, 1)
    local.script_capacity(tiny_stack.info.compute_endpoint, TYPE, available=False)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=old, ShouldDecrementDesiredCapacity=False)
    assert members(scaling, group) == []
    latest = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
    assert latest["StatusCode"] == "Failed"
    assert "sufficient p5.48xlarge capacity" in latest["StatusMessage"]

    local.script_capacity(tiny_stack.info.compute_endpoint, TYPE, available=True)
    (successor,) = members(scaling, group)
    assert successor != old
    latest = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
    assert latest["StatusCode"] == "Successful"
    assert successor in latest["Description"]


def members(scaling: Any, group: str) -> list[str]:
    (found,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return [instance["InstanceId"] for instance in found["Instances"]]


def test_the_control_routes_refuse_what_they_do_not_understand(tiny_stack: PrivateStack) -> None:
    from faultbridge.errors import Transient
    from faultbridge.local import requests

    endpoint = tiny_stack.info.compute_endpoint
    with pytest.raises(Transient, match=r"400.*KeyError"):
        requests.call(f"{endpoint}/faultbridge/ssm", {"instance_id": "i-1"})
    with pytest.raises(Transient, match="404"):
        requests.call(f"{endpoint}/faultbridge/nothing", {})


def states(stack: PrivateStack, group: str) -> list[str]:
    filters = [{"Name": "tag:aws:autoscaling:groupName", "Values": [group]}]
    found = stack.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance["State"]["Name"] for reservation in found for instance in reservation["Instances"]]


def test_a_slow_launch_is_pending_for_a_while(tiny_stack: PrivateStack, group: str) -> None:
    climate = local.Climate(slow=1.0, slow_seconds=0.5)
    local.script_weather(tiny_stack.info.compute_endpoint, 1, climate)
    fleet(tiny_stack, group, 1)
    assert states(tiny_stack, group) == ["pending"]
    eventually(lambda: states(tiny_stack, group) == ["running"])


def test_a_group_whose_launch_failed_says_so_and_tries_again(
    tiny_stack: PrivateStack, group: str, scaling: Any
) -> None:
    endpoint = tiny_stack.info.compute_endpoint
    local.script_weather(endpoint, 1, local.Climate(failing=1.0, again_seconds=0.5))
    assert fleet(tiny_stack, group, 1) == []
    failed = scaling.describe_scaling_activities(AutoScalingGroupName=group)["Activities"]
    assert failed[-1]["StatusCode"] == "Failed"
    local.script_weather(endpoint, 1, local.Climate())
    eventually(lambda: states(tiny_stack, group) == ["running"])


def test_an_instance_that_arrives_bad_fails_its_diagnostics(tiny_stack: PrivateStack, group: str) -> None:
    local.script_weather(tiny_stack.info.compute_endpoint, 1, local.Climate(bad=1.0))
    (instance_id,) = fleet(tiny_stack, group, 1)
    assert diagnose(tiny_stack, instance_id)["Status"] == "Failed"


def test_the_running_instances_of_an_eks_cluster_are_its_nodes(tiny_stack: PrivateStack, group: str) -> None:
    tags = {f"kubernetes.io/cluster/{group}": "owned"}
    eks = tiny_stack.client("eks")
    eks.create_cluster(name=group, roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={"subnetIds": []})
    stack = tiny_stack.info.stack
    ids = local.create_fleet(group, 2, stack=stack, environment=tiny_stack.environment, tags=tags)
    fleet(tiny_stack, f"{group}-other", 1)
    endpoint = eks.describe_cluster(name=group)["cluster"]["endpoint"]
    kubernetes = Kubernetes(lambda: Access(endpoint, None, token()))
    found = [node.spec.providerID for node in kubernetes.nodes() if node.spec and node.spec.providerID]
    assert sorted(one.rpartition("/")[2] for one in found) == sorted(ids)
    with pytest.raises(Misconfigured, match="Unauthorized"):
        list(Kubernetes(lambda: Access(endpoint, None, "no-token")).nodes())
    with pytest.raises(ApiRejection, match="EKS has no cluster"):
        list(Kubernetes(lambda: Access(f"{endpoint}-other", None, token())).nodes())


def token() -> str:
    url = "https://sts/?Action=GetCallerIdentity&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
    return f"k8s-aws-v1.{base64.urlsafe_b64encode(url.encode()).decode().rstrip('=')}"
