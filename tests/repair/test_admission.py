"""What is recorded about a queued case that is admitted, refused, escalated, or suppressed by a dry run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.admit import Refused
from faultbridge.model.cases import Approval
from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Rule
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.repair.dispatch import (
    ReadyCase,
    apply_dry_run,
    ask_operator,
    escalate_queued,
    record_refusal,
    resolve_dry_run,
    take_slots,
)
from tests.builders import KEY, NOON, after, data_of, node, rules
from tests.repair.builders import queued


def refused(waiting_for: WaitingFor, reason: str = "first", before: WaitingFor | None = None, **others: Any) -> Refused:
    """Return the refusal of the queued case, whose row states that it waited for `before`."""
    row = QueuedCase(KEY, "c-1", RepairAction.REPLACE_NODE, 0, NOON, before, reason="first", **others)
    return Refused(row, waiting_for, reason)


CASE = queued().case
assert CASE is not None
OTHERS = [node(case=one) for one in (None, replace(CASE, id="c-2"), replace(CASE, status=CaseStatus.IN_PROGRESS))]
"""Nodes without the queued case that a decision is about."""


@pytest.mark.parametrize("state", OTHERS)
def test_a_decision_about_a_case_that_is_no_longer_queued_changes_nothing(state: NodeState) -> None:
    for moved in (
        record_refusal(state, refused(WaitingFor.BUDGET), Rule("r"), NOON),
        escalate_queued(state, "c-1", "denied", NOON),
        resolve_dry_run(state, "c-1", RepairAction.REPLACE_NODE, "", NOON),
        apply_dry_run(state, "c-1", rules(), NOON),
    ):
        assert (moved.state, moved.drafts) == (state, ())


def test_a_queued_case_is_escalated_with_its_reason() -> None:
    case = escalate_queued(queued(), "c-1", "denied", NOON).state.case
    assert case is not None
    assert (case.status, case.reason, case.waiting_for) == (CaseStatus.ESCALATED, "denied", None)


@pytest.mark.parametrize(
    ("before", "waiting_for", "reason", "recorded"),
    [
        (None, WaitingFor.PAUSE, "first", True),
        (WaitingFor.PAUSE, WaitingFor.PAUSE, "another", False),
        (WaitingFor.BUDGET, WaitingFor.BUDGET, "first", False),
        (WaitingFor.BUDGET, WaitingFor.BUDGET, "another", True),
        (WaitingFor.BREAKER, WaitingFor.BUDGET, "first", True),
    ],
)
def test_a_refusal_is_recorded_when_the_case_waits_for_something_else(
    before: WaitingFor | None, waiting_for: WaitingFor, reason: str, recorded: bool
) -> None:
    refusal = refused(waiting_for, reason, before)
    assert refusal.recorded is not recorded
    moved = record_refusal(queued(waiting_for=before), refusal, Rule("r"), NOON)
    assert bool(moved.drafts) is recorded
    assert moved.state.case is not None
    assert (moved.state.case.waiting_for, moved.state.case.reason) == (waiting_for, reason if recorded else "first")


@pytest.mark.parametrize("pending", [True, False])
def test_a_missing_approval_is_asked_for_once(pending: bool) -> None:
    request = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=24)) if pending else None
    state = queued(waiting_for=WaitingFor.APPROVAL, approval=request)
    refusal = refused(WaitingFor.APPROVAL, before=WaitingFor.APPROVAL, approval_pending=pending)
    assert refusal.recorded is pending
    moved = record_refusal(state, refusal, Rule("r"), NOON)
    assert bool(moved.drafts) is not pending
    assert moved.state.case is not None
    assert moved.state.case.pending_approval is not None


@pytest.mark.parametrize(
    "others", [{"cancelled": True}, {"approval": Approval(1, RepairAction.REPLACE_NODE, NOON, NOON, True)}]
)
def test_no_approval_is_asked_for_a_case_that_was_canceled_or_approved_meanwhile(others: dict[str, Any]) -> None:
    state = queued(**others)
    moved = record_refusal(state, refused(WaitingFor.APPROVAL), Rule("r"), NOON)
    assert (moved.state, moved.drafts) == (state, ())


@pytest.mark.parametrize(
    ("status", "mode", "action", "result"),
    [
        (NodeStatus.DEGRADED, Mode.DRY_RUN, RepairAction.REPLACE_NODE, CaseStatus.RESOLVED),
        (NodeStatus.DEGRADED, Mode.ACT, RepairAction.REPLACE_NODE, CaseStatus.RESOLVED),
        (NodeStatus.QUARANTINED, Mode.DRY_RUN, RepairAction.REPLACE_NODE, CaseStatus.QUEUED),
        (NodeStatus.QUARANTINED, Mode.ACT, RepairAction.VERIFY, CaseStatus.QUEUED),
        (NodeStatus.QUARANTINED, Mode.ACT, RepairAction.REPLACE_NODE, CaseStatus.ESCALATED),
    ],
)
def test_a_dry_run_leaves_no_node_out_of_service_without_a_case(
    status: NodeStatus, mode: Mode, action: RepairAction, result: CaseStatus
) -> None:
    given = rules()
    given = replace(given, config=replace(given.config, mode=mode))
    case = apply_dry_run(queued(status, repair_action=action), "c-1", given, NOON).state.case
    assert case is not None
    assert case.status is result
    assert (case.resolution is Resolution.DRY_RUN) is (result is CaseStatus.RESOLVED)


@pytest.mark.parametrize(("rule", "named"), [(None, "r"), ("another", "another")])
def test_a_request_for_an_approval_names_the_rule_that_requires_it(rule: str | None, named: str) -> None:
    moved = ask_operator(queued(), RepairAction.REPLACE_NODE, "may be replaced", NOON, after(hours=1), rule=rule)
    assert [data_of(draft)["facts"]["rule"] for draft in moved.drafts] == [named]


def test_a_canceled_case_asks_only_about_a_verification() -> None:
    for action in (RepairAction.REPLACE_NODE, RepairAction.VERIFY):
        moved = ask_operator(queued(cancelled=True), action, "may be replaced", NOON, after(hours=1))
        assert bool(moved.drafts) is (action is RepairAction.VERIFY)


def test_a_request_for_an_approval_names_the_instance() -> None:
    moved = ask_operator(queued(), RepairAction.REPLACE_NODE, "may be replaced", NOON, after(hours=1))
    assert [data_of(draft)["facts"]["instance_id"] for draft in moved.drafts] == ["i-0aaaaaaaaaaaaaaa1"]


@pytest.mark.parametrize(("rule", "governed_by"), [(None, ("earlier",)), ("another", ("earlier", "another"))])
def test_a_rule_that_requires_an_approval_governs_the_case_from_then_on(
    rule: str | None, governed_by: tuple[str, ...]
) -> None:
    state = queued(governed_by=("earlier",))
    asked = ask_operator(state, RepairAction.REPLACE_NODE, "may be replaced", NOON, after(hours=1), rule=rule)
    assert asked.state.case is not None
    assert asked.state.case.governed_by == governed_by


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (RepairAction.REBOOT_NODE, "would have started reboot_node: as ruled"),
        (None, "would have escalated to an operator: as ruled"),
    ],
)
def test_a_dry_run_names_the_repair_action_that_it_suppresses(action: RepairAction | None, text: str) -> None:
    moved = resolve_dry_run(queued(NodeStatus.DEGRADED), "c-1", action, "as ruled", NOON)
    assert data_of(moved.drafts[0])["text"] == text


def ready(action: RepairAction, case_id: str = "c-1") -> ReadyCase:
    """Return the queued case, which may be admitted with a repair action."""
    case = replace(CASE, id=case_id)
    return ReadyCase(node(NodeStatus.QUARANTINED, case=case), case, action, ("r",))


def test_a_repair_takes_a_slot_and_counts_as_started_but_a_verification_does_not() -> None:
    control = Control(KEY.cluster, starts=(after(minutes=-61), after(minutes=-59)))
    both = [ready(RepairAction.REPLACE_NODE), ready(RepairAction.VERIFY, "c-2")]
    assert take_slots(control, both, NOON).set == {
        ("holders", "c-1"): to_text(NOON),
        ("starts",): [to_text(after(minutes=-59)), to_text(NOON)],
    }


@pytest.mark.parametrize(
    ("ended", "action", "stored"),
    [
        (timedelta(minutes=1), RepairAction.REPLACE_NODE, {"gpu-workers": to_text(after(minutes=5))}),
        (timedelta(minutes=1), RepairAction.REBOOT_NODE, None),
        (timedelta(minutes=119), RepairAction.REBOOT_NODE, None),
        (timedelta(minutes=120), RepairAction.REBOOT_NODE, {}),
    ],
    ids=["tried again", "not tried", "not forgotten yet", "forgotten"],
)
def test_a_group_without_capacity_is_tried_once_in_five_minutes_and_forgotten_after_two_hours(
    ended: timedelta, action: RepairAction, stored: dict[str, str] | None
) -> None:
    control = Control(KEY.cluster, no_capacity_until={"gpu-workers": NOON - ended})
    assert take_slots(control, [ready(action)], NOON).set.get(("no_capacity_until",)) == stored
