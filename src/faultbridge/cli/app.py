"""Run one command: import its module, and convert errors to one line of text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import typer
import typer.core

from faultbridge.cli.errors import EXIT_INTERRUPTED, EXIT_USAGE, failure_of
from faultbridge.cli.render.output import examples, print_line

# Each command has a row. Its module has `app`, whose command of that name it is (`decode`); without one, the row is a
# noun, and the commands in `app` are its verbs (`node list`). This table imports no module.


@dataclass(frozen=True, slots=True)
class Row:
    """One command or noun: its module in `faultbridge.cli.commands`, and its line in the help."""

    module: str
    help: str


COMMANDS: Mapping[str, Row] = {
    "decode": Row("offline.decode", "Decode raw text to faults and clears. Works offline."),
    "sources": Row("offline.decode", "List the source names that can be decoded."),
    "catalog": Row("offline.catalog", "Explain a fault code: severity, action and reason."),
    "explain": Row("offline.explain", "Explain why a job died and whether it may restart."),
    "mechanism": Row("offline.mechanism", "List, show and test the mechanisms of `explain`."),
    "schema": Row("offline.schema", "Print event schemas and validate events."),
    "rule": Row("offline.rule", "Test EventBridge rules and write their template."),
    "up": Row("embedded.up_down", "Start the embedded stack on this machine."),
    "demo": Row("embedded.demo", "Break a GPU in the embedded stack and watch the repair."),
    "down": Row("embedded.up_down", "Stop the embedded stack and delete its data."),
    "fleet": Row("embedded.fleet", "Create, break and heal fake nodes of an embedded stack."),
    "env": Row("embedded.env", "Print variables that point programs to an embedded stack."),
    "status": Row("embedded.status", "Show what runs, queue depths and overdue work."),
    "cluster": Row("fleet.cluster", "Register, show and change clusters."),
    "node": Row("fleet.node", "Register, show, repair and retire nodes."),
    "case": Row("fleet.case", "Show cases; approve, deny or cancel repairs."),
    "stuck": Row("fleet.required_orders", "List nodes and cases that wait for an operator's command."),
    "top": Row("fleet.top", "Watch a cluster: unhealthy nodes, cases, incidents."),
    "incident": Row("fleet.incident", "Show or close incidents of many nodes."),
    "gpus": Row("fleet.gpus", "Show the share of GPUs in service and hours lost."),
    "finding": Row("fleet.finding", "Show and judge signs of gray failures."),
    "device": Row("fleet.device", "Show a GPU's history, and repeat offenders."),
    "breaker": Row("fleet.repair_controls", "Show or close the repair breakers of a cluster."),
    "pause": Row("fleet.repair_controls", "Pause new repairs in one cluster or in all."),
    "resume": Row("fleet.repair_controls", "Resume repairs in one cluster or in all."),
    "policy": Row("policy.policy", "Check, compare, publish and show the repair policy."),
    "mapping": Row("fleet.mapping", "Check, publish and show your own fault mappings."),
    "job": Row("fleet.job", "Record when jobs start and end, and show which may resume."),
    "send": Row("records.send", "Send raw records to the queue of a stack."),
    "webhook": Row("records.webhook", "Let Alertmanager, Grafana and others post records."),
    "agent": Row("records.agent", "Collect and send the faults of this node."),
    "collect": Row("records.collect", "Collect and send the faults of a Kubernetes cluster."),
    "audit": Row("records.audit", "Check that every record sent has an outcome."),
    "reject": Row("records.rejects", "List, show and retry rejected records."),
    "redrive": Row("records.maintenance", "Move dead letters back to their queues."),
    "timeline": Row("records.timeline", "Show the entries of a cluster, node, case or job."),
    "report": Row("records.report", "Write a report of a cluster as one HTML file."),
    "console": Row("records.console", "Print the address of the read-only web console, or serve it."),
    "exporter": Row("records.exports", "Serve the state of clusters as Prometheus metrics."),
    "mcp": Row("records.exports", "Serve read-only tools for assistants (MCP)."),
    "verify": Row("records.verify", "Verify sequences and hash chains of the record."),
    "recover": Row("records.maintenance", "Start a new epoch after a restore from backup."),
    "erase": Row("records.maintenance", "Delete the items of a cluster from the table."),
}


# Typer converts every value with pydantic, whose import takes longer than most offline commands. Its private function
# that creates the conversion of a parameter is replaced, if it exists: a value that has the type stays unchanged.

_NAME = "build_runtime_param"
"""The private function of Typer that is replaced. A test fails if a new version of Typer renames it."""


@dataclass(frozen=True, slots=True)
class PlainParameter:
    """Converts the values of one command line parameter, with Typer's conversion only where it is needed."""

    descriptor: Any
    convert: Callable[[Any], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as in Typer
        """Return the value in the type of the parameter; Typer converts it only if it has another type."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        given = self.descriptor
        if not (given.is_path or given.is_file or given.parameter_info.parser):
            if given.annotation == list[str] and type(value) in {list, tuple} and all(map(_is_text, value)):
                return list(value)
            if self._has_type(value):
                return value
        return self.convert(self.descriptor).coerce(value, param=param, ctx=ctx)

    def _has_type(self, value: object) -> bool:
        kind = self.descriptor.annotation
        return type(value) is kind and (kind in {str, bool} or issubclass(kind, Enum))


def use_plain_parameters() -> None:
    """Replace Typer's conversion of parameters with `PlainParameter`; repeated calls change nothing."""
    convert = getattr(typer.core, _NAME, None)
    if convert is None or getattr(convert, "is_plain", False):
        return

    def build(descriptor: Any) -> Any:  # noqa: ANN401 - as in Typer
        return PlainParameter(descriptor, convert)

    build.is_plain = True  # type: ignore[attr-defined]  # marks the replacement
    setattr(typer.core, _NAME, build)


def _is_text(value: object) -> bool:
    return type(value) is str


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
    """Run one command and return its exit code; an error becomes one line on stderr."""
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
    """Build the Typer command tree; only the called command is imported, others are lines of the help."""
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
    """Return the words of the command line that a shell completes; empty if it requests no completion."""
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
