"""Adds shared options to commands: above all the options that select a stack and an output format."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from faultbridge.cli.render.output import JsonFlag, JsonlFlag, format_of
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target
from faultbridge.cli.stack.session import Session

Command = Callable[..., None]

StackOption = Annotated[str, typer.Option("--stack", metavar="NAME", help="Name of the stack.")]
EndpointOption = Annotated[
    str | None, typer.Option("--endpoint-url", metavar="URL", help="AWS endpoint URL. Default: the AWS endpoint.")
]
RegionOption = Annotated[str | None, typer.Option("--region", metavar="REGION", help="AWS region of the stack.")]
ProfileOption = Annotated[str | None, typer.Option("--profile", metavar="PROFILE", help="AWS configuration profile.")]


def with_options(**builders: Callable[..., object]) -> Callable[[Command], Command]:
    """Replace each named parameter of a command by the command line options of its builder.

    The parameters of a builder become options. The builder returns the value of the replaced parameter.
    """

    def decorate(command: Command) -> Command:
        own = [one for one in _parameters(command) if one.name not in builders]
        shared = {name: _parameters(builder) for name, builder in builders.items()}

        @functools.wraps(command)
        def called(**given: Any) -> None:  # noqa: ANN401 - each option has its own type
            for name, options in shared.items():
                given[name] = builders[name](**{one.name: given.pop(one.name) for one in options})
            command(**given)

        parameters = [*own, *(one for options in shared.values() for one in options)]
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # Typer reads the options here
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _session(
    stack: StackOption = DEFAULT_STACK,
    endpoint_url: EndpointOption = None,
    region: RegionOption = None,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> Session:
    return Session(Target(stack, endpoint_url, region, profile), format_of(as_json=as_json, as_jsonl=as_jsonl))


stack_command = with_options(session=_session)
"""Decorates a command on a stack: its parameter `session` is built from the options for the stack and the output."""
