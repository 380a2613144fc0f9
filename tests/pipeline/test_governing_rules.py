"""Governing rules: the rule of a case, and those of the active conditions that require its repair action."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.decide.governing_rules import (
    governing_rules,
    requirement_for,
    rule_of_case,
    rule_to_ask,
    strongest_requirement,
    with_governing_rules,
)
from faultbridge.model.cases import Case
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import DEFAULT_RULE, INVENTORY_RULE, Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import case, condition, node
from tests.pipeline.builders import FAULTY

REPLACE = RepairAction.REPLACE_NODE
UNKNOWN = replace(case(REPLACE), rule="former-name")
EMPTY = replace(FAULTY, conditions={})
RESET, REBOOT, NONE = Action.RESET_GPU, Action.REBOOT_NODE, Action.NONE


def needing(*actions: Action, **others: object) -> NodeState:
    """Return a node with a condition for each of these actions; the first is fault xid.0."""
    found = {}
    for code, action in ((f"xid.{n}", action) for n, action in enumerate(actions)):
        one = condition(action)
        reporters = {f"kernel-log {code}": reporter for reporter in one.reporters.values()}
        found[code] = replace(one, code=code, mode=code, reporters=reporters, **others)  # type: ignore[arg-type]
    return node(conditions=found)


def rule_for_each(*names: str, **fields: object) -> Policy:
    """Return a policy in which each fault has a rule of its own; fault xid.0 has the first one."""
    rules = [Rule(name, Match(codes=(f"xid.{n}",)), **fields) for n, name in enumerate(names)]  # type: ignore[arg-type]
    return Policy("p", (*rules, Rule("own")))


def test_without_any_condition_a_case_of_an_unknown_rule_asks_for_each_repair() -> None:
    policy = Policy("p", (Rule("other", Match(codes=("net.*",))),))
    for action in RepairAction:
        asking = rule_to_ask(EMPTY, UNKNOWN, policy, action, 1)
        assert (asking is not None) is action.needs_slot, action


def test_the_default_rule_needs_no_rule_in_the_policy() -> None:
    of_default = replace(UNKNOWN, rule=DEFAULT_RULE.name)
    assert rule_of_case(EMPTY, of_default, Policy("p")) == DEFAULT_RULE


def test_without_any_condition_the_rules_of_the_attempt_before_govern_the_next_one() -> None:
    policy = Policy("p", (Rule("own"), Rule("joined", approval=(REPLACE,)), Rule("other", approval=(REPLACE,))))
    attempted = replace(UNKNOWN, rule="own", governed_by=("own", "joined"))
    assert [rule.name for rule in governing_rules(EMPTY, attempted, policy, REPLACE)] == ["own", "joined"]
    assert with_governing_rules(EMPTY, attempted, policy).governed_by == ("own", "joined")
    removed = rule_to_ask(EMPTY, replace(attempted, governed_by=("own", "gone")), policy, REPLACE, 1)
    assert removed is not None
    assert removed.name == "gone"


CAREFUL = Rule("careful", Match(codes=("xid.1",)), approval=(REPLACE,))
FORMER = replace(UNKNOWN, rule="own", policy="former")
"""A case of fault xid.1 that was opened under another policy."""


def governing(state: NodeState, one: Case, *rules: Rule) -> list[str]:
    """Return the names of the rules that govern a replacement."""
    return [rule.name for rule in governing_rules(state, one, Policy("current", rules), REPLACE)]


@pytest.mark.parametrize("state", [FAULTY, EMPTY, needing(NONE), needing(Action.RUN_DIAGNOSTICS), needing(REBOOT)])
def test_a_policy_that_changed_since_the_case_was_opened_governs_its_fault_although_it_has_ended(
    state: NodeState,
) -> None:
    assert "careful" in governing(state, FORMER, CAREFUL, Rule("own"))


@pytest.mark.parametrize(
    "unstored",
    [{"sources": ("dcgm",)}, {"count": 3}, {"severities": (Severity.ERROR,)}, {"actions": (REBOOT,)}],
    ids=str,
)
def test_each_rule_that_may_match_an_ended_fault_governs_it_up_to_the_first_that_certainly_does(
    unstored: dict[str, Any],
) -> None:
    maybe, other = replace(CAREFUL, name="maybe", match=Match(**unstored)), Rule("other", Match(codes=("net.*",)))
    second = replace(maybe, name="second")
    assert governing(EMPTY, FORMER, maybe, other, second, CAREFUL, Rule("own")) == ["own", "maybe", "second", "careful"]
    of_case = Rule("own", Match(**unstored))
    assert governing(EMPTY, FORMER, of_case, CAREFUL) == ["own"]
    assert governing(EMPTY, FORMER, other, Rule("own", other.match)) == ["own"]


def test_an_unchanged_policy_or_a_case_of_the_inventory_brings_no_further_rule() -> None:
    assert governing(EMPTY, replace(FORMER, policy="current"), CAREFUL, Rule("own")) == ["own"]
    assert governing(EMPTY, replace(FORMER, rule=INVENTORY_RULE), CAREFUL) == [INVENTORY_RULE]


def test_the_rules_of_the_attempts_before_govern_beside_those_of_active_conditions() -> None:
    policy = Policy("p", (Rule("all"), Rule("joined", approval=(REPLACE,))))
    attempted = replace(UNKNOWN, rule="all", governed_by=("joined",))
    assert [rule.name for rule in governing_rules(FAULTY, attempted, policy, REPLACE)] == ["all", "joined"]
    assert with_governing_rules(FAULTY, attempted, policy).governed_by == ("all", "joined")


def test_each_rule_counts_once() -> None:
    policy = Policy("p", (Rule("all"),))
    rules = governing_rules(FAULTY, replace(UNKNOWN, rule="all"), policy, RepairAction.RESET_GPU)
    assert [rule.name for rule in rules] == ["all"]


@pytest.mark.parametrize(
    ("actions", "strongest"), [((RESET, REBOOT), "b"), ((REBOOT, RESET), "a"), ((NONE, RESET), "b"), ((NONE,), None)]
)
def test_the_strongest_repair_action_counts_before_the_worst_fault(
    actions: tuple[Action, ...], strongest: str | None
) -> None:
    state = needing(*actions)
    severity = {action: Severity.ERROR if action is REBOOT else Severity.FATAL for action in actions}
    conditions = {key: replace(one, severity=severity[one.action]) for key, one in state.conditions.items()}
    found = strongest_requirement(replace(state, conditions=conditions), rule_for_each("a", "b"))
    assert (found.rule.name if found else None) == strongest


@pytest.mark.parametrize("first", [True, False])
def test_of_equally_strong_requirements_one_that_is_no_dry_run_counts_before_the_worst_fault(first: bool) -> None:
    state = needing(REBOOT, REBOOT)
    worse, mild = ("xid.0", "xid.1") if first else ("xid.1", "xid.0")
    conditions = {**state.conditions, mild: replace(state.conditions[mild], severity=Severity.ERROR)}
    policy = Policy("p", (Rule("real", Match(codes=(mild,))), Rule("reported", Match(codes=(worse,)), dry_run=True)))
    found = strongest_requirement(replace(state, conditions=conditions), policy)
    assert found is not None
    assert found.rule.name == "real"


def test_a_fault_that_may_be_of_an_earlier_instance_requires_nothing() -> None:
    uncertain = needing(REBOOT, known_incarnation=False)
    assert strongest_requirement(uncertain, rule_for_each("a")) is None
    attempted = replace(UNKNOWN, rule="own")
    assert [rule.name for rule in governing_rules(uncertain, attempted, rule_for_each("a"), REPLACE)] == ["own"]


def test_a_fault_that_needs_no_case_brings_no_rule() -> None:
    rules = governing_rules(needing(NONE), replace(UNKNOWN, rule="own"), rule_for_each("a"), REPLACE)
    assert [rule.name for rule in rules] == ["own"]


@pytest.mark.parametrize(
    ("actions", "required"),
    [
        ((), []),
        ((REBOOT,), ["verify", "reset_gpu", "reboot_node"]),
        ((RESET, Action.REPLACE_NODE), ["verify", "reset_gpu", "reboot_node", "replace_node"]),
        ((Action.RUN_DIAGNOSTICS,), ["verify"]),
    ],
)
def test_a_requirement_covers_its_repair_action_and_each_weaker_one(
    actions: tuple[Action, ...], required: list[str]
) -> None:
    state, policy = needing(*actions), rule_for_each("a", "b")
    covered = [action.value for action in RepairAction if requirement_for(state, policy, action) is not None]
    assert covered == required


@pytest.mark.parametrize(
    ("action", "governing"),
    [
        (RepairAction.RESET_GPU, ["own", "resets", "reboots"]),
        (RepairAction.REBOOT_NODE, ["own", "reboots"]),
        (RepairAction.REPLACE_NODE, ["own", "resets", "reboots", "asks"]),
    ],
)
def test_the_rules_of_faults_that_require_an_action_govern_it_and_else_those_of_all_faults(
    action: RepairAction, governing: list[str]
) -> None:
    state = needing(RESET, REBOOT, Action.CONTACT_SUPPORT)
    rules = governing_rules(state, replace(UNKNOWN, rule="own"), rule_for_each("resets", "reboots", "asks"), action)
    assert [rule.name for rule in rules] == governing
