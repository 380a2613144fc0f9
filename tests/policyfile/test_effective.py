"""Effective values name their origin; a policy that weakens a protection is recognized."""

from __future__ import annotations

import pytest

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decide.policyfile.weakened import changed_settings, effective_settings, weakened_protection
from faultbridge.decode.data.policies import default_document

STRICT = "breakers: [{scope: cluster, nodes: 5, percent: 20}, {scope: domain, nodes: 4, percent: 50}]\n"


def values(text: str) -> dict[tuple[str | None, str], tuple[str, str]]:
    return {(one.rule, one.field): (one.text, one.origin) for one in effective_settings(read_policy(text))}


def test_each_value_names_the_file_or_the_default_as_its_origin() -> None:
    found = values("limits: {probation: 36h, verify_level: null}\nrules: [{name: a, wait_seconds: 2m, approval: []}]")
    assert found[None, "limits.probation"] == ("1d12h", "file")
    assert found[None, "limits.verify_level"] == ("null", "file")
    assert found[None, "limits.concurrent"] == ("2", "default")
    assert found[None, "rules"] == ('["a"]', "file")
    assert found["a", "wait_seconds"] == ("2m", "file")
    assert found["a", "approval"] == ("[]", "file")
    assert found["a", "match.hours"] == ("24", "default")


def test_breakers_are_named_by_scope_and_windows_by_number() -> None:
    found = values(
        "breakers: [{scope: domain, nodes: 9}]\nrules: [{name: a, windows: [{cron: '* * * * *', duration: 1h}]}]"
    )
    assert found[None, "breakers.domain.nodes"] == ("9", "file")
    assert found[None, "breakers.domain.quiet"] == ("10m", "default")
    assert found["a", "windows[0].duration"] == ("1h", "file")
    assert found["a", "windows[0].zone"] == ("UTC", "default")


def test_only_differing_values_are_listed_and_rules_are_compared_by_name() -> None:
    before = read_policy("rules: [{name: a, wait_seconds: 90s, match: {codes: [x]}}, {name: b}]")
    after = read_policy("limits: {concurrent: 2}\nrules: [{name: a, wait_seconds: 2m, match: {codes: [x]}}, {name: c}]")
    found = [
        (one.rule, one.field, one.before and one.before.text, one.after and one.after.text)
        for one in changed_settings(before, after)
    ]
    assert found == [
        (None, "rules", '["a", "b"]', '["a", "c"]'),
        ("a", "wait_seconds", "1m30s", "2m"),
        ("b", "name", "b", None),
        ("c", "name", None, "c"),
    ]


def test_a_policy_does_not_differ_from_itself() -> None:
    assert changed_settings(default_document(), default_document()) == ()
    assert weakened_protection(default_document(), default_document()) == ()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("rules: []", ("the cluster breaker is dropped", "the domain breaker is dropped")),
        ("breakers: [{nodes: 5, percent: 20}]", ("the domain breaker is dropped",)),
        (STRICT + "limits: {concurrent: 3}", ("limits.concurrent: 2 before, 3 now",)),
        (STRICT + "limits: {probation: 1h}", ("limits.probation: 1d before, 1h now",)),
        (STRICT.replace("nodes: 5", "nodes: 6"), ("breakers.cluster.nodes: 5 before, 6 now",)),
        (STRICT.replace("50}", "50, quiet: 1m}"), ("breakers.domain.quiet: 10m before, 1m now",)),
        (STRICT + "incidents: {percent: 60}", ("incidents.percent: 30 before, 60 now",)),
        (STRICT + "limits: {concurrent: 1, probation: 3d, verify_level: 3}", ()),
        (STRICT.replace("nodes: 5", "nodes: 3"), ()),
    ],
)
def test_a_dropped_breaker_or_a_weaker_limit_is_named(text: str, lines: tuple[str, ...]) -> None:
    assert weakened_protection(default_document(), read_policy(text)) == lines


def test_a_dropped_verification_level_is_weaker() -> None:
    before, after = read_policy("limits: {verify_level: 3}"), read_policy("limits: {concurrent: 2}")
    assert weakened_protection(before, after) == ("limits.verify_level: 3 before, null now",)


@pytest.mark.parametrize(("before", "after", "weaker"), [("null", 2, True), ("null", 4, False), (1, "null", False)])
def test_a_level_of_null_is_safer_than_2_and_less_safe_than_3(before: object, after: object, *, weaker: bool) -> None:
    old, new = (read_policy(f"limits: {{verify_level: {level}}}") for level in (before, after))
    assert bool(weakened_protection(old, new)) == weaker


@pytest.mark.parametrize(("before", "after", "weaker"), [("null", 95, True), (95, 90, True), (90, "null", False)])
def test_findings_that_become_faults_at_a_lower_precision_are_named(
    before: object, after: object, *, weaker: bool
) -> None:
    old, new = (read_policy(f"limits: {{finding_precision: {percent}}}") for percent in (before, after))
    line = f"limits.finding_precision: {before} before, {after} now"
    assert weakened_protection(old, new) == ((line,) if weaker else ())


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("dry_run: true", "dry_run: false", "rule r: dry_run: true before, false now"),
        ("isolate: true", "isolate: false", "rule r: isolate: true before, false now"),
        ("verify_level: 4", "verify_level: 3", "rule r: verify_level: 4 before, 3 now"),
        ("isolate: true", "release_without_capacity: true", "rule r: release_without_capacity: false before, true now"),
        ("isolate: true", "orchestrator_unreachable: proceed",
         "rule r: orchestrator_unreachable: hold before, proceed now"),
        ("windows: [{cron: 0 2 * * *, duration: 1h}]", "isolate: true",
         "rule r no longer waits for a maintenance window"),
        ("windows: [{cron: 0 2 * * *, duration: 1h}]",
         "windows: [{cron: 0 2 * * *, duration: 1h}, {cron: 0 4 * * *, duration: 1h}]",
         "rule r has another maintenance window: 0 4 * * * 1h UTC"),
    ],
)  # fmt: skip
def test_a_part_of_a_rule_that_protects_less_is_named_and_the_opposite_change_is_not(
    before: str, after: str, line: str
) -> None:
    old, new = (read_policy(f"rules: [{{name: r, match: {{codes: [xid.*]}}, {part}}}]") for part in (before, after))
    assert weakened_protection(old, new) == (line,)
    assert weakened_protection(new, old) == ()


def test_maintenance_windows_are_compared_as_a_set() -> None:
    night, noon, longer = ("{cron: 0 2 * * *, duration: 1h}", "{cron: 0 12 * * *, duration: 1h}",
                           "{cron: 0 2 * * *, duration: 2h}")  # fmt: skip

    def weaker(before: str, after: str) -> bool:
        texts = (f"rules: [{{name: r, match: {{codes: [xid.*]}}, windows: [{one}]}}]" for one in (before, after))
        return bool(weakened_protection(*map(read_policy, texts)))

    assert not weaker("", f"{night}, {noon}")
    assert not weaker(f"{night}, {noon}", noon)
    assert not weaker(f"{night}, {noon}", f"{noon}, {night}")
    assert weaker(night, noon)
    assert weaker(night, longer)
    assert weaker(f"{night}, {noon}", f"{night}, {longer}")


@pytest.mark.parametrize(
    ("general", "before", "after", "weaker"),
    [
        (4, "null", 3, True),
        (1, "null", 2, False),
        ("null", "null", 2, True),
        (2, 4, "null", True),
        (4, 2, "null", False),
    ],
)
def test_a_rule_without_a_level_has_that_of_the_policy(
    general: object, before: object, after: object, *, weaker: bool
) -> None:
    rule = "limits: {{verify_level: {}}}\nrules: [{{name: r, match: {{codes: [xid.*]}}, verify_level: {}}}]"
    old, new = (read_policy(rule.format(general, level)) for level in (before, after))
    assert bool(weakened_protection(old, new)) == weaker


def test_a_rule_that_only_the_new_policy_has_weakens_nothing() -> None:
    window = "windows: [{cron: 0 2 * * *, duration: 1h}]"
    rule = f"{{name: r, match: {{codes: [xid.*]}}, release_without_capacity: true, verify_level: 1, {window}}}"
    assert weakened_protection(read_policy("rules: []"), read_policy(f"rules: [{rule}]")) == ()


def test_a_dropped_rule_that_only_reported_is_weaker() -> None:
    before = read_policy("rules: [{name: r, match: {codes: [xid.*]}, dry_run: true}]")
    assert weakened_protection(before, read_policy("rules: []")) == ("rule r: dry_run: true before, not set now",)


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        ([], ("rule ask no longer asks for approval of reboot_node, replace_node",)),
        ([{"name": "ask", "match": {}, "approval": ["replace_node"]}],
         ("rule ask no longer asks for approval of reboot_node",)),
        ([{"name": "ask", "match": {}, "approval": ["replace_node", "reboot_node", "verify"]}], ()),
    ],
)  # fmt: skip
def test_a_dropped_approval_weakens_a_policy(rules: list[dict[str, object]], lines: tuple[str, ...]) -> None:
    before = {"version": "p-1", "rules": [{"name": "ask", "match": {}, "approval": ["reboot_node", "replace_node"]}]}
    assert weakened_protection(before, {"version": "p-2", "rules": rules}) == lines
