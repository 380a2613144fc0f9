"""What a command of Systems Manager leaves behind.

AWS: `GetCommandInvocation` gives the exit code and the first 24,000 characters of what the command printed.
moto: nothing runs; the answer is always success and no output.
Here: nothing runs either; this is a fake that answers by the script (`compute_script`), and without one with the
diagnostics of a healthy node. It is done at once: the states Pending and InProgress never show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.compute_script import SCRIPT, CommandOutput
from faultbridge.local.gaps import names as patch

INVOCATION = "moto.ssm.models:SimpleSystemManagerBackend|get_command_invocation"
COMMAND = "moto.ssm.models:SimpleSystemManagerBackend|get_command_by_id"
CANNED = "moto.ssm.models:Command|invocation_response"

_OUTPUT_LIMIT = 24_000

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
        parameters = backend.get_command_by_id(command_id).parameters
        output = SCRIPT.output_of(instance_id, parameters.get("commands", []))
        return {**answer, **_fields(output)} if output else answer

    return get_command_invocation


def _fields(output: CommandOutput) -> dict[str, Any]:
    status = "Failed" if output.exit_code else "Success"
    return {
        "ResponseCode": output.exit_code,
        "Status": status,
        "StatusDetails": status,
        "StandardOutputContent": output.stdout[:_OUTPUT_LIMIT],
    }
