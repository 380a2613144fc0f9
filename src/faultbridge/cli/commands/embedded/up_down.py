"""`faultbridge up`, `down` and `env`: start and stop the embedded stack, and direct other programs to it."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

from faultbridge import local
from faultbridge.cli.commands.options import Format, StackName, confirm
from faultbridge.cli.declare import Option, command
from faultbridge.cli.render.output import Columns, fields, notice, print_line, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK, require_embedded_stack

YesOption = Annotated[bool, Option("--yes -y", "Do not ask on a terminal.")]

STARTED: Columns = fields(
    "Stack, Event plane=endpoint, Compute plane=compute_endpoint, Console, API, Bus, Queue, Logs"
) | {
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
    if fresh:
        confirm_deletion(stack, yes=yes)
    info = local.up(fresh, notice, stack=stack)
    show_one(info.as_json(), STARTED, output)


@command("down")
def stop(stack: StackName = DEFAULT_STACK, yes: YesOption = False, *, output: Format) -> None:
    """Stop the embedded stack and delete its data."""
    confirm_deletion(stack, yes=yes)
    stopped = local.down(stack=stack, progress=notice)
    show_one({"stack": stack, "stopped": stopped}, STOPPED, output)


def confirm_deletion(stack: str, *, yes: bool) -> None:
    """Require confirmation on a terminal before the data of a running stack is deleted."""
    if sys.stdin.isatty() and local.stack_info(stack=stack) is not None:
        confirm(f"this deletes all data of the stack {stack}", yes=yes)


@command("env", '$ eval "$(faultbridge env)"', "--json")
def print_environment(stack: StackName = DEFAULT_STACK, *, output: Format) -> None:
    """Print the variables that direct boto3, the AWS CLI or Terraform to the embedded stack."""
    found = require_embedded_stack(stack).environment
    if not output.for_people:
        show_one(found, {}, output)
        return
    for name, value in found.items():
        print_line(f"export {name}={shlex.quote(value)}")
