"""Generates the command-line reference from the live command tree."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from typer.main import get_command

from faultbridge.cli.app import COMMANDS, application
from infra.docs.markdown import page, table

INTRODUCTION = """\
Every command has `--help` with examples. `--json` prints one JSON document, `--jsonl` prints one JSON object per line.
Commands that use a stack find the stack named by `--stack` as follows: on AWS, if `--region`, `--profile` or
`--endpoint-url` is given, or if `AWS_PROFILE`, `AWS_ACCESS_KEY_ID` or `AWS_ENDPOINT_URL` is set to values other than
those of `faultbridge env`; else the embedded stack, if it is running; else on AWS, with the default credentials.

A command that destroys or gives up something asks first; `--yes` confirms in advance, and without a terminal it is
required. These commands have that option; no other command asks. An approval (`case approve`) is itself the answer to a
question. `down`, `up --fresh` and `demo --fresh` delete only test data, so a script needs no `--yes` for them.

Exit codes: 0 success; 1 the check that the command makes found a problem; 2 wrong usage; 65 unreadable input; 69 the
stack cannot be reached; 70 an internal error; 75 a temporary failure, safe to retry; 130 interrupted by Ctrl-C."""


def generate() -> str:
    """Return the reference page of all commands."""
    groups = [(name, _command(name), row.help) for name, row in COMMANDS.items()]
    summary = table(["command", "purpose"], [(f"[`{name}`](#{name})", purpose) for name, _, purpose in groups])
    sections = [section for name, command, purpose in groups for section in _group(name, command, purpose)]
    return page("Command line", INTRODUCTION, summary, *sections)


def _command(name: str) -> Any:  # noqa: ANN401 - a click command, whose package has no public types here
    root: Any = get_command(application([name]))
    return root.commands[name]


def _group(name: str, command: Any, purpose: str) -> Iterator[str]:  # noqa: ANN401 - as above
    yield f"## {name}"
    verbs = getattr(command, "commands", None)
    if not verbs:
        yield from _one(f"faultbridge {name}", command)
        return
    yield purpose
    if command.invoke_without_command:
        yield from _one(f"faultbridge {name}", command)
    for verb, one in verbs.items():
        yield f"### {name} {verb}"
        yield from _one(f"faultbridge {name} {verb}", one)


def _one(path: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    yield inspect.cleandoc(command.help or "")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    yield table(["argument", "meaning"], [_row(one, context) for one in arguments])
    yield table(["option", "meaning"], [_row(one, context) for one in options])
    if command.epilog:
        yield "\n".join(_examples(command.epilog))


def _row(parameter: Any, context: Any) -> tuple[str, str]:  # noqa: ANN401 - as above
    """Return the names and the help text of a parameter, as `--help` shows them."""
    names, text = parameter.get_help_record(context)
    return f"`{names}`", text


def _examples(epilog: str) -> Iterator[str]:
    label, _, rest = epilog.partition(":")
    yield f"{label}:\n"
    yield "```text"
    yield dedent(rest).strip()
    yield "```"
