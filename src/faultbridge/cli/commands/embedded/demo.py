"""`faultbridge demo`: shows on this machine how Faultbridge repairs a node with a lost GPU."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from faultbridge.cli.commands.embedded.up_down import YesOption, confirm_deletion
from faultbridge.cli.commands.options import StackName
from faultbridge.cli.errors.failures import EXIT_NOT_WELL
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import OutputFormat, examples, notice, print_line
from faultbridge.cli.stack.locate import DEFAULT_STACK

app = typer.Typer(rich_markup_mode=None)


@app.command("demo", epilog=examples("faultbridge demo", "faultbridge demo --fresh --json"))
@formatted_command
def run_demo(
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete all data of the stack first.")] = False,
    stack: StackName = DEFAULT_STACK,
    timeout: Annotated[
        int, typer.Option("--patience", min=1, metavar="SECONDS", help="Maximum wait for the repair.")
    ] = 120,
    yes: YesOption = False,
    *,
    output: OutputFormat,
) -> None:
    """Start the embedded stack, send bundled faults, and follow the repair until a verified node serves.

    The instances and the AWS services are emulated; Faultbridge runs as on AWS. Exit code 1: a check failed.
    """
    from faultbridge.cli.commands.embedded.demo_result import print_result
    from faultbridge.cli.commands.embedded.demo_scenario import DemoScenario

    if fresh:
        confirm_deletion(stack, yes=yes)
    result = DemoScenario.start(stack=stack, fresh=fresh, timeout=timeout, output=output).run()
    if output.for_people:
        print_result(result)
    else:
        print_line(json.dumps(result.document(), indent=2 if output is OutputFormat.JSON else None))
    if result.problems:
        notice(f"the demo failed: {'; '.join(result.problems)}")
        raise typer.Exit(EXIT_NOT_WELL)
