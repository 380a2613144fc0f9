"""A policy file is converted to its document, or rejected with all its problems."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.policyfile.parser import InvalidPolicy, read_policy, write_policy
from faultbridge.decide.policyfile.schema import LimitsPart, RulePart, format_duration, parse_duration
from faultbridge.decode.data import FOLDER, policies
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import BreakerScope, RepairAction
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.policy import Limits, OrchestratorUnreachable, Policy, Window
from faultbridge.model.storage.codec import load
from tests.policyfile.builders import GOOD, NESTED


def problems(source: str) -> list[tuple[str | None, str, str]]:
    with pytest.raises(InvalidPolicy) as caught:
        read_policy(source)
    return [(one.rule, one.field, one.expected) for one in caught.value.problems]


def policy_of(document: dict[str, Any]) -> Policy:
    return load(Policy, {**document, "version": policies.version_of(document)})


def test_a_policy_file_becomes_the_rules_that_it_contains() -> None:
    policy = policy_of(read_policy(GOOD))
    lost, ask = policy.rules
    assert (lost.name, lost.match.codes, lost.match.components) == (
        "lost-gpu",
        ("xid.79", "smi.*"),
        (ComponentType.GPU,),
    )
    assert (lost.severity, lost.action, lost.wait_seconds, lost.repair_actions) == (
        Severity.FATAL,
        Action.REPLACE_NODE,
        90,
        (RepairAction.REPLACE_NODE,),
    )
    assert (ask.isolate, ask.repair_actions) == (False, ())
    assert policy.limits == Limits(
        concurrent=4, act_within=timedelta(hours=2), launch_deadline=timedelta(hours=1, minutes=30)
    )


def test_an_empty_list_of_repair_actions_allows_none() -> None:
    _, ask = policy_of(read_policy(GOOD)).rules
    assert ask.repair_action(Action.REPLACE_NODE) is None


def test_a_written_policy_reads_back_as_the_same_document() -> None:
    document = read_policy(GOOD)
    assert read_policy(write_policy(document)) == document


def test_the_sources_of_capacity_keep_their_order_in_the_document_and_in_the_written_file() -> None:
    document = read_policy("capacity: [open_reservation, own_reservation, spare_pool]")
    expected = (CapacitySource.OPEN_RESERVATION, CapacitySource.OWN_RESERVATION, CapacitySource.SPARE_POOL)
    assert policy_of(document).capacity == expected
    assert policy_of(read_policy(write_policy(document))).capacity == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("[own_reservation, on_demand, own_reservation]", "capacity", "each source at most once is expected"),
        ("[odcr]", "capacity[0]", "one of spare_pool, own_reservation, open_reservation"),
        ("spare_pool", "capacity", "a list of at most 7 items"),
    ],
)
def test_a_mistake_in_the_sources_of_capacity_is_named(text: str, field: str, expected: str) -> None:
    ((rule, found, message),) = problems(f"capacity: {text}")
    assert (rule, found) == (None, field)
    assert message.startswith(expected)


def test_the_default_policy_is_valid() -> None:
    document = read_policy((FOLDER / "policy" / "default.json").read_text(encoding="utf-8"))
    assert policy_of(document) == policies.default_policy()


def test_an_omitted_field_has_the_default_of_the_domain() -> None:
    assert policy_of(read_policy("rules: []")).limits == Limits()
    fields = LimitsPart().model_dump()
    assert {name: _plain(value) for name, value in _fields(Limits())} == fields
    (rule,) = policy_of(read_policy("rules: [{name: a}]")).rules
    part = RulePart(name="a")
    assert (rule.isolate, rule.wait_seconds, rule.repair_actions) == (
        part.isolate,
        part.wait_seconds,
        part.repair_actions,
    )


def _fields(limits: Limits) -> list[tuple[str, Any]]:
    return [(name, getattr(limits, name)) for name in Limits.__struct_fields__]


def _plain(value: Any) -> Any:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value


def test_the_version_depends_on_the_content_and_not_on_the_format() -> None:
    other = "limits: {concurrent: 1}\nrules: []\n"
    same = '{"rules": [], "limits": {"concurrent": 1}}'
    assert policies.version_of(read_policy(other)) == policies.version_of(read_policy(same))
    assert len(policies.version_of(read_policy(other))) == 12


@pytest.mark.parametrize(
    ("source", "rule", "field", "expected"),
    [
        (
            "rules: [{name: a, severity: fatl}]",
            "a (number 1)",
            "severity",
            "one of info, warning, error, fatal or null is expected",
        ),
        ("rules: [{name: a, match: {codes: [xid.79, 'X ID']}}]", "a (number 1)", "match.codes[1]", "text that matches"),
        ("rules: [{name: a}, {severity: fatal}]", "number 2", "name", "a value is required: text that matches"),
        ("rules: [{name: a, wait: 90}]", "a (number 1)", "wait", "did you mean wait_seconds?"),
        (
            "rules: [{name: a, wait_seconds: soon}]",
            "a (number 1)",
            "wait_seconds",
            "a duration from 0s to 1d is expected",
        ),
        (
            "rules: [{name: a, wait_seconds: 2d}]",
            "a (number 1)",
            "wait_seconds",
            "a duration from 0s to 1d is expected, such as 90s",
        ),
        ("rules: [{name: a, isolate: perhaps}]", "a (number 1)", "isolate", "true or false is expected"),
        (
            "rules: [{name: a, orchestrator_unreachable: hope}]",
            "a (number 1)",
            "orchestrator_unreachable",
            "one of hold, proceed is expected",
        ),
        (
            "rules: [{name: a, repair_actions: [teleport]}]",
            "a (number 1)",
            "repair_actions[0]",
            "one of verify, reset_gpu, reboot_node, replace_node is expected",
        ),
        ("rules: [7]", "number 1", "the rule", "a mapping with the fields name, match, severity"),
        ("rules: {a: 1}", None, "rules", "a list, each item a mapping with the fields name, match"),
        ("limits: {concurrent: 501}", None, "limits.concurrent", "a whole number from 0 to 500 is expected"),
        ("limits: {verify_level: 6}", None, "limits.verify_level", "a whole number from 1 to 5 or null is expected"),
        ("limits: {concurrent: 1.5}", None, "limits.concurrent", "a whole number from 0 to 500"),
        ("limits: {act_within: }", None, "limits.act_within", "a duration from 1s to 90d is expected, such as 2h"),
        ("limits: 3", None, "limits", "a mapping with the fields concurrent, per_hour"),
        (
            "breakers: [{}, {}, {}]",
            None,
            "breakers",
            "a list of at most 2 items, each item a mapping with the fields scope",
        ),
        ("breakers: [{nodes: many}]", None, "breakers[0].nodes", "a whole number from 1 to 100000"),
        ("incidents: {odds: 0}", None, "incidents.odds", "a whole number from 1 to 1000000000"),
        (
            "rules: [{name: a, approval: required}]",
            "a (number 1)",
            "approval",
            'each item one of verify, reset_gpu, reboot_node, replace_node is expected, such as ["replace_node"]',
        ),
        (
            "rules: [{name: a, match: {severity: fatal}}]",
            "a (number 1)",
            "match.severity",
            "unknown field; allowed: modes, codes, severities, actions, components, clusters, sources, instance_types, "
            "count, hours; did you mean severities?",
        ),
        ("rules: [{name: 7}]", "number 1", "name", "is expected, such as lost-gpu"),
        ("budget: 3", None, "budget", "unknown field; allowed: rules, limits, breakers, incidents"),
        ("", None, "the file", "rules or limits are expected"),
        ("- a", None, "the file", "a mapping with rules and limits is expected"),
        ("rules: [{name: a, match: {codes: [b]}}, {name: a}]", "a", "name", "a name that no other rule has"),
        (
            "rules: [{name: all}, {name: late, match: {codes: [b]}}]",
            "late",
            "match",
            "unreachable: the earlier rule all",
        ),
        (
            "rules: [{name: a, repair_actions: [replace_node, verify]}]",
            "a",
            "repair_actions",
            "mildest first, is expected: verify, replace",
        ),
        (
            "rules: [{name: a, repair_actions: [reset_gpu, reset_gpu]}]",
            "a",
            "repair_actions",
            "each repair action once",
        ),
    ],
)
def test_a_problem_names_the_rule_the_field_and_what_is_expected(
    source: str, rule: str | None, field: str, expected: str
) -> None:
    (found,) = problems(source)
    assert found[:2] == (rule, field)
    assert expected in found[2]


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems("rules: [{name: a, severity: x, action: y}]\nlimits: {attempts: 0, color: red}")) == 4


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("rules:\n- name: a\n match: {}", "malformed_yaml"),
        ("rules: [", "malformed_yaml"),
        ("\tx: 1", "malformed_yaml"),
        ("a: &a [1]\nb: *a", "malformed_yaml"),
        ("!!python/object/apply:os.system ['true']", "malformed_yaml"),
        ("[" * 5000, "malformed_yaml"),
        ("#" * 200_001, "too_large"),
    ],
)
def test_text_that_is_not_a_policy_is_rejected_with_a_reason(source: str, reason: str) -> None:
    with pytest.raises(Rejected) as caught:
        read_policy(source)
    assert caught.value.reason == reason


def test_the_error_of_invalid_yaml_names_its_place() -> None:
    with pytest.raises(Rejected, match="line 3, column 2: expected <block end>"):
        read_policy("rules:\n- name: a\n match: {}")


@given(st.integers(min_value=0, max_value=400 * 86_400))
def test_a_formatted_duration_parses_to_the_same_seconds(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("bad", ["", " ", "1", "1x", "h1", "-1s", "1.5h", True, None, 1.5, "1s1d"])
def test_an_invalid_duration_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(bad)


def test_a_policy_contains_every_field_that_admission_reads() -> None:
    policy = policy_of(read_policy(NESTED))
    (rule,) = policy.rules
    assert (rule.match.count, rule.match.hours, rule.match.sources) == (3, 6, ("kernel-log",))
    assert (rule.approval, rule.approval_deadline) == ((RepairAction.REPLACE_NODE,), timedelta(hours=4))
    assert rule.windows == (Window("0 22 * * mon-fri", timedelta(hours=6), "Europe/Berlin"),)
    assert (rule.verify_level, rule.release_without_capacity, rule.dry_run) == (4, False, True)
    assert (rule.orchestrator_unreachable, policy.limits.orchestrator_timeout) == (
        OrchestratorUnreachable.PROCEED,
        timedelta(minutes=15),
    )
    assert [(one.scope, one.quiet) for one in policy.breakers] == [
        (BreakerScope.CLUSTER, timedelta(minutes=15)),
        (BreakerScope.DOMAIN, timedelta(minutes=10)),
    ]
    assert read_policy(write_policy(read_policy(NESTED))) == read_policy(NESTED)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("rules: [{name: a, windows: [{cron: '0 22 * *', duration: 1h}]}]", "windows[0].cron", "five fields"),
        ("rules: [{name: a, windows: [{cron: '61 * * * *', duration: 1h}]}]", "windows[0].cron", "Bad minute"),
        (
            "rules: [{name: a, windows: [{cron: '* * * * *', duration: 9d}]}]",
            "windows[0].duration",
            "a duration from 1m to 7d",
        ),
        ("rules: [{name: a, windows: [{cron: '* * * * *', duration: 1h, zone: Mars/One}]}]", "windows[0].zone", "zone"),
        (
            "rules: [{name: a, repair_actions: [verify], approval: [replace_node]}]",
            "approval",
            "repair actions from the rule's `repair_actions`",
        ),
        ("breakers: [{nodes: 3}, {nodes: 4}]", "breakers", "one breaker of each scope"),
    ],
)
def test_a_nested_problem_names_its_field_and_what_is_expected(text: str, field: str, expected: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        read_policy(text)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert expected in problem.expected


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ("drain_deadline: 12h", "from 1s to 3h"),
        ("follow_deadline: 24h", "from 1s to 11h"),
        ("verify_deadline: 90d", "from 1s to 9h"),
        ("launch_deadline: 10h\n  verify_deadline: 9h", "of at most 15h together are expected"),
    ],
)
def test_a_deadline_that_its_step_cannot_wait_for_is_rejected(limits: str, problem: str) -> None:
    with pytest.raises(InvalidPolicy, match=problem):
        read_policy(f"limits:\n  {limits}\n")
