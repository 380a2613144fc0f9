"""Cases: their ids and approvals, and which repairs and instances of a node belong to an earlier attempt."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from faultbridge.model.cases import EXTERNAL, INSTANCE_ADDED, Approval, Attempt, Case, Phase, case_id
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import incident_id
from faultbridge.model.enums import CaseStatus, DomainKind, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Family, Severity
from faultbridge.model.findings import finding_id
from faultbridge.model.nodes import Incarnation, NodeState, is_faulty, is_former, is_repeated, is_replaced
from faultbridge.model.values import replace
from tests.builders import GPU, KEY, NOON, STACK_ID, after, arrival, fault, folded, node

APPROVAL = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))


def case(status: CaseStatus = CaseStatus.QUEUED, **others) -> Case:
    """Build a case of a lost GPU that was opened at noon."""
    given = {"repair_action": RepairAction.REPLACE_NODE, "rule": "default", "policy": "p"} | others
    return Case("c-1", status, NOON, "xid.79", GPU, Severity.FATAL, Action.REPLACE_NODE, **given)


def test_ids_have_the_documented_number_of_base32_characters() -> None:
    rack = FailureDomain(DomainKind.RACK, "r-1")
    assert re.fullmatch("c-[a-z2-7]{26}", case_id(STACK_ID, *KEY, 1, 1))
    assert re.fullmatch("inc-[a-z2-7]{16}", incident_id(STACK_ID, KEY.cluster, Family.NETWORK, rack, NOON))
    assert re.fullmatch("f-[a-z2-7]{16}", finding_id(*KEY, "nvlink-crc", NOON))


@pytest.mark.parametrize(
    ("status", "granted", "pending"),
    [
        (CaseStatus.QUEUED, None, True),
        (CaseStatus.QUEUED, True, False),
        (CaseStatus.QUEUED, False, False),
        (CaseStatus.IN_PROGRESS, None, False),
    ],
)
def test_an_approval_request_is_pending_while_a_queued_case_has_no_answer(
    status: CaseStatus, granted: bool | None, pending: bool
) -> None:
    asked = replace(APPROVAL, granted=granted)
    assert case(status, approval=asked).pending_approval == (asked if pending else None)
    assert case(status).pending_approval is None


@pytest.mark.parametrize(
    ("granted", "repair_action", "attempts", "approved"),
    [
        (True, RepairAction.REPLACE_NODE, 0, True),
        (True, RepairAction.REPLACE_NODE, 1, False),
        (True, RepairAction.REBOOT_NODE, 0, False),
        (False, RepairAction.REPLACE_NODE, 0, False),
        (None, RepairAction.REPLACE_NODE, 0, False),
    ],
)
def test_an_approval_counts_for_its_own_repair_action_and_attempt_only(
    granted: bool | None, repair_action: RepairAction, attempts: int, approved: bool
) -> None:
    asked = replace(APPROVAL, granted=granted)
    assert case(approval=asked, repair_action=repair_action, attempts=attempts).approved is approved
    assert not case().approved


@pytest.mark.parametrize(
    ("code", "marks", "before_service", "unrequested"),
    [
        ("xid.79", {}, False, False),
        ("xid.79", {EXTERNAL: NOON}, False, True),
        (INSTANCE_ADDED, {}, True, True),
    ],
)
def test_an_instance_that_joined_without_faultbridge_may_run_work(
    code: str, marks: dict[str, datetime], before_service: bool, unrequested: bool
) -> None:
    joined = replace(case(marks=marks), code=code)
    assert (joined.before_service, joined.unrequested_instance) == (before_service, unrequested)


@pytest.mark.parametrize(
    ("status", "waiting_for", "awaits"),
    [
        (CaseStatus.OPEN, WaitingFor.CORRELATION, True),
        (CaseStatus.OPEN, WaitingFor.WAIT, False),
        (CaseStatus.QUEUED, WaitingFor.CORRELATION, False),
    ],
)
def test_an_open_case_awaits_correlation_only_if_it_waits_for_it(
    status: CaseStatus, waiting_for: WaitingFor, awaits: bool
) -> None:
    assert case(status, waiting_for=waiting_for).awaits_correlation is awaits


@pytest.mark.parametrize(
    ("isolate", "relapse_of", "kept"), [(True, "c-0", True), (True, None, False), (False, "c-0", False)]
)
def test_a_relapse_keeps_its_node_out_of_service_unless_its_rule_leaves_it_in(
    isolate: bool, relapse_of: str | None, kept: bool
) -> None:
    assert case(isolate=isolate, relapse_of=relapse_of).keeps_out is kept


@pytest.mark.parametrize(
    ("status", "repair_action", "failed"),
    [
        (CaseStatus.ESCALATED, RepairAction.REBOOT_NODE, True),
        (CaseStatus.ESCALATED, RepairAction.VERIFY, False),
        (CaseStatus.IN_PROGRESS, RepairAction.REBOOT_NODE, False),
        (CaseStatus.RESOLVED, RepairAction.REBOOT_NODE, False),
    ],
)
def test_only_an_escalated_repair_that_took_a_slot_has_failed(
    status: CaseStatus, repair_action: RepairAction, failed: bool
) -> None:
    attempted = case(status, repair_action=repair_action, attempt=Attempt(1, Phase.ACTED, since=after(minutes=5)))
    assert node(case=attempted).failed_step_at == (after(minutes=5) if failed else None)
    assert node(case=replace(attempted, attempt=None)).failed_step_at is None
    assert node().failed_step_at is None


@pytest.mark.parametrize(
    ("phase", "others", "status", "repeated"),
    [
        (Phase.INTENT, {}, NodeStatus.QUARANTINED, True),
        (Phase.VERIFYING, {}, NodeStatus.QUARANTINED, True),
        (Phase.DRAINING, {}, NodeStatus.QUARANTINED, False),
        (Phase.INTENT, {"cancelled": True}, NodeStatus.QUARANTINED, False),
        (Phase.INTENT, {}, NodeStatus.PROVISIONING, False),
    ],
)
def test_a_repair_is_repeated_if_an_attempt_of_its_case_acted_or_verified_and_the_instance_is_still_there(
    phase: Phase, others: dict, status: NodeStatus, repeated: bool
) -> None:
    assert is_repeated(node(status, case=case(marks={phase.value: NOON}, **others))) is repeated
    assert not is_repeated(node(status))


def with_instance(number: int, boot: int, minutes: int, *, marks: tuple[Phase, ...] = (Phase.INTENT,)) -> NodeState:
    """Return a node with a fault of noon whose case was opened at noon and whose instance began `minutes` later."""
    incarnation = Incarnation(number, boot, f"i-0000000{number}", None, after(minutes=minutes))
    faulty = folded(node(), arrival(fault())).state
    return replace(faulty, incarnation=incarnation, case=case(marks={phase.value: NOON for phase in marks}))


@pytest.mark.parametrize(
    ("state", "replaced"),
    [
        (with_instance(2, 1, 5), True),
        (with_instance(2, 1, 0), True),
        (with_instance(2, 1, -1), False),
        (with_instance(1, 1, 5), False),
        (with_instance(2, 2, 5), False),
        (with_instance(2, 1, 5, marks=()), False),
        (replace(with_instance(2, 1, 5), case=None), False),
        (replace(with_instance(2, 1, 5), incarnation=None), False),
    ],
)
def test_an_instance_is_new_if_it_began_after_the_intent_of_its_case_and_has_not_rebooted(
    state: NodeState, replaced: bool
) -> None:
    assert is_replaced(state) is replaced


@pytest.mark.parametrize(("minutes", "former"), [(-1, True), (0, True), (1, False)])
def test_a_fault_is_about_the_former_instance_until_the_new_one_begins(minutes: int, former: bool) -> None:
    state = with_instance(2, 1, 10)
    (condition,) = state.active()
    condition = replace(condition, last_at=after(minutes=10 + minutes))
    assert is_former(state, condition) is former
    assert is_faulty(replace(state, conditions={"only": condition})) is not former
    assert not is_former(replace(state, case=None), condition)


def test_a_fault_that_needs_no_case_makes_no_instance_faulty() -> None:
    assert not is_faulty(folded(node(), arrival(fault("xid.92"))).state)
    assert is_faulty(folded(node(), arrival(fault())).state)
