"""The options for the output format, and the decorator that adds shared options to a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from faultbridge.cli.render.output import OutputFormat

Made = TypeVar("Made")


def with_options(**builders: Callable[..., object]) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Return a decorator that replaces parameters of a command with command line options.

    `builders` contains a function for each replaced parameter, by the name of the parameter. The parameters of this
    function become options of the command. When the command runs, the function gets the values of the options, and
    returns the value of the replaced parameter.

    For example, `with_options(output=format_of)` replaces the parameter `output` with the options of `format_of`.
    """

    def decorate(command: Callable[..., Made]) -> Callable[..., Made]:
        own = [one for one in _parameters(command) if one.name not in builders]
        shared = {name: _parameters(builder) for name, builder in builders.items()}

        @functools.wraps(command)
        def called(**given: Any) -> Made:  # noqa: ANN401 - each option has its own type
            for name, options in shared.items():
                given[name] = builders[name](**{one.name: given.pop(one.name) for one in options})
            return command(**given)

        parameters = [*own, *(one for options in shared.values() for one in options)]
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # Typer reads the options here
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate


def format_of(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns of a table, on any terminal.")] = False,
) -> OutputFormat:
    """Return the output format that the options select. `--json` with `--jsonl` is a usage error."""
    if as_json and as_jsonl:
        raise typer.BadParameter("conflicting options: --json and --jsonl; give one of them")
    if as_json or as_jsonl:
        return OutputFormat.JSON if as_json else OutputFormat.JSON_LINES
    return OutputFormat.WIDE_TABLE if wide else OutputFormat.TABLE


formatted_command = with_options(output=format_of)
"""Decorates a command without a stack: its parameter `output` is built from the options for the output."""


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
