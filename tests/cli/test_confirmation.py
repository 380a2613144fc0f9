"""One rule: a command asks if it destroys or gives up something, and `--yes` confirms. No other command has `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import pytest

from faultbridge import local
from faultbridge.cli.app import COMMANDS, application, run
from faultbridge.model.errors import Misconfigured
from tests.builders import KEY
from tests.cli.builders import Terminal
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval

CLUSTER, NODE = KEY
ASKING = {
    "node retire": (NODE, "--cluster", CLUSTER),
    "node replace": (NODE, "--cluster", CLUSTER),
    "breaker": ("--cluster", CLUSTER, "--close"),
    "pause": ("--all",),
    "resume": ("--all",),
    "restore": ("--from", "backup"),
    "recover": (),
    "erase": (CLUSTER,),
}
ASKING_WHEN_STORED = {"policy put", "policy reset", "webhook add", "webhook remove"}
"""Their questions depend on what is stored: test_policy.py and test_webhook.py."""
ON_AWS = {"deploy", "destroy", "connect asg", "connect eks", "connect hyperpod", "connect slurm"}
"""They ask about an account: tests/install."""
EMBEDDED = {"up", "down", "demo"}
"""They delete only test data, so a script needs no `--yes`."""


def typed(desk: Desk, monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> tuple[int, str]:
    """The exit code and the messages of a command on a terminal where a user types a line."""
    monkeypatch.setattr(sys, "stdin", Terminal(text))
    desk._capture.readouterr()
    code = run(arguments)
    return code, desk._capture.readouterr()[1].decode()


def commands_with_yes() -> Iterator[str]:
    for name in COMMANDS:
        root = application()
        command: Any = root.get_command(click.Context(root), name)
        verbs = getattr(command, "commands", None) or {"": command}
        for verb, one in verbs.items():
            if any("--yes" in parameter.opts for parameter in one.params):
                yield f"{name} {verb}".strip()


def test_exactly_the_commands_that_ask_have_the_option() -> None:
    assert set(commands_with_yes()) == ASKING.keys() | ASKING_WHEN_STORED | ON_AWS | EMBEDDED


@pytest.mark.parametrize("command", ASKING)
def test_on_a_terminal_any_answer_but_yes_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    before = desk("timeline", "--cluster", CLUSTER, "--json").document
    for answer in ("", "\n", "n\n", "yesterday\n"):
        code, err = typed(desk, monkeypatch, answer, *command.split(), *ASKING[command])
        assert (code, "Continue? [y/N]" in err, "nothing was changed" in err) == (2, True, True)
    assert desk("timeline", "--cluster", CLUSTER, "--json").document == before


@pytest.mark.parametrize("command", ASKING)
def test_without_a_terminal_one_line_names_the_option_and_nothing_changes(desk: Desk, command: str) -> None:
    before = desk("timeline", "--cluster", CLUSTER, "--json").document
    ran = desk(*command.split(), *ASKING[command])
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert "not confirmed: " in line
    assert "--yes" in line
    assert desk("timeline", "--cluster", CLUSTER, "--json").document == before


@pytest.mark.parametrize(("answer", "option"), [("y\n", ()), ("", ("--yes",))])
def test_yes_confirms_by_answer_or_by_option(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, answer: str, option: tuple[str, ...]
) -> None:
    code, err = typed(desk, monkeypatch, answer, "node", "retire", NODE, "--cluster", CLUSTER, *option)
    assert (code, "Continue?" in err) == (0, not option)
    assert desk.json("node", "show", NODE, "--cluster", CLUSTER)["status"] == "retired"


@pytest.mark.parametrize("command", ["restore", "recover", "erase"])
def test_a_question_about_a_table_names_its_stack_and_region(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    options = ("--stack", "prod", "--region", "eu-west-1")
    _, err = typed(desk, monkeypatch, "n\n", command, *ASKING[command], *options)
    assert "in stack prod (eu-west-1)" in err


def test_the_demo_asks_before_it_deletes_a_running_stack(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def start(stack: str, **_options: object) -> None:
        started.append(stack)
        raise Misconfigured("no emulator")

    monkeypatch.setattr(local, "stack_info", lambda stack: stack)
    monkeypatch.setattr("faultbridge.cli.commands.embedded.demo.play", start)
    assert typed(desk, monkeypatch, "n\n", "demo", "--fresh")[0] == 2
    assert started == []
    assert typed(desk, monkeypatch, "y\n", "demo", "--fresh")[0] == 69
    assert desk("demo", "--fresh").code == 69
    assert typed(desk, monkeypatch, "", "demo")[0] == 69
    assert started == ["faultbridge"] * 3


def test_an_order_that_can_be_undone_does_not_ask(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("quarantine", "return"):
        code, err = typed(desk, monkeypatch, "", "node", verb, NODE, "--cluster", CLUSTER)
        assert (code, "Continue?" in err) == (0, False)
        assert "No such option" in desk("node", verb, NODE, "--cluster", CLUSTER, "--yes").err


def test_an_approval_is_itself_the_answer_and_is_not_asked_about(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)
    code, err = typed(desk, monkeypatch, "", "case", "approve", case)
    assert (code, "Continue?" in err) == (0, False)


@pytest.mark.parametrize("command", [("down",), ("up", "--fresh")])
def test_a_running_embedded_stack_is_deleted_after_a_question_on_a_terminal_and_at_once_by_a_script(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(local, "stack_info", lambda stack: stack)
    monkeypatch.setattr(local, "down", lambda stack, progress: done.append(stack) or True)
    monkeypatch.setattr(local, "up", lambda fresh, progress, stack: done.append(stack) or SimpleNamespace(as_json=dict))
    assert typed(desk, monkeypatch, "n\n", *command)[0] == 2
    assert done == []
    assert typed(desk, monkeypatch, "y\n", *command, "--json")[0] == 0
    assert desk(*command, "--json").code == 0
    assert done == ["faultbridge"] * 2
