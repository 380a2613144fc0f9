"""`faultbridge down`: the embedded stack, stopped."""

from __future__ import annotations

from faultbridge.cli.output import JsonFlag, JsonlFlag, form_of, notice, show_one
from faultbridge.cli.session import DEFAULT_STACK
from faultbridge.cli.up import StackName

EPILOG = "Example: faultbridge down"


def command(stack: StackName = DEFAULT_STACK, as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """Stop the embedded stack; what it held is gone."""
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    from faultbridge.local import down

    stopped = down(stack=stack, progress=notice)
    show_one(
        {"stack": stack, "stopped": stopped},
        {"Stopped": lambda one: one["stack"] if one["stopped"] else "nothing was up"},
        form,
    )
