"""The command line `python -m faultbridge.node.agent`, for nodes without the `faultbridge` command.

`faultbridge agent` runs the same agent through the function `run`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from faultbridge.model.errors import Misconfigured
from faultbridge.node.agent import host, resource_limits
from faultbridge.node.agent.agent import MemoryExceeded, build_agent
from faultbridge.node.agent.settings import AgentSettings

EXIT_NOT_SENT, EXIT_USAGE, EXIT_RESTART = 1, 2, 75
ONCE_SECONDS = 45.0


def run(settings: AgentSettings, *, once: bool = False) -> int:
    """Run the agent, or with `once` each probe once, within about 45 s; return the exit code.

    It is 0 after a normal end, 1 if records could not be sent (`once`), and 75 if the agent used too much memory and
    its supervisor must restart it. Raises the error that ended the sender thread.
    """
    resource_limits.lower_priority()
    if settings.instance_id is None:
        settings = replace(settings, instance_id=host.instance_id())
    agent = build_agent(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: agent.stopping.set())
    try:
        if once:
            problem = agent.run_once(ONCE_SECONDS)
            if problem is not None:
                host.print_warning(f"{problem}; {agent.outbox.unsent} records wait on disk")
                return EXIT_NOT_SENT
        else:
            agent.run()
    except MemoryExceeded as error:
        sys.stderr.write(f"faultbridge: {error}; the supervisor restarts the agent\n")
        return EXIT_RESTART
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run the agent, and return the exit code; it is 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="faultbridge agent", description="Send the faults and logs of this node.")
    parser.add_argument("--config", type=Path, help="a TOML file (default: /etc/faultbridge/agent.toml if it exists)")
    parser.add_argument(
        "--once", action="store_true", help="run each probe once, send the records, exit within 45 s (1: not sent)"
    )
    options = parser.parse_args(arguments)
    try:
        return run(AgentSettings.load(options.config), once=options.once)
    except Misconfigured as error:
        sys.stderr.write(f"faultbridge: {error}\n")
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
