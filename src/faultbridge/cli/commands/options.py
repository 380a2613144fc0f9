"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from faultbridge.cli.declare import Argument, BadParameter, Group, Option, Text
from faultbridge.cli.render.output import OutputFormat, notice, print_line
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.names import did_you_mean

STDIN = "-"
CLUSTER_VARIABLE = "FAULTBRIDGE_CLUSTER"
"""The environment variable with the default of `--cluster`."""

ClusterArgument = Annotated[str, Argument("CLUSTER", "Name of the cluster.")]
ClusterOption = Annotated[str, Option("--cluster CLUSTER", "Name of the cluster.", envvar=CLUSTER_VARIABLE)]
AnyClusterOption = Annotated[
    Text, Option("--cluster CLUSTER", "Only this cluster. Default: all.", envvar=CLUSTER_VARIABLE)
]
CaseArgument = Annotated[str, Argument("ID", "Id of the case.")]
NodeArgument = Annotated[str, Argument("NODE", "Name of the node.")]
FileOption = Annotated[Path | None, Option("--output-file FILE", "File to write. Default: the name and .html.")]


def checked_reason(reason: str, limit: int) -> str:
    """Return a reason unchanged; a longer or unprintable one is a usage error."""
    if len(reason) > limit or not reason.isprintable():
        raise BadParameter(f"invalid --reason: {reason[:80]!r}; allowed: {limit} printable characters")
    return reason


def _operator_reason(reason: str) -> str:
    from faultbridge.serve.api.requests import MAX_LENGTH

    return checked_reason(reason, MAX_LENGTH)


ReasonOption = Annotated[
    str, Option("--reason TEXT", "Reason for the timeline, a few words.", callback=_operator_reason)
]
YesOption = Annotated[bool, Option("--yes -y", "Confirm in advance; required without a terminal if it asks.")]
StackName = Annotated[str, Option("--stack NAME", "Name of the stack.")]


def default_cluster() -> str | None:
    """Return the cluster in `FAULTBRIDGE_CLUSTER`, for commands where only some options use it."""
    return os.environ.get(CLUSTER_VARIABLE) or None


def known_source(source: str) -> str:
    """Return the name of a source unchanged; an unknown one is a usage error with the closest names."""
    from faultbridge.decode import registry

    if source not in registry.names():
        closest = did_you_mean(source, registry.names())
        raise BadParameter(f"unknown source: {source!r}{closest}; `faultbridge sources` lists the names")
    return source


def input_title(file: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if file == STDIN else file


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
        raise BadParameter(f"invalid --mappings: {file}: {error}") from None


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for `-`. Raises `Rejected` if it is not UTF-8."""
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {file}") from None


def format_of(
    output: Annotated[
        OutputFormat, Option("--output -o", "Format of the output. Tables fit the terminal; `wide` has all columns.")
    ] = OutputFormat.TABLE,
    as_json: Annotated[bool, Option("--json", "Print one JSON document.")] = False,
    as_jsonl: Annotated[bool, Option("--jsonl", "Print one JSON object per line.")] = False,
    wide: Annotated[bool, Option(help="Print all columns of a table, on any terminal.")] = False,
) -> OutputFormat:
    """Return the output format that the options select; different ones are a usage error."""
    flags = {OutputFormat.JSON: as_json, OutputFormat.JSON_LINES: as_jsonl, OutputFormat.WIDE_TABLE: wide}
    given = [one for one, is_given in flags.items() if is_given]
    if output is not OutputFormat.TABLE:
        given.append(output)
    if len(set(given) - {OutputFormat.WIDE_TABLE}) > 1:
        names = " and ".join(f"--{one}" for one in dict.fromkeys(given))
        raise BadParameter(f"conflicting options: {names}; give one of them")
    return given[0] if given else OutputFormat.TABLE


Format = Annotated[OutputFormat, Group(format_of)]
"""The output format of a command without a stack."""
