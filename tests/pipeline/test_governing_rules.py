"""Governing rules: the rule of a case, and those of the active conditions that require its repair action."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.policy import DEFAULT_RULE, Match, Policy, Rule
from faultbridge.pipeline.decide.governing_rules import governing_rules, rule_of_case, rule_to_ask
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


def test_each_rule_counts_once() -> None:
    policy = Policy("p", (Rule("all"),))
    rules = governing_rules(FAULTY, replace(UNKNOWN, rule="all"), policy, RepairAction.RESET_GPU)
    assert [rule.name for rule in rules] == ["all"]
