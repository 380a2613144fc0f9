"""Governing rules: the rule of a case, and those of the active conditions that require its repair action."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.policy import DEFAULT_RULE, Match, Policy, Rule
from faultbridge.pipeline.decide.governing_rules import governing_rules, rule_of_case, rule_to_ask, with_governing_rules
from tests.pipeline.test_repair_actions import FAULTY, case

REPLACE = RepairAction.REPLACE_NODE
UNKNOWN = replace(case(REPLACE), rule="former-name")
EMPTY = replace(FAULTY, conditions={})


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


def test_the_rules_of_the_attempts_before_govern_beside_those_of_active_conditions() -> None:
    policy = Policy("p", (Rule("all"), Rule("joined", approval=(REPLACE,))))
    attempted = replace(UNKNOWN, rule="all", governed_by=("joined",))
    assert [rule.name for rule in governing_rules(FAULTY, attempted, policy, REPLACE)] == ["all", "joined"]
    assert with_governing_rules(FAULTY, attempted, policy).governed_by == ("all", "joined")


def test_each_rule_counts_once() -> None:
    policy = Policy("p", (Rule("all"),))
    rules = governing_rules(FAULTY, replace(UNKNOWN, rule="all"), policy, RepairAction.RESET_GPU)
    assert [rule.name for rule in rules] == ["all"]
