"""Everyday use: the default cluster, completion, short help, and watching a case."""

from __future__ import annotations

import json

import pytest

from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.sweep import wire_send_canary
from faultbridge.serve.wiring.services import wire_case_orders, wire_retirement
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk
from tests.cli.orders import case_for_approval

CLUSTER, NODE = KEY


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
    assert [one["cluster"] for one in desk.json("gpus")] == ["empty"]
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", "nowhere")
    for command in (("gpus",), ("finding", "list"), ("finding", "precision")):
        assert "unknown cluster: nowhere" in desk(*command).err


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
    monkeypatch.setenv("_FAULTBRIDGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert {line.partition(",")[2] for line in desk().out.splitlines()} == completions


def test_a_case_is_watched_until_an_operator_must_act(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)

    def deny(_seconds: float) -> None:
        wire_case_orders(desk.world.app).deny(case, OperatorOrder(OPERATOR, "needed"), None)

    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", deny)
    ran = desk("case", "watch", case, "--jsonl")
    assert ran.code == 1
    assert [json.loads(line)["data"].get("to") for line in ran.out.splitlines()][-1] == "escalated"


def test_a_case_is_watched_until_it_is_resolved(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)

    def clear(_seconds: float) -> None:
        wire_retirement(desk.world.app).retire(KEY, OperatorOrder(OPERATOR, "removed"))

    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", clear)
    ran = desk("case", "watch", case)
    assert "case resolved; `faultbridge case show" in ran.err
    assert ran.code == 0


def test_the_cluster_of_test_records_is_explained_where_it_is_listed(desk: Desk) -> None:
    assert desk("cluster", "list").err == ""
    wire_send_canary(desk.world.app).send()
    assert "faultbridge-canary" in {one["cluster"] for one in desk.json("cluster", "list")}
    assert "faultbridge-canary has no nodes" in desk("cluster", "list").err
