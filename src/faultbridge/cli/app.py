"""Run one command: import its module, and convert errors to one line of text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer

from faultbridge.cli.command_table import COMMANDS
from faultbridge.cli.errors.failures import EXIT_INTERRUPTED, EXIT_USAGE, failure_of
from faultbridge.cli.plain_parameters import use_plain_parameters
from faultbridge.cli.render.output import examples, print_line

DEBUG = "FAULTBRIDGE_DEBUG"
COMPLETION = "_FAULTBRIDGE_COMPLETE"
"""The environment variable with which a shell requests the completions of a command line."""

# Typer keeps this class private. Its message is the help text of the noun that was called without a verb.
_NO_ARGUMENTS_ERROR = "NoArgsIsHelpError"


_EPILOG = f"""{
    examples(
        "faultbridge decode /var/log/kern.log",
        "faultbridge demo",
        "faultbridge stuck",
        "faultbridge case list --waiting-for approval",
    )
}

Run `faultbridge COMMAND --help` for options and examples.

Exit codes: 0 success; 1 a check found a problem; 2 wrong usage; 65 unreadable input; 69 the stack cannot be reached; 70
an internal error; 75 a temporary failure, safe to retry; 130 interrupted by Ctrl-C."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    An error becomes one line on stderr. If FAULTBRIDGE_DEBUG is set, the traceback of the error is printed before this
    line. If only the verb of a command is missing, its help is printed instead.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Outside standalone mode Typer returns the exit code of `typer.Exit`.
        returned = application([*given, *_words_to_complete(os.environ)])(
            args=given, prog_name="faultbridge", standalone_mode=False
        )
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        if isinstance(ended, SystemExit) and COMPLETION in os.environ:
            sys.stdout.flush()  # the completions
            return 0
        # The reader closed the pipe, for example `| head`. This is no error, and Python must not report one at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        returned = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - any error becomes one line and an exit code
        if os.environ.get(DEBUG):
            import traceback

            traceback.print_exc()
        if type(error).__name__ == _NO_ARGUMENTS_ERROR:
            print_line(str(getattr(error, "message", error)), to_stderr=True)
            return EXIT_USAGE
        failure = failure_of(error, _command_path(given))
        print_line(f"faultbridge: {failure.message} ({failure.hint})", to_stderr=True)
        return failure.exit_code
    if returned == EXIT_INTERRUPTED:  # Typer also returns it for Ctrl-C within a command
        print_line("faultbridge: interrupted (what was already done stays done)", to_stderr=True)
    return returned if isinstance(returned, int) else 0


def application(arguments: Sequence[str]) -> typer.Typer:
    """Build the Typer command tree; only the module of the called command is imported.

    For any other command, the tree has only its line of the help.
    """
    use_plain_parameters()
    root = typer.Typer(
        help="Turn GPU-node faults into versioned events and verified repairs.",
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root_options)
    called = _called(arguments)
    for name, row in COMMANDS.items():
        if name == called:
            _add(root, name)
        else:
            root.command(name, help=row.help)(_placeholder)
    return root


def _called(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if argument in COMMANDS), None)


def _command_path(arguments: Sequence[str]) -> str | None:
    """Return the command that the arguments call, such as `case list`; None if they name no command."""
    name = _called(arguments)
    if name is None:
        return None
    module = sys.modules.get(f"faultbridge.cli.commands.{COMMANDS[name].module}")
    verbs = {one.name for one in module.app.registered_commands} if module else set()
    following = arguments[arguments.index(name) + 1 :]
    verb = next((one for one in following if one in verbs and name not in verbs), None)
    return f"{name} {verb}" if verb else name


def _words_to_complete(environment: Mapping[str, str]) -> list[str]:
    """Return the words of the command line for which a shell requests completions.

    With these words, `application` imports the right command. The result is empty if no completion is requested.
    """
    if COMPLETION not in environment:
        return []
    return (environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]


def _add(root: typer.Typer, name: str) -> None:
    """Import the module of a command, and add the command with all its verbs to the tree."""
    row = COMMANDS[name]
    app: typer.Typer = import_module(f"faultbridge.cli.commands.{row.module}").app
    single = next((one for one in app.registered_commands if one.name == name), None)
    if single is None or single.callback is None:
        callback = app.registered_callback
        # A noun that also works without a verb, such as `simulate`, has its own help text and examples.
        help_texts: dict[str, Any] = (
            {}
            if callback is not None and callback.invoke_without_command
            else {"help": row.help, "epilog": f"Run `faultbridge {name} VERB --help` for options and examples."}
        )
        root.add_typer(app, name=name, no_args_is_help=True, **help_texts)
    else:
        root.command(name, epilog=single.epilog)(single.callback)


def _placeholder() -> None:
    """Do nothing; this function represents a command that is listed in the help but not called."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_line(version("faultbridge"))
        raise typer.Exit


def _root_options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Declare the options that come before the name of a command."""
