"""`faultbridge up` and `faultbridge down`: start and stop the embedded stack."""

from __future__ import annotations

import sys
from typing import Annotated

from faultbridge.cli.commands.options import Format, StackName, confirm
from faultbridge.cli.declare import Option, command
from faultbridge.cli.render.output import Columns, fields, notice, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK

YesOption = Annotated[bool, Option("--yes -y", "Do not ask on a terminal.")]

STARTED: Columns = {
    **fields("Stack", "Event plane=endpoint", "Compute plane=compute_endpoint", "Console"),
    "API": lambda one: one["outputs"].get("ApiUrl"),
    "Bus": lambda one: one["outputs"].get("EventBusName"),
    "Queue": lambda one: one["outputs"].get("RawRecordsQueueUrl"),
    "Logs": lambda one: "\n".join(one["logs"].values()),
}
STOPPED: Columns = {"Stopped": lambda one: one["stack"] if one["stopped"] else "no stack was up"}


@command("up", "", "--fresh")
def start(
    fresh: Annotated[bool, Option(help="Delete all data and start an empty stack.")] = False,
    stack: StackName = DEFAULT_STACK,
    yes: YesOption = False,
    *,
    output: Format,
) -> None:
    """Start the embedded stack: two AWS emulators on 127.0.0.1, with the same template as on AWS.

    Without --fresh, the command changes nothing if the stack is running and up to date.
    """
    from faultbridge.local import up

    if fresh:
        confirm_deletion(stack, yes=yes)
    info = up(fresh, notice, stack=stack)
    show_one(info.as_json(), STARTED, output)


@command("down")
def stop(stack: StackName = DEFAULT_STACK, yes: YesOption = False, *, output: Format) -> None:
    """Stop the embedded stack and delete its data."""
    from faultbridge.local import down

    confirm_deletion(stack, yes=yes)
    stopped = down(stack=stack, progress=notice)
    show_one({"stack": stack, "stopped": stopped}, STOPPED, output)


def confirm_deletion(stack: str, *, yes: bool) -> None:
    """Require confirmation on a terminal before the data of a running stack is deleted."""
    from faultbridge.local import stack_info

    if sys.stdin.isatty() and stack_info(stack=stack) is not None:
        confirm(f"this deletes all data of the stack {stack}", yes=yes)
