"""Send shell commands to instances through SSM Run Command, and find them again by a token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of

DOCUMENT = "AWS-RunShellScript"
# GetCommandInvocation truncates the output to this length.
OUTPUT_CHARACTERS = 24_000
DELIVERY_SECONDS = 600
COMMENT_CHARACTERS = 100

# Status details of a command that did not run to completion.
UNFINISHED = frozenset({"DeliveryTimedOut", "ExecutionTimedOut", "Terminated", "Undeliverable"})
RUNNING = frozenset({"Pending", "InProgress", "Delayed", "Cancelling"})
NO_INVOCATION = frozenset({"InvalidCommandId", "InvalidInstanceId", "InvocationDoesNotExist"})


def comment_of(token: str) -> str:
    """Return the SSM comment that contains the token of a command.

    SSM limits a comment to 100 characters. A longer token is cut, and its hash is added.
    """
    if len(token) <= COMMENT_CHARACTERS:
        return token
    digest = hashlib.sha256(token.encode()).hexdigest()
    return f"{token[: COMMENT_CHARACTERS - len(digest) - 1]} {digest}"


def find(ssm: Any, instance_id: str, token: str) -> str | None:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the id of the first command that was sent to an instance with this token, or None."""
    found = sent(ssm, instance_id, comment := comment_of(token))
    return next((command for command, text in found if text == comment), None)


def sent(ssm: Any, instance_id: str, prefix: str) -> list[tuple[str, str]]:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the id and the comment of each command whose comment starts with `prefix`, oldest first.

    `ListCommands` may reject an instance whose SSM agent has never registered. The result is then empty, because no
    command was sent to the instance.
    """
    pages = ssm.get_paginator("list_commands").paginate(InstanceId=instance_id)
    try:
        commands = [
            (command["CommandId"], command.get("Comment", "")) for page in pages for command in page["Commands"]
        ]
    except ClientError as error:
        if code_of(error) == "InvalidInstanceId":
            return []
        raise
    return [(str(command), str(comment)) for command, comment in reversed(commands) if comment.startswith(prefix)]


def send(
    ssm: Any,  # noqa: ANN401 - the stubs' type exists only for type checkers
    instance_id: str,
    token: str,
    script: Sequence[str],
    *,
    seconds: int,
    delivery_seconds: int = DELIVERY_SECONDS,
    output: Mapping[str, str] | None = None,
    others: Sequence[str] = (),
) -> str:
    """Send a shell script to an instance, with a time limit in seconds; returns the command id.

    `ssm` should be a client that never retries, because SSM runs the script of each call that it receives. `script`
    contains the lines of the script. SSM does not start it after `delivery_seconds`, of which it accepts at least 30.
    `output` contains the parameters of `SendCommand` that name an S3 bucket
    and prefix for the complete output; None if SSM stores no output there. The instances in `others` run the same
    command.
    """
    answer = ssm.send_command(
        InstanceIds=[instance_id, *others],
        DocumentName=DOCUMENT,
        Comment=comment_of(token),
        TimeoutSeconds=delivery_seconds,
        Parameters={"commands": list(script), "executionTimeout": [str(seconds)]},
        **(output or {}),
    )
    return str(answer["Command"]["CommandId"])


def invocation(ssm: Any, instance_id: str, command: str) -> Mapping[str, Any] | None:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the invocation of a command on an instance, or None if SSM does not list it."""
    try:
        found: Mapping[str, Any] = ssm.get_command_invocation(CommandId=command, InstanceId=instance_id)
    except ClientError as error:
        if code_of(error) in NO_INVOCATION:
            return None
        raise
    return found


def details_of(found: Mapping[str, Any]) -> str:
    """Return the status details of a command invocation, without spaces, such as `DeliveryTimedOut`."""
    return str(found.get("StatusDetails", "")).replace(" ", "")
