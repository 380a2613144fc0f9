"""Under another policy the report names each decision that differs, and what follows from it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from faultbridge.decide.backtest.record import Decision, Replayed
from faultbridge.decide.backtest.report import BacktestDocument, Compared, Gap, Report, backtest_document, compare
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.values import replace
from tests.backtest.histories import Event, demo, replayed


@cache
def history() -> tuple[list[Event], Policy, ClusterConfig]:
    return demo()


def changed(**fields: Any) -> Policy:
    """Return the policy of the demo with these fields in every rule."""
    _, policy, _ = history()
    return replace(policy, version="other", rules=tuple(replace(rule, **fields) for rule in policy.rules))


def full_report(policy: Policy) -> Report:
    events, own, config = history()
    found = replayed(events, policy, config, own)
    return Report(backtest_document(config.cluster, events, found, policy.version), found)


def report(policy: Policy) -> BacktestDocument:
    return full_report(policy).document


def differences(document: BacktestDocument) -> list[tuple[str, str]]:
    return [(one.recorded, one.replayed) for one in document.differences]


def test_the_same_policy_has_the_same_totals() -> None:
    _, own, _ = history()
    document = report(own)
    assert document.decisions == Compared(2, 2, 0)
    assert document.recorded == document.replayed
    assert document.recorded.actions["replace_node"] == 1
    assert document.recorded.nodes_touched == 1


def test_a_policy_that_takes_no_action_touches_no_node() -> None:
    document = report(changed(action=Action.NONE))
    assert differences(document) == [("open replace_node for xid.79, queue", "nothing")]
    assert document.replayed.nodes_touched == 0
    assert document.replayed.gpu_hours_lost is None, "the number of GPUs is unknown"
    assert document.recorded.nodes_touched == 1


def test_an_approval_that_was_never_requested_leaves_the_case_to_an_operator() -> None:
    document = report(changed(approval=(RepairAction.REPLACE_NODE,)))
    assert differences(document) == [("start replace_node", "wait")]
    assert "requires approval" in document.differences[0].reason
    assert document.replayed.actions["replace_node"] == 0
    assert Gap("an approval was never requested in the record: no answer is assumed", 1) in document.not_in_record


def test_another_repair_action_gets_an_assumed_outcome_which_is_counted() -> None:
    _, own, _ = history()
    rebooted = Rule("lost", Match(codes=("xid.79",)), action=Action.REBOOT_NODE)
    document = report(replace(own, version="other", rules=(rebooted, *own.rules)))
    assert differences(document) == [("open replace_node for xid.79, queue", "open reboot_node for xid.79, queue")]
    assert document.replayed.actions == {"verify": 0, "reset_gpu": 0, "reboot_node": 1, "replace_node": 0}
    assert any(one.what.startswith("no reboot_node of this case") for one in document.not_in_record)


def test_a_longer_wait_delays_the_same_repair() -> None:
    recorded, delayed = report(history()[1]), report(changed(wait_seconds=600))
    assert differences(delayed) == [("open replace_node for xid.79, queue", "open replace_node for xid.79 after 600 s")]
    assert delayed.replayed.actions == recorded.recorded.actions
    longer = delayed.replayed.median_repair_seconds - recorded.recorded.median_repair_seconds
    assert 580 <= longer <= 600


def test_a_lower_budget_lets_the_case_wait() -> None:
    _, own, _ = history()
    document = report(replace(own, version="none", limits=replace(own.limits, concurrent=0)))
    assert differences(document) == [("start replace_node", "wait")]
    assert document.differences[0].reason == "the policy's limit of concurrent repairs is reached"


def test_a_stricter_breaker_lets_the_case_wait() -> None:
    _, own, _ = history()
    document = report(replace(own, version="strict", breakers=(BreakerLimit(nodes=1, percent=0, openings=1),)))
    assert differences(document) == [("start replace_node", "wait")]
    assert "breaker" in document.differences[0].reason


def test_two_policies_are_compared_with_each_other() -> None:
    _, own, _ = history()
    same, waiting = full_report(own), full_report(changed(wait_seconds=600))
    assert compare(waiting, waiting).differences == []
    document = compare(waiting, same)
    assert differences(document) == [
        ("open replace_node for xid.79 after 600 s", "open replace_node for xid.79, queue")
    ]
    assert document.recorded == waiting.document.replayed
    assert document.decisions == Compared(1, 0, 0)


def test_a_decision_about_a_node_that_left_the_record_under_the_other_policy_is_not_compared() -> None:
    _, own, _ = history()
    waiting = full_report(changed(wait_seconds=600))
    without_slots = full_report(replace(own, version="none", limits=replace(own.limits, concurrent=0)))
    for before, after in ((waiting, without_slots), (without_slots, waiting)):
        document = compare(before, after)
        assert [text.partition(" ")[0] for text, _ in differences(document)] == ["open"]
        assert document.decisions == Compared(1, 0, 0)


def test_each_of_two_decisions_of_one_commit_about_a_node_is_compared() -> None:
    def decided(*replies: str) -> Report:
        at, texts = history()[0][0].metadata.recorded_at, ("wait", "start replace_node", "wait")
        decisions = [Decision(at, "node-1", "c-1", one, new) for one, new in zip(texts, replies, strict=True)]
        return Report(report(history()[1]), Replayed(decisions))

    document = compare(decided("wait", "start replace_node", "wait"), decided("start verify", "escalate", "wait"))
    assert sorted(differences(document)) == [("start replace_node", "escalate"), ("wait", "start verify")]
    assert document.decisions == Compared(3, 1, 0)


def test_a_case_that_only_one_of_two_policies_opens_is_a_difference() -> None:
    at = history()[0][0].metadata.recorded_at
    opened = Replayed([Decision(at, "node-1", None, "nothing", "open verify for xid.31, queue")])
    document = compare(Report(report(history()[1]), Replayed()), Report(report(history()[1]), opened))
    assert differences(document) == [("nothing", "open verify for xid.31, queue")]


@pytest.mark.parametrize("part", ["recorded", "replayed"])
def test_every_case_has_one_verdict(part: str) -> None:
    totals = getattr(report(changed(wait_seconds=600)), part)
    assert totals.right + totals.needless + totals.undetermined == 1
