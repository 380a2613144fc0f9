"""Policies on the command line: effective values, weaker policies, stored versions, and the packaged policy."""

from __future__ import annotations

import io
import json

import pytest

from faultbridge.cli.render.output import Columns, Document
from faultbridge.cli.render.times import short_time
from faultbridge.cli.stack.session import Session
from faultbridge.decode.data.policies import default_document
from faultbridge.model.times import from_text, to_text
from faultbridge.serve.ingest.caches import DEFAULT_TTL
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk

STRICT = "breakers: [{scope: cluster, nodes: 5, percent: 20}, {scope: domain, nodes: 4, percent: 50}]\n"
PACKAGED = default_document()["version"]


class Terminal(io.TextIOWrapper):
    """Standard input of a terminal."""

    def isatty(self) -> bool:
        return True


def put(desk: Desk, text: str, *options: str) -> str:
    return str(desk.json("policy", "put", "-", *options, given=text)["version"])


def test_check_prints_each_effective_value_with_its_origin(desk: Desk) -> None:
    checked = desk.json("policy", "check", "-", given="limits: {concurrent: 4}")
    assert {"rule": None, "field": "limits.concurrent", "value": "4", "origin": "file"} in checked
    assert {"rule": None, "field": "limits.probation", "value": "1d", "origin": "default"} in checked
    assert "breakers" in {one["field"] for one in checked}
    printed = desk("policy", "check", "-", given="limits: {concurrent: 4}")
    assert "is valid" in printed.err
    assert "limits.concurrent" in printed.out


def test_the_schema_is_printed_for_editors(desk: Desk) -> None:
    printed = json.loads(desk("policy", "schema").out)
    assert printed["$id"] == "urn:faultbridge:input:policy:1"


def test_a_weaker_policy_needs_yes_without_a_terminal(desk: Desk) -> None:
    refused = desk("policy", "put", "-", given="limits: {concurrent: 9}")
    assert refused.code == 2
    assert "the cluster breaker is dropped" in refused.err
    assert "limits.concurrent: 2 before, 9 now" in refused.err
    assert "--yes" in refused.err.splitlines()[-1]
    assert desk.json("policy", "show")["version"] == PACKAGED
    version = put(desk, "limits: {concurrent: 9}", "--yes")
    assert desk.json("policy", "show")["version"] == version


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_a_weaker_policy_is_asked_about_on_a_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: object, answer: str, code: int
) -> None:
    file = f"{tmp_path}/policy.yaml"
    with open(file, "w", encoding="utf-8") as written:  # noqa: PTH123
        written.write("limits: {concurrent: 9}")
    monkeypatch.setattr(io, "TextIOWrapper", Terminal)
    asked = desk("policy", "put", file, given=answer)
    assert asked.code == code
    assert "Continue?" in asked.err
    assert (desk.json("policy", "show")["version"] == PACKAGED) is (code == 2)


def test_a_stricter_policy_is_not_asked_about(desk: Desk) -> None:
    version = put(desk, STRICT + "limits: {concurrent: 1}")
    assert desk.json("policy", "show")["version"] == version


def test_the_list_names_current_version_operator_and_clusters(desk: Desk) -> None:
    first = put(desk, STRICT + "limits: {concurrent: 1}")
    second = put(desk, STRICT, "--yes")
    desk.json("cluster", "set", KEY.cluster, "--policy", first)
    rows = {one["version"]: one for one in desk.json("policy", "list")}
    assert set(rows) == {first, second, PACKAGED}
    assert [one for one in rows if rows[one]["current"]] == [second]
    assert rows[first]["clusters"] == [KEY.cluster]
    assert rows[second]["put_by"] == OPERATOR
    assert rows[PACKAGED]["packaged"]
    assert rows[PACKAGED]["put_at"] is None


def test_a_cluster_names_only_a_policy_that_exists(desk: Desk) -> None:
    stored = put(desk, STRICT + "limits: {concurrent: 1}")
    refused = desk("cluster", "set", KEY.cluster, "--policy", stored[:-1])
    assert (refused.code, f"unknown policy: {stored[:-1]}; did you mean {stored}?" in refused.err) == (2, True)
    assert desk.json("cluster", "show", KEY.cluster)["policy"] is None
    for version in (PACKAGED, stored, ""):
        desk.json("cluster", "set", KEY.cluster, "--policy", version)
        assert desk.json("cluster", "show", KEY.cluster)["policy"] == version
    assert "the current version" in desk("cluster", "show", KEY.cluster).out


def test_reset_returns_to_the_packaged_policy_and_keeps_the_versions(desk: Desk) -> None:
    assert desk.json("policy", "reset")["version"] == PACKAGED
    version = put(desk, STRICT + "limits: {concurrent: 2}")
    assert desk.json("policy", "reset")["version"] == PACKAGED
    assert desk.json("policy", "show")["version"] == PACKAGED
    assert version in {one["version"] for one in desk.json("policy", "list")}


def test_a_reset_that_weakens_a_limit_needs_yes_without_a_terminal(desk: Desk) -> None:
    version = put(desk, STRICT + "limits: {concurrent: 1}")
    refused = desk("policy", "reset")
    assert refused.code == 2
    assert "limits.concurrent: 1 before, 2 now" in refused.err
    assert desk.json("policy", "show")["version"] == version
    assert desk.json("policy", "reset", "--yes")["version"] == PACKAGED


def test_put_and_reset_print_when_the_policy_applies_to_new_faults(desk: Desk) -> None:
    strict = STRICT + "limits: {concurrent: 1}"
    desk.world.outcomes(desk.world.message())  # ingest has read the policy before
    published = desk.json("policy", "put", "-", given=strict)
    applies_at = from_text(published["applies_at"])
    assert applies_at - desk.world.now == DEFAULT_TTL
    desk.world.ports.clock.advance_to(applies_at)
    desk.world.register_node("n-2")
    desk.world.outcomes(desk.world.message(node="n-2"))
    (case,) = [one for one in desk.json("case", "list", "--all") if one["node"] == "n-2"]
    assert case["policy"] == published["version"]
    ran = desk("policy", "reset", "--yes")
    applies_at = short_time(to_text(desk.world.now + DEFAULT_TTL))
    assert f"Applies  to every fault from {applies_at} UTC on\n" in ran.out
    assert "a fault before that time may still follow the policy before it" in ran.err


def test_a_shadow_policy_is_set_shown_listed_and_removed(desk: Desk) -> None:
    assert desk.json("policy", "shadow")["version"] is None
    version = desk.json("policy", "shadow", "-", given="limits: {concurrent: 1}")["version"]
    assert desk.json("policy", "shadow")["version"] == version
    rows = {one["version"]: one for one in desk.json("policy", "list")}
    assert (rows[version]["shadow"], rows[version]["current"], rows[PACKAGED]["current"]) == (True, False, True)
    assert desk.json("policy", "shadow", "--off")["version"] is None
    assert not any(one["shadow"] for one in desk.json("policy", "list"))
    refused = desk("policy", "shadow", "-", "--off", given="limits: {concurrent: 1}")
    assert (refused.code, "not both" in refused.err) == (2, True)


def test_put_with_wait_succeeds_even_if_the_policy_applies_before_the_wait_starts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    show_one = Session.show_one

    def show_slowly(session: Session, document: Document, columns: Columns) -> None:
        show_one(session, document, columns)
        desk.world.ports.clock.advance(DEFAULT_TTL.total_seconds() + 1)

    def sleep(seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        slept.append(seconds)

    monkeypatch.setattr("faultbridge.cli.commands.policy.policy.time.sleep", sleep)
    ran = desk("policy", "put", "-", "--yes", "--wait", given=STRICT)
    assert (ran.code, slept) == (0, [DEFAULT_TTL.total_seconds()])
    monkeypatch.setattr(Session, "show_one", show_slowly)
    ran = desk("policy", "put", "-", "--yes", "--wait", given=STRICT)
    assert (ran.code, slept[1:]) == (0, [0])
