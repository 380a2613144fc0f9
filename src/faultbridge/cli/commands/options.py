"""Options and arguments that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.errors import Rejected

STDIN = "-"

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the cluster.")]
ClusterOption = Annotated[str, typer.Option("--cluster", metavar="CLUSTER", help="Name of the cluster.")]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason for the timeline, a few words.")]
StackName = Annotated[str, typer.Option("--stack", metavar="NAME", help="Name of the stack.")]


def known_source(source: str) -> str:
    """Check the name of a source. An unknown name is wrong usage."""
    from faultbridge.decoders import registry

    if source not in registry.names():
        raise typer.BadParameter(f"unknown source: {source!r}; allowed: {', '.join(registry.names())}")
    return source


def read_text(file: str) -> str:
    """Read a text file, or standard input for `-`. Raises `Rejected` for bytes that are not UTF-8."""
    raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {file}") from None
