"""`faultbridge agent`: the node agent, as this process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultbridge.agent.__main__ import run
from faultbridge.agent.settings import AgentSettings
from faultbridge.errors import Misconfigured

EPILOG = "Example: faultbridge agent --once --config /etc/faultbridge/agent.toml"


def command(
    config: Annotated[
        Path | None, typer.Option(help="A TOML file; /etc/faultbridge/agent.toml if none is named.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, send, and end within 45 s.")] = False,
) -> None:
    """Report what ails this node: kernel log, GPUs, links and counters, until stopped.

    It keeps to 1 % of a core, 64 MB of memory and 64 MB of disk.
    """
    try:
        settings = AgentSettings.load(config)
    except Misconfigured as error:
        # What an agent is told is said on its own command line and in its own file: nothing else is out of reach.
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(run(settings, once=once))
