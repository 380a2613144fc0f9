"""Run one command: import its module, and convert errors to one line of text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import get_completion_class, shell_complete

from faultbridge.cli.declare import DECLARED, EXIT_INTERRUPTED, EXIT_USAGE, HELP_OPTIONS, Exit, build, examples
from faultbridge.cli.errors import failure_of
from faultbridge.cli.render.output import notice, print_line
from faultbridge.model.errors import UnknownName
from faultbridge.model.names import did_you_mean

if TYPE_CHECKING:
    from faultbridge.cli.stack.session import Session

# Each command has a row, and its module declares it (`decode`); the verbs of a noun are declared as `node list`. This
# table imports no module.


class Row(NamedTuple):
    """One command or noun: its module in `faultbridge.cli.commands`, and its line in the help."""

    module: str
    help: str


COMMANDS: Mapping[str, Row] = {
    "decode": Row("offline.decode", "Decode raw text to faults and clears. Works offline."),
    "sources": Row("offline.decode", "List the source names that can be decoded."),
    "catalog": Row("offline.catalog", "Explain a fault code: severity, action and reason."),
    "explain": Row("offline.explain", "Explain why a job died and whether it may restart."),
    "mechanism": Row("offline.explain", "List, show and test the mechanisms of `explain`."),
    "schema": Row("offline.events", "Print event schemas and validate events."),
    "rule": Row("offline.events", "Test EventBridge rules and write their template."),
    "up": Row("embedded.stack", "Start the embedded stack on this machine."),
    "demo": Row("embedded.demo", "Break a GPU in the embedded stack and watch the repair."),
    "down": Row("embedded.stack", "Stop the embedded stack and delete its data."),
    "fleet": Row("embedded.stack", "Create, break and heal fake nodes of an embedded stack."),
    "env": Row("embedded.stack", "Print variables that point programs to an embedded stack."),
    "status": Row("embedded.stack", "Show what runs, queue depths and overdue work."),
    "overview": Row("fleet.overview", "Show where you are and what needs you, as `faultbridge` alone."),
    "context": Row("fleet.overview", "List, choose and show the stacks that commands use."),
    "deploy": Row("install.deploy", "Create or update an installation on AWS."),
    "connect": Row("install.connect", "Connect an EKS, HyperPod or Slurm cluster, or a group."),
    "doctor": Row("install.connect", "Look for what is missing; show what would have been repaired."),
    "destroy": Row("install.deploy", "Remove an installation from AWS; the record stays."),
    "cluster": Row("fleet.cluster", "Register, show and change clusters."),
    "node": Row("fleet.node", "Register, show, repair and retire nodes."),
    "case": Row("fleet.case", "Show cases; approve, deny or cancel repairs."),
    "ack": Row("fleet.orders", "Take a case over, so that its urgent pages are not repeated."),
    "silence": Row("fleet.orders", "Hold pages that match for a time; list and end silences."),
    "test-page": Row("fleet.orders", "Send test pages through the real path, and report each."),
    "stuck": Row("fleet.overview", "List nodes and cases that wait for an operator's command."),
    "top": Row("fleet.overview", "Watch a cluster: unhealthy nodes, cases, incidents."),
    "incident": Row("fleet.case", "Show or close incidents of many nodes."),
    "gpus": Row("fleet.hardware", "Show the share of GPUs in service and hours lost."),
    "finding": Row("fleet.hardware", "Show and judge signs of gray failures."),
    "device": Row("fleet.hardware", "Show a GPU's history, and repeat offenders."),
    "breaker": Row("fleet.orders", "Show or close the repair breakers of a cluster."),
    "pause": Row("fleet.orders", "Pause new repairs in one cluster or in all."),
    "resume": Row("fleet.orders", "Resume repairs in one cluster or in all."),
    "policy": Row("policy.policy", "Check, compare, publish and show the repair policy."),
    "mapping": Row("policy.policy", "Check, publish and show your own fault mappings."),
    "job": Row("fleet.job", "Record when jobs start and end, and show which may resume."),
    "send": Row("records.send", "Send raw records to the queue of a stack."),
    "webhook": Row("records.webhook", "Let Alertmanager, Grafana and others post records."),
    "agent": Row("records.collect", "Collect and send the faults of this node."),
    "collect": Row("records.collect", "Collect and send the faults of a Kubernetes cluster."),
    "audit": Row("records.send", "Check that every record sent has an outcome."),
    "reject": Row("records.send", "List, show and retry rejected records."),
    "redrive": Row("records.send", "Move dead letters back to their queues."),
    "timeline": Row("records.timeline", "Show the entries of a cluster, node, case or job."),
    "tail": Row("records.timeline", "Print entries as they are recorded, of all clusters."),
    "report": Row("records.timeline", "Write a report of a cluster as one HTML file."),
    "console": Row("records.servers", "Print the address of the web console, or serve it."),
    "exporter": Row("records.servers", "Serve the state of clusters as Prometheus metrics."),
    "mcp": Row("records.servers", "Serve read-only tools for assistants (MCP)."),
    "sla": Row("records.timeline", "Show the service level of a cluster and its outages."),
    "verify": Row("records.timeline", "Verify sequences and hash chains of the record."),
    "restore": Row("records.send", "Copy a restored backup into the table of the stack."),
    "recover": Row("records.send", "Start a new epoch after a restore from backup."),
    "erase": Row("records.send", "Delete the items of a cluster from the table."),
}


DEBUG = "FAULTBRIDGE_DEBUG"
COMPLETION = "_FAULTBRIDGE_COMPLETE"
"""The environment variable with which a shell requests the completions of a command line."""

ROOT_OPTIONS = ("--version", "--show-completion", "-h", "--help")

_EPILOG = f"""{
    examples(
        "faultbridge",
        "faultbridge decode /var/log/kern.log",
        "faultbridge demo",
        "faultbridge stuck",
        "faultbridge node list --status quarantined",
    )
}

Run `faultbridge COMMAND --help` for options and examples. Without a command, `faultbridge` shows the current stack and
what waits for you.

Exit codes: 0 success; 1 a check found a problem; 2 wrong usage; 65 unreadable input; 69 the stack cannot be reached; 70
an internal error; 75 a temporary failure, safe to retry; 130 interrupted by Ctrl-C."""


class Group(click.Group):
    """Commands in their order; an unknown name is a usage error with the closest names."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as in click
        """Return the names in the order of the help."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group."""
        found = self.commands.get(cmd_name)
        if found is None and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            raise click.UsageError(f"unknown command: {cmd_name}{did_you_mean(cmd_name, known)}", ctx)
        return found


def noun(name: str) -> Group:
    """Return a noun with its verbs, which one module declares."""
    verbs: dict[str, click.Command] = {
        one.removeprefix(f"{name} "): build(one) for one in DECLARED if one.startswith(f"{name} ")
    }
    return Group(
        name,
        verbs,
        invoke_without_command=True,
        callback=_require_verb,
        help=COMMANDS[name].help,
        epilog=f"Run `faultbridge {name} VERB --help` for options and examples.",
        context_settings=HELP_OPTIONS,
    )


class Root(Group):
    """All commands; only the module of the called one is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as in click
        """Return the names of all commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and return the command."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            import_module(f"faultbridge.cli.commands.{COMMANDS[cmd_name].module}")
            self.commands[cmd_name] = build(cmd_name) if cmd_name in DECLARED else noun(cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as in click
        """Write the line of each command, without importing its module."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as in click
        """Write the epilog as it is."""
        formatter.write(f"\n{_EPILOG}\n")


def application() -> Root:
    """Return the command tree of `faultbridge`."""
    shared: dict[str, Any] = {"is_eager": True, "expose_value": False}
    version = click.Option(["--version"], is_flag=True, callback=_print_version, help="Print the version.", **shared)
    shells = click.Choice(["bash", "zsh", "fish"])
    completion = click.Option(
        ["--show-completion"],
        type=shells,
        callback=_print_completion,
        help="Print the completion script of a shell.",
        **shared,
    )
    text = "Turn GPU-node faults into versioned events and verified repairs."
    return Root("faultbridge", help=text, params=[version, completion], context_settings=HELP_OPTIONS)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one line on stderr."""
    given = _with_command(sys.argv[1:] if arguments is None else arguments)
    root, context, code = application(), None, 0
    if COMPLETION in os.environ:
        return shell_complete(root, {}, "faultbridge", COMPLETION, os.environ[COMPLETION])
    try:
        with root.make_context("faultbridge", given) as context:
            try:
                root.invoke(context)
            except Exit as ended:
                code = ended.exit_code
        sys.stdout.flush()
        if context.obj is not None and context.obj.changes:
            notice(context.obj.place)
    except Exit as ended:  # --help, --version
        return ended.exit_code
    except BrokenPipeError:
        # The reader closed the pipe, for example `| head`. This is no error, and Python must not report one at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        print_line("faultbridge: interrupted (what was already done stays done)", to_stderr=True)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - any error becomes one line and an exit code
        return _report(error, context.obj if context else None)
    return code


def _with_command(arguments: Sequence[str]) -> list[str]:
    """Add the command `overview`, if the arguments are empty or only its options."""
    is_overview = not arguments or (arguments[0].startswith("-") and arguments[0] not in ROOT_OPTIONS)
    return ["overview", *arguments] if is_overview else list(arguments)


def _report(error: Exception, session: Session | None) -> int:
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exc()
    if isinstance(error, UnknownName) and session is not None:
        from faultbridge.cli.stack.session import with_closest

        error = with_closest(error, session)
    failure = failure_of(error)
    print_line(f"faultbridge: {failure.message} ({failure.hint})", to_stderr=True)
    return failure.exit_code


@click.pass_context
def _require_verb(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        print_line(context.get_help(), to_stderr=True)
        raise Exit(EXIT_USAGE)


def _print_version(_context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_line(version("faultbridge"))
        raise Exit(0)


def _print_completion(_context: click.Context, _option: click.Parameter, shell: str | None) -> None:
    completion = get_completion_class(shell) if shell else None
    if completion is not None:
        print_line(completion(application(), {}, "faultbridge", COMPLETION).source())
        raise Exit(0)
