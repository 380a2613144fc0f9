"""Claims of listed senders: they begin conditions of their own kind, and add no weight to confirmed ones."""

from __future__ import annotations

import pytest

from faultbridge.decide.fold.claims import confirm_claims
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.governing_rules import (
    believed,
    choose_repair_action,
    required_repair_action,
    rests_on_claims,
    unconfirmed,
    without_claims,
)
from faultbridge.decode.data import load_catalog
from faultbridge.model.cases import Approval
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import OF_SYSLOG
from tests.builders import GPU, NOON, OTHER_GPU, POLICY, after, arrival, case, fault, folded, node


def only(state: NodeState):
    (condition,) = state.conditions.values()
    return condition


def test_a_condition_is_claimed_until_another_reporter_asserts_it():
    claimed = folded(node(), arrival(fault(), claimed=True)).state
    assert only(claimed).claimed
    confirmed = folded(claimed, arrival(fault(), after(seconds=1))).state
    assert not only(confirmed).claimed


def test_a_claim_that_was_withdrawn_counts_when_it_is_made_again():
    both = folded(node(), arrival(fault()), arrival(fault(source="dcgm"), claimed=True)).state
    withdrawn = folded(both, arrival(Clear("dcgm", "xid.79", GPU, "over"), after(seconds=1))).state
    assert only(withdrawn).sources == {"kernel-log"}
    again = folded(withdrawn, arrival(fault(source="dcgm"), after(seconds=2), claimed=True)).state
    assert only(again).sources == {"kernel-log", "dcgm"}


@pytest.mark.parametrize("seconds", [0, -30])
def test_a_claim_hides_no_report_of_the_node_itself_by_its_time(seconds):
    claimed = folded(node(), arrival(fault(), NOON, claimed=True)).state
    assert not only(folded(claimed, arrival(fault(), after(seconds=seconds))).state).claimed


def test_a_claim_makes_a_confirmed_fault_neither_stronger_nor_more_frequent():
    confirmed = folded(node(), arrival(fault("xid.48", action=Action.RESET_GPU))).state
    worse = fault("xid.48", source="dcgm", action=Action.REPLACE_NODE, count=100)
    condition = only(folded(confirmed, arrival(worse, after(seconds=1), claimed=True)).state)
    assert (condition.as_reported.action, condition.count) == (Action.RESET_GPU, 1)
    assert condition.sources == {"kernel-log", "dcgm"}
    assert not condition.claimed


def test_what_was_claimed_about_a_fault_counts_no_more_once_the_node_reports_it():
    worse = fault("xid.48", action=Action.REPLACE_NODE, count=100)
    claimed = folded(node(), arrival(worse, claimed=True)).state
    proven = fault("xid.48", severity=Severity.WARNING, action=Action.RESET_GPU)
    condition = only(folded(claimed, arrival(proven, after(seconds=1))).state)
    assert (condition.action, condition.as_reported.action, condition.count) == (Action.RESET_GPU, Action.RESET_GPU, 1)
    assert (condition.severity, condition.as_reported.severity) == (Severity.WARNING, Severity.WARNING)


def test_a_failed_verification_confirms_claims_about_the_boot_that_failed_only():
    claimed = folded(node(), arrival(fault(), claimed=True)).state
    since = claimed.incarnation.since
    assert believed(claimed) == without_claims(claimed)
    assert believed(confirm_claims(claimed, since)) == confirm_claims(claimed, since)
    before = confirm_claims(claimed, since.replace(year=since.year - 1))
    assert believed(before) == without_claims(before)


def test_a_failed_verification_confirms_no_condition_that_is_claimed_later():
    state = confirm_claims(folded(node(), arrival(fault("xid.48"), claimed=True)).state, NOON)
    assert not rests_on_claims(state, case(RepairAction.REBOOT_NODE))
    later = folded(state, arrival(fault("xid.79"), after(minutes=1), claimed=True)).state
    assert [one.code for one in believed(later).active()] == ["xid.48"]
    assert required_repair_action(later, case(RepairAction.VERIFY), POLICY) is RepairAction.REPLACE_NODE
    weak = confirm_claims(folded(node(), arrival(fault("xid.48", action=Action.RESET_GPU), claimed=True)).state, NOON)
    later = folded(weak, arrival(fault("xid.79"), after(minutes=1), claimed=True)).state
    assert required_repair_action(later, case(RepairAction.VERIFY), POLICY) is RepairAction.RESET_GPU
    assert unconfirmed(later, case(RepairAction.REPLACE_NODE), POLICY)
    assert not unconfirmed(later, case(RepairAction.RESET_GPU), POLICY)


def test_a_later_claim_of_a_confirmed_condition_makes_it_neither_stronger_nor_more_frequent():
    state = confirm_claims(folded(node(), arrival(fault("xid.48", action=Action.RESET_GPU), claimed=True)).state, NOON)
    worse = fault("xid.48", source="dcgm", action=Action.REPLACE_NODE, count=100)
    condition = only(folded(state, arrival(worse, after(seconds=1), claimed=True)).state)
    assert (condition.as_reported.action, condition.count, condition.confirmed_at) == (Action.RESET_GPU, 1, NOON)


@pytest.mark.parametrize("first", ["claim", "proof"])
def test_a_report_of_the_node_that_names_no_code_does_not_prove_a_claim_that_does(first: str):
    claim = arrival(fault(source="prometheus"), after(seconds=first == "proof"), claimed=True)
    proof = arrival(fault("agent.gpu_unhealthy", NODE_COMPONENT, source="gpud"), after(seconds=first == "claim"))
    catalog = load_catalog()
    state = fold(node(), [claim, proof], now=NOON, catalog=catalog, limits=Limits()).state
    assert {one.code: one.claimed for one in state.active()} == {"xid.79": True, "agent.gpu_unhealthy": False}


def test_a_case_whose_repair_an_operator_approved_rests_on_no_claim():
    claimed = folded(node(), arrival(fault(), claimed=True)).state
    assert rests_on_claims(claimed, case(RepairAction.REPLACE_NODE))
    approval = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1), granted=True)
    assert not rests_on_claims(claimed, case(RepairAction.REPLACE_NODE, approval=approval))


def requiring(claimed: Action | None, proven: Action | None) -> NodeState:
    """Return a node with a claimed and a proven condition that require these actions."""
    claim = [arrival(fault("xid.48", action=claimed), claimed=True)] if claimed else []
    return folded(node(), *claim, *([arrival(fault("xid.79", OTHER_GPU, action=proven))] if proven else [])).state


def test_a_node_without_its_claims_keeps_its_proven_conditions():
    both = requiring(Action.REPLACE_NODE, Action.RESET_GPU)
    assert [one.code for one in without_claims(both).active()] == ["xid.79"]
    assert without_claims(requiring(Action.REPLACE_NODE, None)).conditions == {}
    proven = requiring(None, Action.RESET_GPU)
    assert without_claims(proven) == proven


RESET, REBOOT, REPLACE = Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE


@pytest.mark.parametrize(
    ("claimed", "proven", "repair_action", "verified_first"),
    [
        (REPLACE, None, RepairAction.REPLACE_NODE, True),
        (RESET, None, RepairAction.REPLACE_NODE, True),
        (REPLACE, RESET, RepairAction.REPLACE_NODE, True),
        (REPLACE, Action.RUN_DIAGNOSTICS, RepairAction.RESET_GPU, True),
        (REPLACE, RESET, RepairAction.RESET_GPU, False),
        (RESET, REBOOT, RepairAction.REPLACE_NODE, False),
        (REPLACE, REPLACE, RepairAction.REPLACE_NODE, False),
        (None, RESET, RepairAction.REPLACE_NODE, False),
    ],
)
def test_a_repair_action_that_only_claims_require_is_confirmed_by_a_verification_first(
    claimed, proven, repair_action, verified_first
):
    state = requiring(claimed, proven)
    assert unconfirmed(state, case(repair_action), POLICY) is verified_first
    chosen = choose_repair_action(state, case(repair_action), POLICY).repair_action
    assert chosen is (RepairAction.VERIFY if verified_first else repair_action)
    approval = Approval(1, repair_action, NOON, after(hours=1), granted=True)
    assert not unconfirmed(state, case(repair_action, approval=approval), POLICY)
    assert not unconfirmed(confirm_claims(state, NOON), case(repair_action), POLICY)


@pytest.mark.parametrize(("claimed", "remaining"), [(False, 1), (True, 0)])
def test_text_of_syslog_ends_only_a_fault_that_was_claimed(claimed, remaining):
    begun = folded(node(), arrival(fault(), claimed=claimed)).state
    forged = Clear("kernel-log", "xid.79", GPU, "over", attributes={**OF_SYSLOG, "uptime": "1"})
    assert len(folded(begun, arrival(forged, after(seconds=1), claimed=True)).state.conditions) == remaining
