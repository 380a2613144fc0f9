"""Generates the command-line reference from the live command tree: one page a group of commands."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from textwrap import dedent
from typing import Any

import click

from faultbridge.cli.app import COMMANDS, application
from infra.docs.markdown import page, table

FOLDER = "cli/"
INTRODUCTION = """\
Every command has `--help` (`-h`) with examples. `-o` chooses the format: `table`, `wide`, `json`, `jsonl` or
`yaml`. `--json` prints one JSON document, `--jsonl` prints one JSON object per line. Tables fit the terminal, and
`--wide` prints all columns. `eval "$(faultbridge --show-completion bash)"` completes commands in your shell.

`faultbridge` alone shows the current stack and what waits for you. `faultbridge context use` names a stack that later
commands use; `--context` and the options of a stack precede it. A command that changes something ends with a line on
stderr that names the stack. Times are local on a terminal, and UTC in files, pipes and JSON.

Without a context, commands that use a stack find the stack named by `--stack` as follows: on AWS, if `--region`,
`--profile` or `--endpoint-url` is given, or if `AWS_PROFILE`, `AWS_ACCESS_KEY_ID` or `AWS_ENDPOINT_URL` is set to
values other than those of `faultbridge env`; else the embedded stack, if it is running; else on AWS, with the default
credentials.

A command that destroys or gives up something asks first; `--yes` confirms in advance, and without a terminal it is
required. These commands have that option; no other command asks. An approval (`case approve`) is itself the answer to a
question. `down`, `up --fresh` and `demo --fresh` delete only test data, so a script needs no `--yes` for them.

Exit codes: 0 success; 1 the check that the command makes found a problem; 2 wrong usage; 65 unreadable input; 69 the
stack cannot be reached; 70 an internal error; 75 a temporary failure, safe to retry; 130 interrupted by Ctrl-C."""
OF_STACK = ("stack", "endpoint_url", "region", "profile", "context")
OF_OUTPUT = ("output", "as_json", "as_jsonl", "wide")
SHARED = """\
A command that works on a stack has all of these options. A command that works without one has those of the output:
`-o`, `--json`, `--jsonl` and `--wide`."""
AREAS = {
    "offline": ("offline-commands", "Offline commands"),
    "embedded": ("embedded-commands", "Commands of the embedded stack"),
    "install": ("install-commands", "Commands that install and connect"),
    "fleet": ("fleet-commands", "Commands about the whole fleet"),
    "policy": ("policy-commands", "Policy commands"),
    "records": ("record-commands", "Commands for records and the timeline"),
}
"""The page and the title of the commands without verbs, by the package of their module."""


def pages() -> dict[str, Callable[[], str]]:
    """Return the function that generates each page, by file name: the overview, each noun, and the commands by area."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in COMMANDS:
        groups[_page_of(name)].append(name)
    made: dict[str, Callable[[], str]] = {f"{FOLDER}index.md": overview}
    return made | {f"{FOLDER}{stem}.md": partial(group, stem, names) for stem, names in groups.items()}


def overview() -> str:
    """Return the page that lists all commands, with what holds for each of them."""
    rows = []
    for name, row in COMMANDS.items():
        verbs = " ".join(f"[`{verb}`]({name}.md#{name}-{verb})" for verb in _verbs(name))
        target = f"{name}.md" if verbs else f"{_page_of(name)}.md#{name}"
        rows.append((f"[`{name}`]({target})", row.help, verbs))
    commands = table(["command", "purpose", "verbs"], rows)
    return page("Command line", INTRODUCTION, commands, "## Shared options", SHARED, *_shared_options())


def _shared_options() -> Iterator[str]:
    command = _command("stuck")
    context = command.make_context("stuck", [], resilient_parsing=True)
    named = {one.name: one for one in command.params}
    yield table(["option", "meaning"], [_row(named[name], context) for name in (*OF_STACK, *OF_OUTPUT)])


def group(stem: str, names: list[str]) -> str:
    """Return the page of a noun with its verbs, or of the commands of an area."""
    if names == [stem]:
        return page(f"faultbridge {stem}", f"{COMMANDS[stem].help} [All commands](index.md)", *_noun(stem))
    title = next(title for page_name, title in AREAS.values() if page_name == stem)
    sections = [section for name in names for section in (f"## {name}", *_one(f"faultbridge {name}", _command(name)))]
    note = "[Command line](index.md) lists all commands and the exit codes, and says how a command finds its stack."
    return page(title, note, *sections)


@cache
def _command(name: str) -> Any:  # noqa: ANN401 - a command, or a group of commands
    root = application()
    return root.get_command(click.Context(root), name)


def _verbs(name: str) -> dict[str, Any]:
    return getattr(_command(name), "commands", None) or {}


def _page_of(name: str) -> str:
    return name if _verbs(name) else AREAS[COMMANDS[name].module.partition(".")[0]][0]


def _noun(name: str) -> Iterator[str]:
    for verb, command in _verbs(name).items():
        yield f"## {name} {verb}"
        yield from _one(f"faultbridge {name} {verb}", command)


def _one(path: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    yield inspect.cleandoc(command.help or "")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    names = {one.name for one in command.params}
    shared = {name for names_of in (OF_STACK, OF_OUTPUT) if names.issuperset(names_of) for name in names_of}
    options = [one for one in command.params if one.param_type_name == "option" and one.name not in shared]
    yield table(["argument", "meaning"], [_row(one, context) for one in arguments])
    yield table(["option", "meaning"], [_row(one, context) for one in options])
    if shared:
        of = "a stack and of the output" if "profile" in shared else "the output"
        yield f"Also the [options of {of}](index.md#shared-options)."
    if command.epilog:
        yield "\n".join(_examples(command.epilog))


def _row(parameter: Any, context: Any) -> tuple[str, str]:  # noqa: ANN401 - as above
    """Return the names and the help text of a parameter, as `--help` shows them."""
    names, text = parameter.get_help_record(context)
    return f"`{names}`", text


def _examples(epilog: str) -> Iterator[str]:
    label, _, rest = epilog.partition(":")
    yield f"{label.strip()}:\n"
    yield "```text"
    yield dedent(rest).strip()
    yield "```"
