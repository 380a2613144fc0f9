"""`faultbridge up`: the embedded stack, started, built and deployed."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.output import Columns, JsonFlag, JsonlFlag, form_of, notice, show_one
from faultbridge.cli.session import DEFAULT_STACK

EPILOG = "Example: faultbridge up"
UP: Columns = {
    "Stack": lambda one: one["stack"],
    "Event plane": lambda one: one["endpoint"],
    "Compute plane": lambda one: one["compute_endpoint"],
    "Bus": lambda one: one["outputs"].get("EventBusName"),
    "Queue": lambda one: one["outputs"].get("RawRecordsQueueUrl"),
    "Logs": lambda one: "\n".join(one["logs"].values()),
}

StackName = Annotated[str, typer.Option("--stack", help="The name of the stack.")]


def command(
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, with nothing in it.")] = False,
    stack: StackName = DEFAULT_STACK,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Start the embedded stack: two emulators of AWS on 127.0.0.1, and the same template deployed into them.

    Quick and harmless when it is up already.
    """
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    from faultbridge.local import up

    info = up(fresh, notice, stack=stack)
    show_one(info.as_json(), UP, form)
