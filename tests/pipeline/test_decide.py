"""Decide: the effect of a node's conditions on its status and its case."""

from __future__ import annotations

import pytest

from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.observe import observe, tick
from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, EntryType, Isolation, NodeStatus, RepairAction, Resolution
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, after, arrival, config, data_of, fault, rules
from tests.pipeline.builders import observed


def recorded(transition: Transition) -> list[str]:
    moves = {EntryType.NODE_STATUS, EntryType.CASE_STATUS}
    return [
        f"{data_of(draft)['from']}>{data_of(draft)['to']}" if draft.type in moves else draft.type.value
        for draft in transition.drafts
    ]


def test_a_fatal_fault_degrades_the_node_and_queues_a_case_in_one_transition() -> None:
    transition = observed(arrival(fault()))
    assert recorded(transition) == ["Node Fault Detected", "None>open", "healthy>degraded", "open>queued"]
    case = transition.state.case
    assert case is not None
    assert (case.repair_action, case.isolate, case.code) == (RepairAction.REPLACE_NODE, True, "xid.79")
    assert {draft.case_id for draft in transition.drafts} == {case.id}


def test_deciding_twice_changes_nothing() -> None:
    first = observed(arrival(fault()))
    assert observed(state=first.state).drafts == ()
    assert tick(first.state, rules=rules(), now=after(minutes=1)).drafts == ()


def test_a_warning_degrades_and_opens_no_case() -> None:
    transition = observed(arrival(fault("xid.92")))
    assert recorded(transition) == ["Node Fault Detected", "healthy>degraded"]
    assert transition.state.due_at == after(hours=1)


def test_an_informational_fault_changes_no_status() -> None:
    assert recorded(observed(arrival(fault("xid.31")))) == ["Node Note Recorded"]


def test_an_unknown_code_is_escalated_to_an_operator() -> None:
    transition = observed(arrival(fault("xid.9999")))
    assert transition.state.case is not None
    assert transition.state.case.status is CaseStatus.ESCALATED
    assert (
        "support" in data_of(transition.drafts[-2])["reason"] or "support" in data_of(transition.drafts[-1])["reason"]
    )


def test_the_case_of_a_node_that_recovers_before_isolation_is_resolved() -> None:
    begun = observed(arrival(fault()))
    over = observed(arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)), state=begun.state)
    assert recorded(over) == ["Node Fault Cleared", "degraded>healthy", "queued>resolved"]
    assert over.state.case is not None
    assert over.state.case.resolution is Resolution.RECOVERED
    assert over.state.live_case is None


def test_an_isolated_node_does_not_return_to_service_when_its_fault_ends() -> None:
    begun = observed(arrival(fault()))
    isolated = replace(begun.state, status=NodeStatus.QUARANTINED, isolation=Isolation.CONFIRMED)
    over = observed(arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)), state=isolated)
    assert recorded(over) == ["Node Fault Cleared"]


@pytest.mark.parametrize("status", [NodeStatus.PROVISIONING, NodeStatus.FAILED])
def test_the_case_of_a_node_out_of_service_stays_open_when_its_fault_ends(status: NodeStatus) -> None:
    begun = replace(observed(arrival(fault())).state, status=status)
    over = observed(arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)), state=begun)
    assert recorded(over) == ["Node Fault Cleared"]
    assert over.state.case == begun.case


@pytest.mark.parametrize(
    "registered",
    [{"mode": Mode.OBSERVE}, {"repair_owner": RepairOwner.OBSERVE}],
)
def test_a_cluster_in_observe_mode_gets_no_case(registered) -> None:
    transition = observed(arrival(fault()), config=config(**registered))
    assert recorded(transition) == ["Node Fault Detected", "healthy>degraded"]


@pytest.mark.parametrize(("minutes", "opens"), [(60, True), (61, False), (120, False)])
def test_a_fault_older_than_an_hour_is_recorded_but_opens_no_case(minutes: int, opens: bool) -> None:
    transition = observed(arrival(fault(), at=after(minutes=-minutes)))
    assert recorded(transition)[0] == "Node Fault Detected"
    assert (transition.state.case is not None) is opens
    assert transition.state.status is NodeStatus.DEGRADED


def test_the_own_report_of_a_node_about_an_old_claim_opens_a_case() -> None:
    claimed = observed(arrival(fault(), at=after(hours=-2), claimed=True))
    assert claimed.state.case is None
    proven = observed(arrival(fault()), state=claimed.state)
    assert recorded(proven)[:2] == ["Node Fault Updated", "None>open"]


def test_a_fault_of_unknown_incarnation_degrades_and_never_opens_a_case() -> None:
    transition = observed(arrival(fault(), incarnation=IncarnationMatch.UNKNOWN))
    assert recorded(transition) == ["Node Fault Detected", "healthy>degraded"]


def test_a_waiting_case_is_queued_by_a_tick_after_its_waiting_period() -> None:
    patient = Policy("p", (Rule("patient", Match(codes=("xid.*",)), wait_seconds=90),))
    waiting = observed(arrival(fault()), policy=patient)
    assert recorded(waiting)[-1] == "healthy>degraded"
    assert waiting.state.due_at == after(seconds=90)
    early = tick(waiting.state, rules=rules(policy=patient), now=after(seconds=89))
    due = tick(waiting.state, rules=rules(policy=patient), now=after(seconds=90))
    assert (recorded(early), recorded(due)) == ([], ["open>queued"])
    assert data_of(due.drafts[-1])["reason"] == "waiting period over"


def test_a_case_whose_rule_sets_no_waiting_period_states_that_when_it_is_queued() -> None:
    queued = observed(arrival(fault()))
    assert [data_of(draft)["reason"] for draft in queued.drafts[1:]] == [
        "xid.79",
        "xid.79",
        "no waiting period applies",
    ]


def test_a_rule_overrides_severity_and_action_in_the_entry() -> None:
    mild = Policy("p", (Rule("mild", Match(codes=("xid.79",)), severity=Severity.WARNING, action=Action.NONE),))
    transition = observed(arrival(fault()), policy=mild)
    assert recorded(transition) == ["Node Fault Detected", "healthy>degraded"]
    assert (data_of(transition.drafts[0])["severity"], data_of(transition.drafts[0])["rule"]) == ("warning", "mild")


def test_a_rule_lowers_a_severity_once_and_not_with_each_repetition():
    mild = Policy("p", (Rule("mild", Match(codes=("xid.79",)), severity=Severity.WARNING, action=Action.NONE),))
    begun = observed(arrival(fault()), policy=mild)
    again = observed(arrival(fault(), at=after(minutes=2)), state=begun.state, now=after(minutes=2), policy=mild)
    assert recorded(again) == []
    assert [condition.severity for condition in again.state.active()] == [Severity.WARNING]


def test_a_rule_applies_to_the_reported_severity_and_not_to_the_result_of_another_rule():
    chained = Policy(
        "p",
        (
            Rule("first", Match(severities=(Severity.FATAL,)), severity=Severity.ERROR),
            Rule("second", Match(severities=(Severity.ERROR,)), severity=Severity.WARNING),
        ),
    )
    begun = observed(arrival(fault()), policy=chained)
    later = tick(begun.state, rules=rules(policy=chained), now=after(minutes=1))
    assert [condition.severity for condition in later.state.active()] == [Severity.ERROR]
    assert later.drafts == ()


def test_a_case_without_a_permitted_repair_action_is_escalated() -> None:
    careful = Policy("p", (Rule("careful", repair_actions=(RepairAction.VERIFY, RepairAction.RESET_GPU)),))
    transition = observed(arrival(fault()), policy=careful)
    assert transition.state.case is not None
    assert transition.state.case.status is CaseStatus.ESCALATED


def test_a_second_fault_joins_the_live_case() -> None:
    begun = observed(arrival(fault("xid.48")))
    joined = observed(arrival(fault("xid.79"), at=after(minutes=1)), state=begun.state, now=after(minutes=1))
    assert recorded(joined) == ["Node Fault Detected"]
    assert joined.drafts[0].case_id == begun.state.case.id


def test_the_closing_entry_contains_the_duration_of_each_phase() -> None:
    begun = observed(arrival(fault(), at=after(seconds=-5)))
    over = observed(
        arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=1)),
        state=begun.state,
        now=after(minutes=2),
    )
    assert data_of(over.drafts[-1])["phases"] == {"detected": 5000, "open": 0, "queued": 120_000}


@pytest.mark.parametrize(
    ("rebooted", "codes"), [(False, ["smi.row_remap_pending", "xid.48", "xid.92"]), (True, ["xid.48", "xid.92"])]
)
def test_a_reboot_ends_the_faults_of_the_previous_boot_and_none_that_is_reported_with_it(
    rebooted: bool, codes: list[str]
) -> None:
    before = observed(arrival(fault("smi.row_remap_pending")), arrival(fault("xid.48"))).state
    later, new = after(minutes=5), arrival(fault("xid.92"), after(minutes=5), "r-2")
    booted_at = later if rebooted else None
    state = observe(before, [new], rules=rules(), catalog=CATALOG, now=later, booted_at=booted_at).state
    assert sorted(condition.code for condition in state.active()) == codes
