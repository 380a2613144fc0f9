"""`faultbridge simulate`: one history of the product's own stages under injected faults, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import JsonFlag, JsonlFlag, form_of, notice, show_one

EPILOG = "Example: faultbridge simulate --seed 7 --story"
COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "SEED": lambda one: one["seed"],
    "STEPS": lambda one: one["steps"],
    "INJECTED": lambda one: one["injected"],
    "DIGEST": lambda one: one["digest"],
    "BROKEN": lambda one: "\n".join(one["broken"]),
}


def command(
    seed: Annotated[int, typer.Option(help="Which history; the same seed is the same history.")],
    steps: Annotated[int, typer.Option(help="How many acts from outside it has.", min=0)] = 40,
    story: Annotated[bool, typer.Option("--story", help="Tell what happened, as a timeline.")] = False,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Run one history. Exit code 1: an invariant is broken; it is named, with the smallest story that breaks it."""
    from faultbridge.simulation.history import run
    from faultbridge.simulation.shrink import shrink

    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    found = run(seed, steps)
    if story:
        for line in found.journal.story():
            notice(line) if as_json or as_jsonl else print(line)
    document = {
        "seed": seed,
        "steps": steps,
        "injected": found.injected,
        "digest": found.digest,
        "broken": list(found.broken),
        "replay": found.replay,
    }
    show_one(document, COLUMNS, form)
    if found.broken:
        smallest = shrink(found).history
        notice(f"the smallest story found, {smallest.steps} steps:")
        for line in smallest.journal.story():
            notice(line)
        notice(f"{found.broken[0]} (replay it: {found.replay}; in short: {smallest.replay})")
        raise typer.Exit(EXIT_NOT_WELL)
