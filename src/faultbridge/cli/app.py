"""The frame of the command line: one command's module is imported, errors are one line, exit codes are in one place."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import typer

from faultbridge.cli.commands import COMMANDS, Row
from faultbridge.cli.failures import EXIT_INTERRUPTED, EXIT_USAGE, failure_of

DEBUG = "FAULTBRIDGE_DEBUG"
# Typer keeps the class for itself; its message is the help of the command that was named without a verb.
_NOTHING_ASKED = "NoArgsIsHelpError"


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing is raised, and a failure is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Without standalone mode an exit code that a command asks for (`typer.Exit`) is returned.
        returned = application(given)(args=given, prog_name="faultbridge", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has had enough of it (typer's frame leaves on that by itself); that is no failure,
        # and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, a person reads one line and a script an exit code
        if os.environ.get(DEBUG):
            traceback.print_exc()
        if type(error).__name__ == _NOTHING_ASKED:
            print(getattr(error, "message", error), file=sys.stderr)
            return EXIT_USAGE
        failure = failure_of(error, _called(given))
        print(f"faultbridge: {failure.what} ({failure.mend})", file=sys.stderr)
        return failure.exit_code
    return returned if isinstance(returned, int) else 0


def application(arguments: Sequence[str]) -> typer.Typer:
    """Build the command tree for these arguments: the command that is called is real, the others are a line of help."""
    root = typer.Typer(
        help="GPU-node faults to versioned events and verified repairs.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    root.callback()(_version)
    called = _called(arguments)
    for name, row in COMMANDS.items():
        if name == called:
            _add(root, name, row)
        else:
            root.command(name, help=row.help)(_stand_in)
    return root


def _called(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if argument in COMMANDS), None)


def _add(root: typer.Typer, name: str, row: Row) -> None:
    module = import_module(f"faultbridge.cli.{row.module}")
    if isinstance(getattr(module, "app", None), typer.Typer):
        root.add_typer(module.app, name=name, help=row.help, no_args_is_help=True)
    else:
        root.command(name, epilog=getattr(module, "EPILOG", None))(module.command)


def _stand_in() -> None:
    """Stand for a command that is listed and not called."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("faultbridge"))
        raise typer.Exit


def _version(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Take the options that stand before any command."""
