"""`faultbridge up` and `faultbridge down`: start and stop the embedded stack."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.commands.options import StackName
from faultbridge.cli.render.output import Columns, JsonFlag, JsonlFlag, examples, format_of, notice, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK

app = typer.Typer(rich_markup_mode=None)

STARTED: Columns = {
    "Stack": lambda one: one["stack"],
    "Event plane": lambda one: one["endpoint"],
    "Compute plane": lambda one: one["compute_endpoint"],
    "Bus": lambda one: one["outputs"].get("EventBusName"),
    "Queue": lambda one: one["outputs"].get("RawRecordsQueueUrl"),
    "Logs": lambda one: "\n".join(one["logs"].values()),
}
STOPPED: Columns = {"Stopped": lambda one: one["stack"] if one["stopped"] else "no stack was up"}


@app.command("up", epilog=examples("faultbridge up", "faultbridge up --fresh"))
def start(
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete all data and start an empty stack.")] = False,
    stack: StackName = DEFAULT_STACK,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Start the embedded stack: two AWS emulators on 127.0.0.1 with the same template deployed.

    The command changes nothing when the stack is up already.
    """
    output = format_of(as_json=as_json, as_jsonl=as_jsonl)
    from faultbridge.local import up

    info = up(fresh, notice, stack=stack)
    show_one(info.as_json(), STARTED, output)


@app.command("down", epilog=examples("faultbridge down"))
def stop(stack: StackName = DEFAULT_STACK, as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """Stop the embedded stack and delete its data."""
    output = format_of(as_json=as_json, as_jsonl=as_jsonl)
    from faultbridge.local import down

    stopped = down(stack=stack, progress=notice)
    show_one({"stack": stack, "stopped": stopped}, STOPPED, output)
