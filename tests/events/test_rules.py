"""The packaged example rules, on a matcher of EventBridge patterns and on the embedded bus."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.cli.app import run
from faultbridge.cli.commands.offline.events import matcher, pattern_problems, read_rule, template, template_text
from faultbridge.model.errors import Rejected
from tests.events.patterns import PATTERNS, PatternCase, envelope
from tests.events.samples import FILES, ROOT, label

RULES = sorted((ROOT / "rules").glob("*.yaml"))


@pytest.mark.parametrize("case", PATTERNS, ids=lambda one: one.name)
def test_a_pattern_matches_exactly_the_expected_samples(case: PatternCase) -> None:
    matches = matcher(case.pattern)
    assert {label(path) for path in FILES if matches(envelope(path))} == case.matches
    assert pattern_problems(case.pattern) == []


def embedded_bus_matches(pattern: Mapping[str, Any], event: dict[str, Any]) -> bool:
    """Return whether the embedded bus would deliver the event: its own TestEventPattern, without a server."""
    from ministack.services import eventbridge

    asked = {"EventPattern": json.dumps(pattern), "Event": json.dumps(event)}
    status, _, body = eventbridge._test_event_pattern(asked)
    assert status == 200, body
    return bool(json.loads(body)["Result"])


@pytest.mark.parametrize("case", PATTERNS, ids=lambda one: one.name)
def test_the_embedded_bus_matches_the_same_samples(case: PatternCase) -> None:
    events = {label(path): envelope(path) for path in FILES}
    assert {name for name, event in events.items() if embedded_bus_matches(case.pattern, event)} == case.matches


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_the_embedded_bus_agrees_on_the_golden_cases(path: Path) -> None:
    rule = read_rule(path)
    assert all(embedded_bus_matches(rule.pattern, case.envelope()) for case in rule.cases.must)
    assert not any(embedded_bus_matches(rule.pattern, case.envelope()) for case in rule.cases.must_not)


def test_every_packaged_rule_passes_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert RULES
    assert run(["rule", "test", str(ROOT / "rules")]) == 0
    assert capsys.readouterr().out.count(" ok") == len(RULES)


ANY_VERSION = {"everything-to-a-log", "hyperpod-beside-ours"}
"""Rules whose targets accept every version, or match no field of Faultbridge."""


@pytest.mark.parametrize("path", [path for path in RULES if path.stem not in ANY_VERSION], ids=lambda path: path.stem)
def test_a_rule_matches_only_its_major_version(path: Path) -> None:
    assert read_rule(path).pattern["detail"]["metadata"]["schema_version"] == [{"prefix": "1."}]


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a folder with a changed packaged rule."""

    def write(text: str | None = None, **changes: Any) -> Path:
        rule = yaml.safe_load((ROOT / "rules" / "page-on-fatal.yaml").read_text(encoding="utf-8"))
        name = tmp_path / "page-on-fatal.yaml"
        name.write_text(text if text is not None else yaml.safe_dump({**rule, **changes}), encoding="utf-8")
        return tmp_path

    return write


UNKNOWN_FIELD = {
    "source": ["faultbridge"],
    "detail-type": ["Node Fault Detected"],
    "detail": {"data": {"severty": ["fatal"]}},
}
UNKNOWN_VALUE = {
    "source": ["faultbridge"],
    "detail-type": ["Node Fault Detected"],
    "detail": {"data": {"severity": ["bad"]}},
}
UNKNOWN_TYPE = {"source": ["faultbridge"], "detail-type": ["Node Fault Found"]}
TOO_WIDE = {"source": ["faultbridge"]}
TOO_LONG = {"source": ["faultbridge"], "detail": {"metadata": {"node": [f"gpu-{i:04d}" for i in range(300)]}}}


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (UNKNOWN_FIELD, "unknown field: detail.data.severty"),
        (UNKNOWN_VALUE, "unknown value of detail.data.severity: 'bad'; allowed: info, warning, error, fatal"),
        (UNKNOWN_TYPE, "unknown detail-type: 'Node Fault Found'"),
        (TOO_WIDE, "must not match, but does: a warning"),
        (TOO_LONG, "EventBridge allows 2048"),
    ],
    ids=["unknown field", "unknown value", "unknown type", "too wide", "too long"],
)
def test_an_invalid_rule_is_reported_with_its_problem(
    folder: Callable[..., Path], pattern: dict[str, Any], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "test", str(folder(pattern=pattern))]) == 1
    output = capsys.readouterr()
    assert problem in output.out
    assert output.err.startswith("faultbridge: 1 of 1 rules fail: page-on-fatal: ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"$or": [{"too": ["escalated"]}, {"kind": ["approval"]}]}, "unknown field: detail.data.too"),
        ({"to": ["failed", "escalatd"]}, "unknown value of detail.data.to: 'escalatd'"),
        ({"$or": [{"kind": ["approvl"]}]}, "unknown value of detail.data.kind: 'approvl'"),
    ],
)
def test_a_rule_on_several_events_may_use_the_fields_and_values_of_any_of_them(
    data: dict[str, Any], problem: str
) -> None:
    types = ["Node Status Change", "Case Status Change", "Node Note Recorded"]
    found = pattern_problems({"source": ["faultbridge"], "detail-type": types, "detail": {"data": data}})
    assert found
    assert all(problem in one for one in found)


def test_a_rule_on_aws_events_is_not_checked_against_our_fields() -> None:
    assert pattern_problems({"source": ["aws.sagemaker"], "detail": {"HealthStatus": ["Unhealthy"]}}) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "expected the node content"),
        ("[]", "the file: Input should be a valid dictionary"),
        ("name: page-on-fatal", "purpose: Field required"),
    ],
)
def test_an_invalid_rule_file_is_refused_in_one_line(
    folder: Callable[..., Path], text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "test", str(folder(text))]) == 65
    output = capsys.readouterr().err
    assert problem in output
    assert output.count("\n") == 1


def test_a_rule_has_the_name_of_its_file_and_cases_of_both_kinds(folder: Callable[..., Path]) -> None:
    path = folder(name="other") / "page-on-fatal.yaml"
    with pytest.raises(Rejected, match="wrong rule name"):
        read_rule(path)
    folder(cases={"must": [{"says": "x", "event": {}}], "must_not": []})
    with pytest.raises(Rejected, match="must_not"):
        read_rule(path)


def test_the_committed_template_is_up_to_date() -> None:
    rules = [read_rule(path) for path in RULES]
    written = (ROOT / "infra" / "rules.yaml").read_text(encoding="utf-8")
    assert template_text(rules, "rules", "rules.yaml") == written, "faultbridge rule template rules -o infra/rules.yaml"


def test_the_template_contains_every_rule_with_its_target_and_dead_letters() -> None:
    found = template([read_rule(path) for path in RULES])
    rules = {name: body for name, body in found["Resources"].items() if body["Type"] == "AWS::Events::Rule"}
    assert len(rules) == len(RULES) + 1, "one rule is on two buses"
    for name, rule in rules.items():
        (target,) = rule["Properties"]["Targets"]
        assert target["Arn"]["Ref"] in found["Parameters"]
        assert rule["Condition"] in found["Conditions"]
        assert "DeadLetterConfig" in target
        assert {"Ref": "EventSource"} in rule["Properties"]["EventPattern"]["source"], name
    assert "EventBusName" not in rules["HyperpodBesideOursOnDefaultBus"]["Properties"]


def test_a_template_is_written_for_another_folder(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rule", "template", str(folder())]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert set(printed["Resources"]) == {"DeadLetters", "DeadLettersPolicy", "PageOnFatal"}
    into = tmp_path / "mine.template"
    assert run(["rule", "template", str(tmp_path), "--output", str(into)]) == 0
    assert yaml.safe_load(into.read_text(encoding="utf-8")) == printed


def test_two_rules_with_one_name_are_refused() -> None:
    rule = read_rule(RULES[0])
    with pytest.raises(Rejected, match="duplicate rule name"):
        template([rule, rule])


def test_a_pattern_that_eventbridge_refuses_is_refused(folder: Callable[..., Path]) -> None:
    assert run(["rule", "test", str(folder(pattern={"source": "faultbridge"}))]) == 65


def test_an_empty_folder_is_wrong_usage(tmp_path: Path) -> None:
    assert run(["rule", "test", str(tmp_path)]) == 2


def test_without_the_local_extra_the_command_names_the_package_to_install(
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
