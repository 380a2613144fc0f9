"""Everyday use: confirmation, the default cluster, completion, short help, and watching a case."""

from __future__ import annotations

import json
import sys

import pytest

from faultbridge import local
from faultbridge.cli.app import run
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk
from tests.cli.test_orders import case_for_approval
from tests.cli.test_reported_problems import Terminal

CLUSTER, NODE = KEY


def typed(desk: Desk, monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> tuple[int, str]:
    """The exit code and the messages of a command on a terminal where a user types a line."""
    monkeypatch.setattr(sys, "stdin", Terminal(text))
    desk._capture.readouterr()
    code = run(arguments)
    return code, desk._capture.readouterr()[1].decode()


DESTRUCTIVE = (
    ("node", "retire", NODE, "--cluster", CLUSTER),
    ("node", "replace", NODE, "--cluster", CLUSTER),
    ("breaker", "--cluster", CLUSTER, "--close"),
    ("recover",),
    ("erase", CLUSTER),
)


@pytest.mark.parametrize("arguments", DESTRUCTIVE, ids=" ".join)
def test_a_destructive_command_asks_on_a_terminal_and_any_answer_but_yes_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    before = desk("timeline", "--cluster", CLUSTER, "--json").document
    for answer in ("", "\n", "n\n", "yesterday\n"):
        code, err = typed(desk, monkeypatch, answer, *arguments)
        assert (code, "Continue? [y/N]" in err, "nothing was changed" in err) == (2, True, True)
    assert desk("timeline", "--cluster", CLUSTER, "--json").document == before


@pytest.mark.parametrize(("answer", "option"), [("y\n", ()), ("", ("--yes",))])
def test_yes_confirms_by_answer_or_by_option(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, answer: str, option: tuple[str, ...]
) -> None:
    code, err = typed(desk, monkeypatch, answer, "node", "retire", NODE, "--cluster", CLUSTER, *option)
    assert (code, "Continue?" in err) == (0, not option)
    assert desk.json("node", "show", NODE, "--cluster", CLUSTER)["status"] == "retired"


def test_down_asks_before_it_deletes_a_running_stack(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(local, "stack_info", lambda stack: stack)
    monkeypatch.setattr(local, "down", lambda stack, progress: stopped.append(stack) or True)
    assert typed(desk, monkeypatch, "n\n", "down")[0] == 2
    assert stopped == []
    assert typed(desk, monkeypatch, "y\n", "down")[0] == 0
    assert stopped == ["faultbridge"]


def test_the_environment_gives_the_default_cluster(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.json("cluster", "add", "empty")
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", CLUSTER)
    assert [one["node"] for one in desk.json("node", "list")] == [NODE]
    assert desk.json("timeline")[0]["metadata"]["cluster"] == CLUSTER
    assert desk.json("node", "list", "--cluster", "empty") == []
    case = case_for_approval(desk)
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", "empty")
    assert desk.json("case", "list") == []
    assert desk.json("timeline", "--case", case) != []


@pytest.mark.parametrize("arguments", [("-h",), ("case", "-h"), ("case", "list", "-h"), ("decode", "-h")])
def test_the_short_option_prints_the_help(desk: Desk, arguments: tuple[str, ...]) -> None:
    ran = desk(*arguments)
    assert (ran.code, ran.out) == (0, desk(*arguments[:-1], "--help").out)


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("faultbridge ca", {"case", "catalog"}),
        ("faultbridge case wa", {"watch"}),
        ("faultbridge decode --rec", {"--received-at"}),
    ],
)
def test_a_shell_completes_commands_verbs_and_options(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str, completions: set[str]
) -> None:
    monkeypatch.setenv("_FAULTBRIDGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert set(desk().out.split()) == completions


def test_a_case_is_watched_until_an_operator_must_act(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)

    def deny(_seconds: float) -> None:
        desk.world.app.repair.case_orders.deny(case, OperatorOrder(OPERATOR, "needed"), None)

    monkeypatch.setattr("faultbridge.cli.commands.fleet.case.time.sleep", deny)
    ran = desk("case", "watch", case, "--jsonl")
    assert ran.code == 1
    assert [json.loads(line)["data"].get("to") for line in ran.out.splitlines()][-1] == "escalated"


def test_a_case_is_watched_until_it_is_resolved(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)

    def clear(_seconds: float) -> None:
        desk.world.app.registry.retirement(KEY, OperatorOrder(OPERATOR, "removed"))

    monkeypatch.setattr("faultbridge.cli.commands.fleet.case.time.sleep", clear)
    ran = desk("case", "watch", case)
    assert "case resolved; `faultbridge case show" in ran.err
    assert ran.code == 0


def test_an_unknown_case_is_not_watched(desk: Desk) -> None:
    assert desk("case", "watch", "c-unknown").code == 2
