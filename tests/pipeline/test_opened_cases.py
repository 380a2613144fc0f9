"""Opened cases: what a case states about its fault, its rule and its node when it is opened."""

from __future__ import annotations

import pytest

from faultbridge.model.cases import Case, case_id
from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import NodeState, Placement, Probation
from faultbridge.model.policy import Match, Policy, Rule
from tests.builders import GPU, KEY, OTHER_GPU, STACK_ID, after, arrival, data_of, fault, node
from tests.pipeline.builders import observed

RELAPSE = "relapse after reset_gpu of case c-0"


def opened(state: NodeState | None = None, *, severity: Severity = Severity.FATAL, **given: object) -> Case:
    """Return the case that a fault of this severity opens."""
    case = observed(arrival(fault(severity=severity)), state=state, **given).state.live_case
    assert case is not None
    return case


def on_probation() -> NodeState:
    """Return a node whose GPU was reset for the same fault."""
    return node(probations=(Probation("c-0", "xid.79", GPU, RepairAction.RESET_GPU, 1, after(hours=24)),))


@pytest.mark.parametrize(
    ("severity", "rule_isolates", "isolates"),
    [
        (Severity.FATAL, True, True),
        (Severity.ERROR, True, True),
        (Severity.WARNING, True, False),
        (Severity.ERROR, False, False),
        (Severity.WARNING, False, False),
    ],
)
def test_a_case_isolates_the_node_for_an_error_or_worse_if_its_rule_does(
    severity: Severity, rule_isolates: bool, isolates: bool
) -> None:
    policy = Policy("p", (Rule("r", isolate=rule_isolates),))
    assert opened(severity=severity, policy=policy).isolate is isolates


@pytest.mark.parametrize(("state", "reason"), [(node(), "xid.79"), (on_probation(), f"xid.79: {RELAPSE}")])
def test_a_case_is_opened_for_its_fault_and_names_the_repair_that_did_not_last(state: NodeState, reason: str) -> None:
    moves = [
        data_of(draft) for draft in observed(arrival(fault()), state=state).drafts if data_of(draft).get("to") == "open"
    ]
    assert [one["reason"] for one in moves] == [reason]


@pytest.mark.parametrize(
    ("state", "action", "reason"),
    [
        (node(), Action.REPLACE_NODE, "rule r permits no repair action for replace_node"),
        (node(), Action.CONTACT_SUPPORT, "xid.79 needs support: no automatic repair is known"),
        (
            on_probation(),
            Action.RESET_GPU,
            f"xid.79: {RELAPSE}; rule r permits no stronger repair action",
        ),
    ],
)
def test_a_case_without_a_repair_states_why_an_operator_must_act(state: NodeState, action: Action, reason: str) -> None:
    policy = Policy("p", (Rule("r", Match(), action=action, repair_actions=(RepairAction.RESET_GPU,)),))
    case = opened(state, policy=policy)
    assert (case.status, case.reason) == (CaseStatus.ESCALATED, reason)


@pytest.mark.parametrize(
    ("instance_type", "devices", "gpus"),
    [
        ("p5.48xlarge", (), 8),
        ("ml.p5.48xlarge", (), 8),
        ("p5.48xlarge", (GPU, OTHER_GPU), 8),
        ("g9.xlarge", (GPU, OTHER_GPU), 2),
        (None, (GPU, OTHER_GPU), 2),
        ("g9.xlarge", (), None),
    ],
)
def test_a_case_has_the_number_of_gpus_of_the_instance_type_or_else_of_the_recorded_devices(
    instance_type: str | None, devices: tuple, gpus: int | None
) -> None:
    state = node(placement=Placement(group="g", instance_type=instance_type), devices=devices)
    assert opened(state, gpus={"p5.48xlarge": 8}).gpus == gpus


def test_the_id_of_a_case_comes_from_the_position_of_the_first_entry_of_its_transition() -> None:
    state = node()
    assert opened(state).id == case_id(STACK_ID, KEY.cluster, KEY.node, state.head.epoch, state.head.sequence + 1)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [(Policy("p"), [None, "admission"]), (Policy("p", (Rule("r", wait_seconds=90),)), ["wait"])],
    ids=["no waiting period", "a waiting period"],
)
def test_a_case_waits_for_admission_at_once_unless_its_rule_sets_a_waiting_period(
    policy: Policy, waits: list[str | None]
) -> None:
    found = map(data_of, observed(arrival(fault()), policy=policy).drafts)
    assert [one["waiting_for"] for one in found if "waiting_for" in one] == waits
