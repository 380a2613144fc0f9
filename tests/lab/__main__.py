"""The commands of the lab, for maintainers: `python -m tests.lab fleet`, `python -m tests.lab tune`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from faultbridge.cli.declare import build, command
from faultbridge.cli.errors import failure_of
from faultbridge.cli.render.output import print_line
from tests.lab.simulate_fleet import FLEET_EXAMPLES, simulate_fleet
from tests.lab.tune import TUNE_EXAMPLES, tune_policy

command("lab fleet", *FLEET_EXAMPLES)(simulate_fleet)
command("lab tune", *TUNE_EXAMPLES)(tune_policy)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code. An error becomes one line on stderr."""
    root = click.Group("lab", [build("lab fleet"), build("lab tune")])
    try:
        returned = root.main(list(sys.argv[1:] if arguments is None else arguments), "lab", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - any error becomes one line and an exit code
        failure = failure_of(error)
        print_line(f"lab: {failure.message} ({failure.hint})", to_stderr=True)
        return failure.exit_code
    return returned if isinstance(returned, int) else 0


if __name__ == "__main__":
    sys.exit(run())
