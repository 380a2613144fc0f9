"""Decide: what a node's conditions mean for its status and its case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import RepairAction, Resolution
from faultbridge.domain.clusters import Mode, RepairOwner
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Action, Clear, Severity
from faultbridge.domain.nodes import Isolation
from faultbridge.domain.policy import Match, Policy, Rule
from faultbridge.ledger.transition_guard import check_moves
from faultbridge.pipeline.normalize.resolve import Sits
from faultbridge.pipeline.observe import observe, tick
from tests.builders import CATALOG, GPU, NOON, after, arrival, config, fault, node, rules


def seen(*arrivals, state=None, now=NOON, **given) -> Transition:
    before = state or node()
    passed = observe(before, arrivals, rebooted=False, rules=rules(**given), catalog=CATALOG, now=now)
    check_moves(before, passed.state, passed.drafts, Actor.INGEST)
    return passed


def told(passed: Transition) -> list[str]:
    moves = {EntryType.NODE_STATUS, EntryType.CASE_STATUS}
    return [
        f"{draft.data['from']}>{draft.data['to']}" if draft.type in moves else draft.type.value
        for draft in passed.drafts
    ]


def test_a_fatal_fault_degrades_the_node_and_queues_a_case_in_one_go() -> None:
    passed = seen(arrival(fault()))
    assert told(passed) == ["Node Fault Detected", "None>open", "healthy>degraded", "open>queued"]
    case = passed.state.case
    assert case is not None
    assert (case.repair_action, case.isolate, case.code) == (RepairAction.REPLACE_NODE, True, "xid.79")
    assert {draft.case_id for draft in passed.drafts} == {case.id}


def test_deciding_twice_is_deciding_once() -> None:
    first = seen(arrival(fault()))
    assert seen(state=first.state).drafts == ()
    assert tick(first.state, rules=rules(), now=after(minutes=1)).drafts == ()


def test_a_warning_degrades_and_opens_no_case() -> None:
    passed = seen(arrival(fault("xid.92")))
    assert told(passed) == ["Node Fault Detected", "healthy>degraded"]
    assert passed.state.due_at == after(hours=1)


def test_information_changes_no_status() -> None:
    assert told(seen(arrival(fault("xid.31")))) == ["Node Note Recorded"]


def test_an_unknown_code_is_never_guessed_and_asks_a_person() -> None:
    passed = seen(arrival(fault("xid.9999")))
    assert passed.state.case is not None
    assert passed.state.case.status is CaseStatus.ESCALATED
    assert "support" in passed.drafts[-2].data["reason"] or "support" in passed.drafts[-1].data["reason"]


def test_a_node_that_recovers_before_it_was_isolated_resolves_its_case() -> None:
    begun = seen(arrival(fault()))
    over = seen(arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)), state=begun.state)
    assert told(over) == ["Node Fault Cleared", "degraded>healthy", "queued>resolved"]
    assert over.state.case is not None
    assert over.state.case.resolution is Resolution.RECOVERED
    assert over.state.live_case is None


def test_an_isolated_node_does_not_return_by_itself() -> None:
    begun = seen(arrival(fault()))
    isolated = replace(begun.state, status=NodeStatus.QUARANTINED, isolation=Isolation.CONFIRMED)
    over = seen(arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)), state=isolated)
    assert told(over) == ["Node Fault Cleared"]


@pytest.mark.parametrize(
    "registered",
    [{"mode": Mode.OBSERVE}, {"repair_owner": RepairOwner.OBSERVE}],
)
def test_a_cluster_that_is_only_watched_gets_no_case(registered) -> None:
    passed = seen(arrival(fault()), config=config(**registered))
    assert told(passed) == ["Node Fault Detected", "healthy>degraded"]


def test_a_fault_older_than_an_hour_is_recorded_but_not_acted_upon() -> None:
    passed = seen(arrival(fault(), at=after(hours=-2)))
    assert told(passed) == ["Node Fault Detected", "healthy>degraded"]


def test_a_fault_of_unknown_incarnation_degrades_and_never_opens_a_case() -> None:
    passed = seen(arrival(fault(), sits=Sits.UNKNOWN))
    assert told(passed) == ["Node Fault Detected", "healthy>degraded"]


def test_a_rule_may_let_a_case_wait_and_a_tick_queues_it_when_the_wait_is_over() -> None:
    patient = Policy("p", (Rule("patient", Match(codes=("xid.*",)), wait_seconds=90),))
    waiting = seen(arrival(fault()), policy=patient)
    assert told(waiting)[-1] == "healthy>degraded"
    assert waiting.state.due_at == after(seconds=90)
    early = tick(waiting.state, rules=rules(policy=patient), now=after(seconds=89))
    due = tick(waiting.state, rules=rules(policy=patient), now=after(seconds=90))
    assert (told(early), told(due)) == ([], ["open>queued"])


def test_a_rule_overrides_severity_and_action_and_the_entry_says_so() -> None:
    mild = Policy("p", (Rule("mild", Match(codes=("xid.79",)), severity=Severity.WARNING, action=Action.NONE),))
    passed = seen(arrival(fault()), policy=mild)
    assert told(passed) == ["Node Fault Detected", "healthy>degraded"]
    assert (passed.drafts[0].data["severity"], passed.drafts[0].data["rule"]) == ("warning", "mild")


def test_a_rule_that_lowers_a_severity_lowers_it_once_and_not_at_each_repetition():
    mild = Policy("p", (Rule("mild", Match(codes=("xid.79",)), severity=Severity.WARNING, action=Action.NONE),))
    begun = seen(arrival(fault()), policy=mild)
    again = seen(arrival(fault(), at=after(minutes=2)), state=begun.state, now=after(minutes=2), policy=mild)
    assert told(again) == []
    assert [condition.severity for condition in again.state.active()] == [Severity.WARNING]


def test_rules_judge_a_condition_as_it_was_told_and_never_each_others_verdict():
    chained = Policy(
        "p",
        (
            Rule("first", Match(severities=(Severity.FATAL,)), severity=Severity.ERROR),
            Rule("second", Match(severities=(Severity.ERROR,)), severity=Severity.WARNING),
        ),
    )
    begun = seen(arrival(fault()), policy=chained)
    later = tick(begun.state, rules=rules(policy=chained), now=after(minutes=1))
    assert [condition.severity for condition in later.state.active()] == [Severity.ERROR]
    assert later.drafts == ()


def test_a_rule_whose_ladder_has_no_fitting_repair_action_asks_a_person() -> None:
    careful = Policy("p", (Rule("careful", repair_actions=(RepairAction.VERIFY, RepairAction.RESET_GPU)),))
    passed = seen(arrival(fault()), policy=careful)
    assert passed.state.case is not None
    assert passed.state.case.status is CaseStatus.ESCALATED


def test_a_second_fault_joins_the_live_case() -> None:
    begun = seen(arrival(fault("xid.48")))
    joined = seen(arrival(fault("xid.79"), at=after(minutes=1)), state=begun.state, now=after(minutes=1))
    assert told(joined) == ["Node Fault Detected"]
    assert joined.drafts[0].case_id == begun.state.case.id


def test_the_closing_entry_says_how_long_each_phase_took() -> None:
    begun = seen(arrival(fault(), at=after(seconds=-5)))
    over = seen(
        arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)),
        state=begun.state,
        now=after(minutes=2),
    )
    assert over.drafts[-1].data["phases"] == {"detected": 5000, "open": 0, "queued": 120_000}
