"""`python -m faultbridge.agent`: the agent on a node that has nothing of Faultbridge but this."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from faultbridge.agent import identity, limits
from faultbridge.agent.agent import Agent, TooHeavy
from faultbridge.agent.compose import agent_of
from faultbridge.agent.settings import AgentSettings
from faultbridge.errors import Misconfigured

EXIT_USAGE, EXIT_AGAIN = 2, 75
ONCE_SECONDS = 45.0


def run(settings: AgentSettings, *, once: bool = False) -> int:
    """Run the agent as this process; returns its exit code."""
    limits.step_back()
    if settings.instance_id is None:
        settings = settings.with_instance(identity.instance_id())
    agent = agent_of(settings)
    _stop_on_signals(agent)
    try:
        if once:
            agent.once(ONCE_SECONDS)
        else:
            agent.run()
    except TooHeavy as error:
        sys.stderr.write(f"faultbridge: {error} (started again by its supervisor)\n")
        return EXIT_AGAIN
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="faultbridge agent", description="Report what ails this node.")
    parser.add_argument("--config", type=Path, help="a TOML file (default: /etc/faultbridge/agent.toml if it is there)")
    parser.add_argument("--once", action="store_true", help="look once, send, and end within 45 s")
    given = parser.parse_args(arguments)
    try:
        return run(AgentSettings.load(given.config), once=given.once)
    except Misconfigured as error:
        sys.stderr.write(f"faultbridge: {error}\n")
        return EXIT_USAGE


def _stop_on_signals(agent: Agent) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: agent.stopping.set())


if __name__ == "__main__":
    sys.exit(main())
