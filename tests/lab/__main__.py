"""The commands of the lab, for maintainers: `python -m tests.lab fleet`, `python -m tests.lab tune`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from faultbridge.cli.app import use_plain_parameters
from faultbridge.cli.errors import failure_of
from faultbridge.cli.render.output import print_line
from tests.lab.simulate_fleet import EPILOG, simulate_fleet
from tests.lab.tune import TUNE_EPILOG, tune_policy

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("fleet", epilog=EPILOG)(simulate_fleet)
app.command("tune", epilog=TUNE_EPILOG)(tune_policy)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code. An error becomes one line on stderr."""
    use_plain_parameters()
    try:
        returned = app(args=list(sys.argv[1:] if arguments is None else arguments), standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - any error becomes one line and an exit code
        failure = failure_of(error, None)
        print_line(f"lab: {failure.message} ({failure.hint})", to_stderr=True)
        return failure.exit_code
    return returned if isinstance(returned, int) else 0


if __name__ == "__main__":
    sys.exit(run())
