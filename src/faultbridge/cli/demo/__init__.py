"""`faultbridge demo`: a lost GPU, its repair, its pages and its timeline, on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Form, JsonFlag, JsonlFlag, form_of, notice
from faultbridge.cli.session import DEFAULT_STACK
from faultbridge.cli.up import StackName

EPILOG = "Example: faultbridge demo"


def command(
    fresh: Annotated[bool, typer.Option("--fresh", help="Start the stack over first.")] = False,
    stack: StackName = DEFAULT_STACK,
    patience: Annotated[int, typer.Option(min=1, help="Seconds to wait for the repair.")] = 120,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Start the embedded stack, send bundled faults, and follow the repair until a verified node serves.

    The machines are fakes; everything else is the product as it runs on AWS. Exit code 1: something came out wrong.
    """
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    from faultbridge.cli.demo.result import print_result
    from faultbridge.cli.demo.story import Story

    story = Story.begin(stack=stack, fresh=fresh, patience=patience, form=form)
    result = story.tell()
    if form is Form.PEOPLE:
        print_result(result)
    else:
        print(json.dumps(result.document(), indent=2 if form is Form.JSON else None))
    if result.wrong:
        notice(f"the demo did not come out as it should: {'; '.join(result.wrong)}")
        raise typer.Exit(EXIT_NOT_WELL)
