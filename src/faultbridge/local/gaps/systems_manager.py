"""Patches that make moto's Systems Manager behave as on AWS.

`command_output`
AWS: `GetCommandInvocation` returns the exit code and the first 24,000 characters of a command's output. The complete
output is stored in the bucket that the command names.
moto: no command runs; every command succeeds without output.
Here: no command runs either. The output comes from `servers.fault_injection`, by default healthy diagnostics. Commands
finish immediately, without the states Pending and InProgress. The bucket is on the event plane.

`command_targets`
AWS: a command goes to the named instances. An unknown or terminated instance is refused with `InvalidInstanceId`.
moto: a command without targets goes to every instance, and an unknown instance is accepted.
Here: a command goes only to the named instances, which must be running.

`managed_instances`
AWS: `DescribeInstanceInformation` lists the instances whose agent has registered.
moto: the call is not implemented and returns HTTP 500.
Here: the call lists every running instance as online.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

from faultbridge.local.environment import EVENT_PLANE_VARIABLE
from faultbridge.local.gaps.patching import Gap, missing_method, replace, resolve, source_has, source_lacks, wrap
from faultbridge.local.servers.fault_injection import FAULTS, CommandOutput

INVOCATION = "moto.ssm.models:SimpleSystemManagerBackend|get_command_invocation"
COMMAND = "moto.ssm.models:SimpleSystemManagerBackend|get_command_by_id"
CANNED = "moto.ssm.models:Command|invocation_response"
TARGETS = "moto.ssm.models:Command|_get_instance_ids_from_targets"
SEND = "moto.ssm.models:SimpleSystemManagerBackend|send_command"
ERROR = "moto.ssm.exceptions:SSMException"
RESPONSE = "moto.ssm.responses:SimpleSystemManagerResponse"
RESULT = "moto.core.responses:ActionResult"
NOW = "moto.core.utils:utcnow"
EC2 = "moto.ec2.models:ec2_backends"

BUNDLE_URL = "FAULTBRIDGE_BUNDLE_URL="
CURL_FAILED = 22

_OUTPUT_LIMIT = 24_000
_OUTPUT_NAME = "awsrunShellScript/0.awsrunShellScript/stdout"

Invocation = Callable[[Any, str, str, str | None], dict[str, Any]]


def _with_injected_output(
    invocation: Invocation,
    backend: Any,  # noqa: ANN401 - moto's types
    command_id: str,
    instance_id: str,
    plugin_name: str | None,
) -> dict[str, Any]:
    answer = invocation(backend, command_id, instance_id, plugin_name)
    command = backend.get_command_by_id(command_id)
    lines = command.parameters.get("commands", [])
    output = upload_bundle(lines) or FAULTS.output_of(instance_id, lines)
    if output is None:
        return answer
    return {**answer, **_output_fields(output), "StandardOutputUrl": _store_output(command, instance_id, output)}


def upload_bundle(lines: list[str]) -> CommandOutput | None:
    """Upload a placeholder for a script's log bundle; returns its result, or None if it uploads none."""
    address = next((line.removeprefix(BUNDLE_URL) for line in lines if line.startswith(BUNDLE_URL)), None)
    if address is None:
        return None
    (signed,) = shlex.split(address)
    request = Request(signed, data=b"a fake: this instance has no logs", method="PUT")  # noqa: S310 - our signed URL
    try:
        with urlopen(request, timeout=5):  # noqa: S310 - our signed URL
            return CommandOutput(0, "")
    except OSError as error:
        return CommandOutput(CURL_FAILED, str(error))


def _store_output(command: Any, instance_id: str, output: CommandOutput) -> str:  # noqa: ANN401 - moto's command
    bucket = command.output_s3_bucket_name
    if not bucket:
        return ""
    endpoint = os.environ[EVENT_PLANE_VARIABLE]
    key = "/".join(filter(None, (command.output_s3_key_prefix, command.command_id, instance_id, _OUTPUT_NAME)))
    s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
    s3.put_object(Bucket=bucket, Key=key, Body=output.stdout.encode())
    return f"https://s3.amazonaws.com/{bucket}/{key}"


def _output_fields(output: CommandOutput) -> dict[str, Any]:
    status = "Failed" if output.exit_code else "Success"
    return {
        "ResponseCode": output.exit_code,
        "Status": status,
        "StatusDetails": status,
        "StandardOutputContent": output.stdout[:_OUTPUT_LIMIT],
    }


def _send_to_named_instances() -> None:
    replace(TARGETS, lambda find: lambda command: find(command) if command.targets else [])
    wrap(SEND, _to_running_instances)


def _to_running_instances(send: Callable[..., Any], backend: Any, **parameters: Any) -> Any:  # noqa: ANN401 - moto's types
    running = {instance.id for instance in _running_instances(backend)}
    for instance_id in parameters["instance_ids"]:
        if instance_id not in running:
            message = f"Instances [[{instance_id}]] not in a valid state for account {backend.account_id}"
            raise resolve(ERROR)("InvalidInstanceId", message)
    return send(backend, **parameters)


def _running_instances(backend: Any) -> list[Any]:  # noqa: ANN401 - moto's types
    ec2 = resolve(EC2)[backend.account_id][backend.region_name]
    return [instance for instance in ec2.all_instances() if instance.state == "running"]


def _describe_instance_information(response: Any) -> Any:  # noqa: ANN401 - moto's types
    wanted = _wanted_ids(response)
    running = _running_instances(response.ssm_backend)
    found = [_information(instance) for instance in running if wanted is None or instance.id in wanted]
    return resolve(RESULT)({"InstanceInformationList": found})


def _wanted_ids(response: Any) -> set[str] | None:  # noqa: ANN401 - moto's types
    old = response._get_param("InstanceInformationFilterList", [])
    new = response._get_param("Filters", [])
    ids = [each["valueSet"] for each in old if each["key"] == "InstanceIds"]
    ids += [each["Values"] for each in new if each["Key"] == "InstanceIds"]
    return set.union(*map(set, ids)) if ids else None


def _information(instance: Any) -> dict[str, Any]:  # noqa: ANN401 - moto's types
    return {
        "InstanceId": instance.id,
        "PingStatus": "Online",
        "LastPingDateTime": resolve(NOW)(),
        "AgentVersion": "3.3.1957.0",
        "IsLatestVersion": True,
        "PlatformType": "Linux",
        "ResourceType": "EC2Instance",
        "ComputerName": instance.private_dns_name,
        "IPAddress": instance.private_ip_address,
    }


GAPS = (
    Gap(
        "command_output",
        (INVOCATION, COMMAND, CANNED),
        source_has(CANNED, '"StandardOutputContent": ""'),
        lambda: wrap(INVOCATION, _with_injected_output),
    ),
    Gap("command_targets", (TARGETS, SEND, ERROR, EC2), source_lacks(TARGETS, "if not"), _send_to_named_instances),
    missing_method("managed_instances", RESPONSE, _describe_instance_information, RESULT, NOW, EC2),
)
