"""Adds to commands the options that select a stack and an output format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from faultbridge.cli.render.format_options import formatted_command, with_options
from faultbridge.cli.render.output import OutputFormat
from faultbridge.cli.stack.known_names import proposes_names
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, checked_endpoint
from faultbridge.cli.stack.session import Session

Made = TypeVar("Made")

StackOption = Annotated[str, typer.Option("--stack", metavar="NAME", help="Name of the stack.")]
EndpointOption = Annotated[
    str | None, typer.Option("--endpoint-url", metavar="URL", help="AWS endpoint URL. Default: the AWS endpoint.")
]
RegionOption = Annotated[str | None, typer.Option("--region", metavar="REGION", help="AWS region of the stack.")]
ProfileOption = Annotated[str | None, typer.Option("--profile", metavar="PROFILE", help="AWS configuration profile.")]


@formatted_command
def _session(
    stack: StackOption = DEFAULT_STACK,
    endpoint_url: EndpointOption = None,
    region: RegionOption = None,
    profile: ProfileOption = None,
    *,
    output: OutputFormat,
) -> Session:
    return Session(Target(stack, checked_endpoint("--endpoint-url", endpoint_url), region, profile), output)


def command_with(session: Callable[..., Session]) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Return a decorator that calls a command with the `Session` that the function `session` returns.

    The parameters of `session` become options of the command. An error about an unknown name proposes the closest
    names.
    """

    def decorate(command: Callable[..., Made]) -> Callable[..., Made]:
        return with_options(session=session)(proposes_names(command))

    return decorate


stack_command = command_with(_session)
"""Decorates a command on a stack: its parameter `session` is built from the options for the stack and the output."""
