"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import typer

from faultbridge.cli.render.output import OutputFormat, notice, print_line
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.names import did_you_mean

STDIN = "-"
CLUSTER_VARIABLE = "FAULTBRIDGE_CLUSTER"
"""The environment variable with the default of `--cluster`."""

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the cluster.")]
ClusterOption = Annotated[
    str, typer.Option("--cluster", metavar="CLUSTER", envvar=CLUSTER_VARIABLE, help="Name of the cluster.")
]
AnyClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="CLUSTER", envvar=CLUSTER_VARIABLE, help="Only this cluster. Default: all."),
]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]


def checked_reason(reason: str, limit: int) -> str:
    """Return a reason unchanged; a longer or unprintable one is a usage error."""
    if len(reason) > limit or not reason.isprintable():
        raise typer.BadParameter(f"invalid --reason: {reason[:80]!r}; allowed: {limit} printable characters")
    return reason


def _operator_reason(reason: str) -> str:
    from faultbridge.serve.api.requests import MAX_LENGTH

    return checked_reason(reason, MAX_LENGTH)


ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Reason for the timeline, a few words.", callback=_operator_reason),
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Confirm in advance; required without a terminal if it asks.")
]
AgentSettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML settings file. Default: /etc/faultbridge/agent.toml, if it exists. FAULTBRIDGE_AGENT_* variables "
        "override it.",
    ),
]
StackName = Annotated[str, typer.Option("--stack", metavar="NAME", help="Name of the stack.")]


def default_cluster() -> str | None:
    """Return the cluster in `FAULTBRIDGE_CLUSTER`, for commands where only some options use it."""
    return os.environ.get(CLUSTER_VARIABLE) or None


def known_source(source: str) -> str:
    """Return the name of a source unchanged; an unknown one is a usage error with the closest names."""
    from faultbridge.decode import registry

    if source not in registry.names():
        closest = did_you_mean(source, registry.names())
        raise typer.BadParameter(f"unknown source: {source!r}{closest}; `faultbridge sources` lists the names")
    return source


def read_bytes(file: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`."""
    return standard_input().read() if file == STDIN else Path(file).read_bytes()


def standard_input() -> BinaryIO:
    """Return standard input; on a terminal, first print that the command waits for input."""
    if sys.stdin.isatty():
        notice("reading standard input; end it with Ctrl-D")
    return sys.stdin.buffer


def confirm(effect: str, *, yes: bool) -> None:
    """Ask an operator to confirm an effect, unless `yes`; raises Rejected without a confirmation."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Rejected("not_confirmed", f"not confirmed: {effect}; nothing was changed")
    print_line(f"faultbridge: {effect}. Continue? [y/N] ", to_stderr=True, end="", flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Rejected("not_confirmed", "not confirmed; nothing was changed")


def read_mappings(file: Path | None) -> dict[str, Mapping[str, Any]]:
    """Return a customer's fault mappings from a file; invalid ones are a usage error, no file is empty."""
    if file is None:
        return {}
    from faultbridge.decode.data.mapping import parse_extensions

    try:
        return parse_extensions(read_text(str(file)))
    except Misconfigured as error:
        raise typer.BadParameter(f"invalid --mappings: {file}: {error}") from None


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for `-`. Raises `Rejected` if it is not UTF-8."""
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {file}") from None


Made = TypeVar("Made")


def with_options(**builders: Callable[..., object]) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Return a decorator that replaces parameters of a command with the options of their builders.

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
