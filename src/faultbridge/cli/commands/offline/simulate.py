"""`faultbridge simulate`: runs Faultbridge's own code on one random history with injected faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from faultbridge.cli.commands.offline.simulate_fleet import EPILOG, simulate_fleet
from faultbridge.cli.errors.failures import EXIT_NOT_WELL
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, print_line, show_one

if TYPE_CHECKING:
    from faultbridge.simulation.history import History

app = typer.Typer(rich_markup_mode=None)
app.command("fleet", epilog=EPILOG)(simulate_fleet)

COLUMNS: Columns = {
    "SEED": lambda one: one["seed"],
    "STEPS": lambda one: one["steps"],
    "INJECTED": lambda one: one["injected"],
    "DIGEST": lambda one: one["digest"],
    "BROKEN": lambda one: "\n".join(one["broken"]),
}


@app.callback(
    invoke_without_command=True,
    epilog=examples("faultbridge simulate --seed 7", "faultbridge simulate --seed 7 --steps 200 --story"),
)
@formatted_command
def simulate(
    context: typer.Context,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Random seed. The same seed gives the same history.")
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Number of external actions in the history.", min=0)] = 40,
    story: Annotated[bool, typer.Option("--story", help="Print each step of the history.")] = False,
    *,
    output: OutputFormat,
) -> None:
    """Simulate one random history of Faultbridge with injected faults.

    Exit code 1: an invariant is broken. The command names the invariant and prints the smallest history that breaks it.
    """
    if context.invoked_subcommand is not None:
        return
    if seed is None:
        raise typer.BadParameter("a seed is missing; give --seed N, or the command `simulate fleet`")
    from faultbridge.simulation.history import run

    found = run(seed, steps)
    if story:
        for line in found.journal.story():
            notice(line) if not output.for_people else print_line(line)
    figures = {"injected": found.injected, "digest": found.digest}
    broken = {"broken": list(found.broken), "replay": found.replay}
    show_one({"seed": seed, "steps": steps, **figures, **broken}, COLUMNS, output)
    if found.broken:
        _show_smallest(found)
        raise typer.Exit(EXIT_NOT_WELL)


def _show_smallest(found: History) -> None:
    from faultbridge.simulation.shrink import shrink

    smallest = shrink(found).history
    notice(f"smallest history that breaks it: {smallest.steps} steps")
    for line in smallest.journal.story():
        notice(line)
    notice(f"broken invariant: {found.broken[0]}; replay with `{found.replay}`, or shorter `{smallest.replay}`")
