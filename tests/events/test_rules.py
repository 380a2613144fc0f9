"""Rules that customers start from, on a matcher of EventBridge patterns."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.cli.app import run
from faultbridge.cli.rules.cloudformation import template, template_text
from faultbridge.cli.rules.pattern_check import pattern_problems
from faultbridge.cli.rules.rule_file import matcher, read_rule
from faultbridge.errors import Rejected
from tests.events.patterns import PATTERNS, Wanted, envelope
from tests.events.samples import FILES, ROOT, label

RULES = sorted((ROOT / "rules").glob("*.yaml"))


@pytest.mark.parametrize("wanted", PATTERNS, ids=lambda one: one.name)
def test_a_pattern_picks_exactly_the_samples_that_it_should(wanted: Wanted) -> None:
    matches = matcher(wanted.pattern)
    assert {label(path) for path in FILES if matches(envelope(path))} == wanted.matches
    assert pattern_problems(wanted.pattern) == []


def embedded_bus_takes(pattern: Mapping[str, Any], event: dict[str, Any]) -> bool:
    """Whether the embedded stack's bus would deliver the event: its own TestEventPattern, without a server."""
    from ministack.services import eventbridge

    asked = {"EventPattern": json.dumps(pattern), "Event": json.dumps(event)}
    status, _, body = eventbridge._test_event_pattern(asked)
    assert status == 200, body
    return bool(json.loads(body)["Result"])


@pytest.mark.parametrize("wanted", PATTERNS, ids=lambda one: one.name)
def test_the_embedded_bus_picks_the_same_samples(wanted: Wanted) -> None:
    events = {label(path): envelope(path) for path in FILES}
    assert {name for name, event in events.items() if embedded_bus_takes(wanted.pattern, event)} == wanted.matches


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_the_embedded_bus_agrees_on_the_golden_cases(path: Path) -> None:
    rule = read_rule(path)
    assert all(embedded_bus_takes(rule.pattern, case.envelope()) for case in rule.cases.must)
    assert not any(embedded_bus_takes(rule.pattern, case.envelope()) for case in rule.cases.must_not)


def test_every_rule_of_ours_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert RULES
    assert run(["rule", "test", str(ROOT / "rules")]) == 0
    assert capsys.readouterr().out.count(" ok") == len(RULES)


UNREAD = {"everything-to-a-log", "hyperpod-beside-ours"}
"""Rules whose targets keep what they do not understand, or look at no field of ours."""


@pytest.mark.parametrize("path", [path for path in RULES if path.stem not in UNREAD], ids=lambda path: path.stem)
def test_a_rule_keeps_to_the_major_version_that_it_was_written_for(path: Path) -> None:
    assert read_rule(path).pattern["detail"]["metadata"]["schema_version"] == [{"prefix": "1."}]


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a folder with one rule, the shipped one with changes."""

    def write(text: str | None = None, **changes: Any) -> Path:
        rule = yaml.safe_load((ROOT / "rules" / "page-on-fatal.yaml").read_text(encoding="utf-8"))
        name = tmp_path / "page-on-fatal.yaml"
        name.write_text(text if text is not None else yaml.safe_dump({**rule, **changes}), encoding="utf-8")
        return tmp_path

    return write


TYPO = {"source": ["faultbridge"], "detail-type": ["Node Fault Detected"], "detail": {"data": {"severty": ["fatal"]}}}
WORD = {"source": ["faultbridge"], "detail-type": ["Node Fault Detected"], "detail": {"data": {"severity": ["bad"]}}}
TYPE = {"source": ["faultbridge"], "detail-type": ["Node Fault Found"]}
WIDE = {"source": ["faultbridge"]}
LONG = {"source": ["faultbridge"], "detail": {"metadata": {"node": [f"gpu-{i:04d}" for i in range(300)]}}}


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (TYPO, "unknown field: detail.data.severty"),
        (WORD, "unknown value of detail.data.severity: 'bad'; allowed: info, warning, error, fatal"),
        (TYPE, "unknown detail-type: 'Node Fault Found'"),
        (WIDE, "must not match, but does: a warning"),
        (LONG, "EventBridge allows 2048"),
    ],
    ids=["misspelt field", "misspelt word", "misspelt type", "too wide", "too long"],
)
def test_a_wrong_rule_is_named_with_what_is_wrong(
    folder: Callable[..., Path], pattern: dict[str, Any], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "test", str(folder(pattern=pattern))]) == 1
    told = capsys.readouterr()
    assert problem in told.out
    assert told.err.startswith("faultbridge: 1 of 1 rules fail: page-on-fatal: ")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"$or": [{"too": ["escalated"]}, {"kind": ["approval"]}]}, "unknown field: detail.data.too"),
        ({"to": ["failed", "escalatd"]}, "unknown value of detail.data.to: 'escalatd'"),
        ({"$or": [{"kind": ["approvl"]}]}, "unknown value of detail.data.kind: 'approvl'"),
    ],
)
def test_a_rule_on_several_events_may_name_fields_and_words_of_each_but_of_none_only(
    data: dict[str, Any], problem: str
) -> None:
    types = ["Node Status Change", "Case Status Change", "Node Note Recorded"]
    found = pattern_problems({"source": ["faultbridge"], "detail-type": types, "detail": {"data": data}})
    assert found
    assert all(problem in one for one in found)


def test_a_rule_on_events_of_aws_is_not_held_to_our_fields() -> None:
    assert pattern_problems({"source": ["aws.sagemaker"], "detail": {"HealthStatus": ["Unhealthy"]}}) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "expected the node content"),
        ("[]", "the file: Input should be a valid dictionary"),
        ("name: page-on-fatal", "purpose: Field required"),
    ],
)
def test_a_file_that_is_no_rule_is_refused_in_one_line(
    folder: Callable[..., Path], text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "test", str(folder(text))]) == 65
    told = capsys.readouterr().err
    assert problem in told
    assert told.count("\n") == 1


def test_a_rule_is_named_as_its_file_and_proves_both_directions(folder: Callable[..., Path]) -> None:
    path = folder(name="other") / "page-on-fatal.yaml"
    with pytest.raises(Rejected, match="wrong rule name"):
        read_rule(path)
    folder(cases={"must": [{"says": "x", "event": {}}], "must_not": []})
    with pytest.raises(Rejected, match="must_not"):
        read_rule(path)


def test_the_template_of_our_rules_is_the_one_that_the_command_writes() -> None:
    rules = [read_rule(path) for path in RULES]
    written = (ROOT / "infra" / "rules.yaml").read_text(encoding="utf-8")
    assert template_text(rules, "rules", "rules.yaml") == written, "faultbridge rule template rules -o infra/rules.yaml"


def test_the_template_holds_every_rule_with_a_target_of_its_own_and_dead_letters() -> None:
    found = template([read_rule(path) for path in RULES])
    rules = {name: body for name, body in found["Resources"].items() if body["Type"] == "AWS::Events::Rule"}
    assert len(rules) == len(RULES) + 1, "one stands on two buses"
    for name, rule in rules.items():
        (target,) = rule["Properties"]["Targets"]
        assert target["Arn"]["Ref"] in found["Parameters"]
        assert rule["Condition"] in found["Conditions"]
        assert "DeadLetterConfig" in target
        assert {"Ref": "EventSource"} in rule["Properties"]["EventPattern"]["source"], name
    assert "EventBusName" not in rules["HyperpodBesideOursOnDefaultBus"]["Properties"]


def test_a_folder_of_a_customer_is_made_a_template_in_the_same_way(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "template", str(folder())]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert set(printed["Resources"]) == {"DeadLetters", "DeadLettersPolicy", "PageOnFatal"}
    into = tmp_path / "mine.template"
    assert run(["rule", "template", str(tmp_path), "--output", str(into)]) == 0
    assert yaml.safe_load(into.read_text(encoding="utf-8")) == printed


def test_two_rules_of_one_name_are_no_template() -> None:
    rule = read_rule(RULES[0])
    with pytest.raises(Rejected, match="duplicate rule name"):
        template([rule, rule])


def test_a_pattern_that_eventbridge_would_refuse_is_refused(folder: Callable[..., Path]) -> None:
    assert run(["rule", "test", str(folder(pattern={"source": "faultbridge"}))]) == 65


def test_an_empty_folder_is_wrong_usage(tmp_path: Path) -> None:
    assert run(["rule", "test", str(tmp_path)]) == 2


def test_without_the_local_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without_moto(name: str, *others: Any) -> Any:
        if name.startswith("moto"):
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without_moto)
    assert run(["rule", "test", str(ROOT / "rules")]) == 69
    assert "pip install 'faultbridge[local]'" in capsys.readouterr().err
