"""What a command of Systems Manager leaves behind.

AWS: `GetCommandInvocation` gives the exit code and the first 24,000 characters of what the command printed; the
whole of it goes to the bucket that the command named.
moto: nothing runs; the answer is always success and no output.
Here: nothing runs either; this is a fake that answers by the script (`compute_script`), and without one with the
diagnostics of a healthy node. It is done at once: the states Pending and InProgress never show. The bucket is one
of the event plane.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

from faultbridge.local.compute_script import SCRIPT, CommandOutput
from faultbridge.local.environment import EVENT_PLANE_VARIABLE
from faultbridge.local.gaps import names as patch

INVOCATION = "moto.ssm.models:SimpleSystemManagerBackend|get_command_invocation"
COMMAND = "moto.ssm.models:SimpleSystemManagerBackend|get_command_by_id"
CANNED = "moto.ssm.models:Command|invocation_response"

BUNDLE_URL = "FAULTBRIDGE_BUNDLE_URL="
CURL_FAILED = 22

_OUTPUT_LIMIT = 24_000
_OUTPUT_NAME = "awsrunShellScript/0.awsrunShellScript/stdout"

Invocation = Callable[[Any, str, str, str | None], dict[str, Any]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (INVOCATION, COMMAND, CANNED)


def is_open() -> bool:
    """Whether the emulator still answers every command with nothing."""
    return '"StandardOutputContent": ""' in inspect.getsource(patch.resolve(CANNED))


def apply() -> None:
    """Answer by the script."""
    patch.replace(INVOCATION, _by_script)


def _by_script(invocation: Invocation) -> Invocation:
    def get_command_invocation(
        backend: Any,  # noqa: ANN401 - moto's backend
        command_id: str,
        instance_id: str,
        plugin_name: str | None,
    ) -> dict[str, Any]:
        answer = invocation(backend, command_id, instance_id, plugin_name)
        command = backend.get_command_by_id(command_id)
        lines = command.parameters.get("commands", [])
        output = bundle_output(lines) or SCRIPT.output_of(instance_id, lines)
        if output is None:
            return answer
        return {**answer, **_fields(output), "StandardOutputUrl": _stored(command, instance_id, output)}

    return get_command_invocation


def bundle_output(lines: list[str]) -> CommandOutput | None:
    """Put a file that says what it is where a log bundle was to go, as curl does; None for any other command."""
    address = next((line.removeprefix(BUNDLE_URL) for line in lines if line.startswith(BUNDLE_URL)), None)
    if address is None:
        return None
    (signed,) = shlex.split(address)
    request = Request(signed, data=b"a fake: this machine has no logs", method="PUT")  # noqa: S310 - signed by us
    try:
        with urlopen(request, timeout=5):  # noqa: S310 - signed by us
            return CommandOutput(0, "")
    except OSError as error:
        return CommandOutput(CURL_FAILED, str(error))


def _stored(command: Any, instance_id: str, output: CommandOutput) -> str:  # noqa: ANN401 - moto's command
    """Put the whole output where the command asked for it; returns its URL, empty when it asked for none."""
    bucket = command.output_s3_bucket_name
    if not bucket:
        return ""
    endpoint = os.environ[EVENT_PLANE_VARIABLE]
    key = "/".join(filter(None, (command.output_s3_key_prefix, command.command_id, instance_id, _OUTPUT_NAME)))
    s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
    s3.put_object(Bucket=bucket, Key=key, Body=output.stdout.encode())
    return f"https://s3.amazonaws.com/{bucket}/{key}"


def _fields(output: CommandOutput) -> dict[str, Any]:
    status = "Failed" if output.exit_code else "Success"
    return {
        "ResponseCode": output.exit_code,
        "Status": status,
        "StatusDetails": status,
        "StandardOutputContent": output.stdout[:_OUTPUT_LIMIT],
    }
