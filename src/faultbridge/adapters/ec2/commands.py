"""Send shell commands to instances through SSM Run Command, and find them again by a token."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of, is_throttle
from faultbridge.model.log import log_cause
from faultbridge.model.retry import Retry

DOCUMENT = "AWS-RunShellScript"
# GetCommandInvocation truncates the output to this length.
OUTPUT_CHARACTERS = 24_000
DELIVERY_SECONDS = 600
COMMENT_CHARACTERS = 100

THROTTLE_RETRY = Retry(4, first_seconds=0.2)
"""Attempts of a call that SSM throttles. SSM did nothing for a throttled call, so a further attempt repeats nothing."""

# Status details of a command that did not run to completion.
UNFINISHED = frozenset({"DeliveryTimedOut", "ExecutionTimedOut", "Terminated", "Undeliverable"})
RUNNING = frozenset({"Pending", "InProgress", "Delayed", "Cancelling"})
NO_INVOCATION = frozenset({"InvalidCommandId", "InvalidInstanceId", "InvocationDoesNotExist"})

T = TypeVar("T")


def comment_of(token: str) -> str:
    """Return the SSM comment for a token; a token above 100 characters is cut, and its hash is added."""
    if len(token) <= COMMENT_CHARACTERS:
        return token
    digest = hashlib.sha256(token.encode()).hexdigest()
    return f"{token[: COMMENT_CHARACTERS - len(digest) - 1]} {digest}"


def find(ssm: Any, instance_id: str, token: str) -> str | None:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the oldest command id that SSM lists for an instance and a token; None if none is listed."""
    found = sent(ssm, instance_id, comment := comment_of(token))
    return next((command for command, text in found if text == comment), None)


def sent(ssm: Any, instance_id: str, prefix: str) -> list[tuple[str, str]]:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return id and comment of the listed commands whose comment starts with `prefix`, oldest first.

    SSM lists a command for 30 days. For an instance whose agent has never registered, the result is empty.
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
    retry: Retry = THROTTLE_RETRY,
) -> str:
    """Send a shell script to an instance, with a time limit in seconds; returns the command id.

    `ssm` must never retry, because SSM runs the script of each call that it accepts; only a throttled call is repeated,
    as `retry` defines. `token` becomes the comment, by which `find` finds the command. A script that has not started
    after `delivery_seconds` (at least 30) is not started. `output` names an S3 bucket and prefix for the complete
    output. The instances in `others` run the command too.
    """

    def call() -> Mapping[str, Any]:
        answer: Mapping[str, Any] = ssm.send_command(
            InstanceIds=[instance_id, *others],
            DocumentName=DOCUMENT,
            Comment=comment_of(token),
            TimeoutSeconds=delivery_seconds,
            Parameters={"commands": list(script), "executionTimeout": [str(seconds)]},
            **(output or {}),
        )
        return answer

    return str(_repeated_if_throttled(call, retry, instance_id)["Command"]["CommandId"])


def cancel(ssm: Any, instance_id: str, command: str, retry: Retry = THROTTLE_RETRY) -> None:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Cancel a command on an instance; only a throttled call is repeated, as `retry` defines."""
    _repeated_if_throttled(lambda: ssm.cancel_command(CommandId=command, InstanceIds=[instance_id]), retry, instance_id)


def invocation(ssm: Any, instance_id: str, command: str) -> Mapping[str, Any] | None:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the invocation of a command on an instance, or None if SSM does not list it."""
    try:
        found: Mapping[str, Any] = ssm.get_command_invocation(CommandId=command, InstanceId=instance_id)
    except ClientError as error:
        if code_of(error) in NO_INVOCATION:
            return None
        raise
    return found


def is_running(found: Mapping[str, Any]) -> bool:
    """Return whether a command still runs, according to its invocation."""
    return found["Status"] in RUNNING and details_of(found) not in UNFINISHED


def details_of(found: Mapping[str, Any]) -> str:
    """Return the status details of a command invocation, without spaces, such as `DeliveryTimedOut`."""
    return str(found.get("StatusDetails", "")).replace(" ", "")


def _repeated_if_throttled(call: Callable[[], T], retry: Retry, instance_id: str) -> T:
    def log(attempt: int, error: Exception, pause: float) -> None:
        reason, seconds = str(error), round(pause, 3)
        log_cause("command_throttled", reason=reason, instance_id=instance_id, attempt=attempt, pause_seconds=seconds)

    return retry(
        call,
        retry_on=ClientError,
        retry_if=lambda error: isinstance(error, ClientError) and is_throttle(error),
        on_retry=log,
    )
