"""Contexts: stored stacks, the one in use, and the line that says which stack answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.cli.stack.locate import Target, context_target, read_contexts
from tests.builders import KEY
from tests.cli.desk import Desk


@pytest.fixture(autouse=True)
def contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "faultbridge" / "contexts.json"
    monkeypatch.setenv("FAULTBRIDGE_CONTEXTS", str(file))
    return file


def test_a_context_is_stored_used_and_listed(desk: Desk, contexts: Path) -> None:
    used = desk("context", "use", "prod", "--region", "eu-west-1", "--profile", "ops")
    assert used.code == 0
    assert contexts.stat().st_mode & 0o077 == 0, "only its owner reads it"
    assert context_target(None) == Target(region="eu-west-1", profile="ops", context="prod")
    desk("context", "use", "lab", "--region", "us-east-1", "--stack", "lab")
    (lab, prod) = sorted(desk.json("context", "list"), key=lambda one: one["context"])
    assert (lab["current"], lab["stack"], prod["current"]) == (True, "lab", False)
    assert desk.json("context", "use", "prod")["region"] == "eu-west-1"


def test_a_context_ends_and_an_unknown_one_is_wrong_usage_with_the_closest_name(desk: Desk) -> None:
    desk("context", "use", "prod", "--region", "eu-west-1")
    desk("context", "use", "-")
    assert read_contexts()[0] is None
    assert context_target(None) is None
    ran = desk("case", "list", "--context", "prof")
    assert (ran.code, "unknown context: prof; did you mean prod?" in ran.err) == (2, True)


def test_the_options_of_a_stack_precede_the_context(desk: Desk) -> None:
    desk("context", "use", "prod", "--region", "eu-west-1")
    assert "context prod: stack faultbridge (eu-west-1)" in desk("cluster", "add", "train-x").err
    assert (
        "faultbridge: stack faultbridge (us-west-2)" in desk("cluster", "add", "train-y", "--region", "us-west-2").err
    )
    assert desk("cluster", "list").err == "", "a command that reads does not name the stack"


def test_a_damaged_file_of_contexts_is_named(desk: Desk, contexts: Path) -> None:
    contexts.parent.mkdir()
    contexts.write_text("[]")
    ran = desk("case", "list")
    assert (ran.code, str(contexts) in ran.err) == (69, True)


def test_without_a_command_the_stack_its_clusters_and_what_needs_you_are_shown(desk: Desk) -> None:
    quiet = desk()
    assert (quiet.code, "Nothing waits for you." in quiet.out) == (0, True)
    assert KEY.cluster in quiet.out
    desk("node", "quarantine", KEY.node, "--cluster", KEY.cluster)
    ran = desk()
    assert "Needs you (1)" in ran.out
    assert f"faultbridge node return {KEY.node} --cluster {KEY.cluster}" in ran.out
    document = desk.json()
    assert [one["cluster"] for one in document["clusters"]] == [KEY.cluster]
    assert [one["node"] for one in document["needs_you"]] == [KEY.node]


@pytest.mark.parametrize("chosen", ["json", "jsonl", "yaml", "table", "wide"])
def test_each_format_of_the_output_is_chosen_by_one_option(desk: Desk, chosen: str) -> None:
    ran = desk("cluster", "list", "-o", chosen)
    assert ran.code == 0
    begins = {"json": "[", "jsonl": '{"cluster"', "yaml": "- cluster: train-a", "table": "CLUSTER", "wide": "CLUSTER"}
    assert ran.out.startswith(begins[chosen])


def test_two_formats_are_wrong_usage(desk: Desk) -> None:
    assert desk("cluster", "list", "-o", "yaml", "--json").code == 2
