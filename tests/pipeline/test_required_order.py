"""The command that a node waits for leads on: a node that nothing can replace is not only returned."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.decide.answers import node_answer
from faultbridge.model.cases import Approval, Case, Reason
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import Breaker, BreakerState, Control, Pause
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import Ignored, NodeState, Placement
from faultbridge.model.values import replace
from tests.builders import GPU, KEY, NOON, after, config, node


def command(group: str | None, action: RepairAction, attempts: int) -> str:
    """The command for a failed node with an escalated case."""
    case = Case(
        id="c-1", status=CaseStatus.ESCALATED, opened_at=after(), code="xid.79", component=GPU, severity=Severity.FATAL,
        action=Action.REPLACE_NODE, repair_action=action, rule="catalog", policy="packaged", attempts=attempts,
        because=Reason("the node has no group to replace it from", "NOT_FOUND"),
    )  # fmt: skip
    state = node(NodeStatus.FAILED, case=case, placement=Placement(group=group))
    return node_answer(state, config(), Control(KEY.cluster), after()).commands[0]


def test_a_node_without_a_group_needs_its_group_before_it_is_replaced() -> None:
    expected = f"faultbridge node add --cluster {KEY.cluster} --node {KEY.node} --group GROUP"
    assert command(None, RepairAction.REPLACE_NODE, 1) == expected


@pytest.mark.parametrize(
    ("group", "action", "attempts"),
    [
        ("gpu-workers", RepairAction.REPLACE_NODE, 1),
        (None, RepairAction.VERIFY, 2),
        (None, RepairAction.REPLACE_NODE, 0),
    ],
)
def test_every_other_escalated_node_is_returned_through_its_verification(
    group: str | None, action: RepairAction, attempts: int
) -> None:
    assert command(group, action, attempts) == f"faultbridge node return {KEY.node} --cluster {KEY.cluster}"


def with_case(status: CaseStatus, node_status: NodeStatus = NodeStatus.QUARANTINED, **others: Any) -> NodeState:
    """Return a node with a case of a lost GPU."""
    given = {"repair_action": RepairAction.REPLACE_NODE, "rule": "r", "policy": "p", "because": Reason("why")} | others
    case = Case("c-1", status, NOON, "xid.79", GPU, Severity.FATAL, Action.REPLACE_NODE, **given)
    return node(node_status, case=case)


def order_of(state: NodeState, settings: ClusterConfig | None = None, control: Control | None = None) -> str | None:
    """Return the command that a node waits for at noon."""
    found = node_answer(state, settings or config(), control or Control(KEY.cluster), NOON)
    return found.commands[0] if found.needs_you else None


ON_NODE = f"{KEY.node} --cluster {KEY.cluster}"
QUEUED = with_case(CaseStatus.QUEUED)
IGNORED = Ignored("ada", NOON, reason="test")
ASKED = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))
STAYS_OPEN = Breaker(BreakerState.OPEN, NOON, opened=(NOON,) * 3, stays_open=True)


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (node(None), None),
        (node(NodeStatus.RETIRED), None),
        (node(NodeStatus.HEALTHY), None),
        (node(NodeStatus.PROVISIONING), f"faultbridge node retire {ON_NODE}"),
        (node(NodeStatus.FAILED), f"faultbridge node retire {ON_NODE}"),
        (with_case(CaseStatus.OPEN), None),
        (with_case(CaseStatus.IN_PROGRESS), None),
        (QUEUED, None),
        (with_case(CaseStatus.RESOLVED, NodeStatus.HEALTHY), None),
        (replace(QUEUED, ignored=IGNORED), f"faultbridge node ignore {ON_NODE} --end"),
        (replace(QUEUED, ignored=replace(IGNORED, until=after(hours=1))), None),
        (
            replace(QUEUED, ignored=replace(IGNORED, by="label")),
            "aws ec2 delete-tags --resources i-0aaaaaaaaaaaaaaa1 --tags Key=faultbridge:opt-out",
        ),
        (
            replace(QUEUED, ignored=replace(IGNORED, by="label", kubernetes_node="ip-10-0-0-7")),
            "kubectl label node ip-10-0-0-7 faultbridge/opt-out-",
        ),
        (
            with_case(CaseStatus.QUEUED, approval=ASKED),
            "faultbridge case approve c-1 --repair-action replace_node",
        ),
        (with_case(CaseStatus.QUEUED, approval=replace(ASKED, granted=True)), None),
        (replace(node(NodeStatus.DEGRADED), isolation=Isolation.REQUESTED), None),
        (
            replace(node(NodeStatus.DEGRADED), isolation=Isolation.REQUESTED, ignored=IGNORED),
            f"faultbridge node ignore {ON_NODE} --end",
        ),
        (replace(node(NodeStatus.DEGRADED), ignored=IGNORED), None),
    ],
)
def test_a_node_that_continues_by_itself_needs_no_command(state: NodeState, command: str | None) -> None:
    assert order_of(state) == command


@pytest.mark.parametrize(
    ("owner", "mode", "command"),
    [
        (RepairOwner.FAULTBRIDGE, Mode.ACT, None),
        (RepairOwner.PROVIDER, Mode.ACT, None),
        (RepairOwner.FAULTBRIDGE, Mode.DRY_RUN, "--mode act"),
        (RepairOwner.FAULTBRIDGE, Mode.OBSERVE, "--mode act"),
        (RepairOwner.OBSERVE, Mode.ACT, "--mode act --repair-owner faultbridge"),
    ],
)
def test_a_case_of_a_cluster_in_which_faultbridge_may_not_act_needs_its_permission(
    owner: RepairOwner, mode: Mode, command: str | None
) -> None:
    settings = config(repair_owner=owner, mode=mode)
    expected = command and f"faultbridge cluster set {KEY.cluster} {command}"
    isolated = replace(node(NodeStatus.DEGRADED), isolation=Isolation.REQUESTED)
    assert [order_of(state, settings) for state in (QUEUED, isolated)] == [expected, expected]
    returned = f"faultbridge node return {ON_NODE}"
    assert order_of(with_case(CaseStatus.ESCALATED), settings) == (expected or returned)


@pytest.mark.parametrize(("status", "needed"), [(NodeStatus.DEGRADED, False), (NodeStatus.QUARANTINED, True)])
def test_a_dry_run_ends_the_case_of_a_node_in_service_by_itself(status: NodeStatus, needed: bool) -> None:
    dry_run = config(mode=Mode.DRY_RUN)
    assert (order_of(with_case(CaseStatus.QUEUED, status), dry_run) is not None) is needed


@pytest.mark.parametrize(
    ("control", "action", "command"),
    [
        (
            Control(KEY.cluster, pauses={"ada": Pause(NOON)}),
            RepairAction.VERIFY,
            f"faultbridge resume --cluster {KEY.cluster}",
        ),
        (
            Control(KEY.cluster, breakers={"cluster": STAYS_OPEN}),
            RepairAction.REBOOT_NODE,
            f"faultbridge breaker --cluster {KEY.cluster} --close",
        ),
        (Control(KEY.cluster, breakers={"cluster": STAYS_OPEN}), RepairAction.VERIFY, None),
        (
            Control(KEY.cluster, breakers={"cluster": replace(STAYS_OPEN, stays_open=False)}),
            RepairAction.REBOOT_NODE,
            None,
        ),
    ],
)
def test_a_pause_and_a_breaker_that_stays_open_are_ended_by_an_operator(
    control: Control, action: RepairAction, command: str | None
) -> None:
    assert order_of(with_case(CaseStatus.QUEUED, repair_action=action), control=control) == command


def test_the_answer_to_a_pause_names_the_command_that_also_ends_the_pauses_of_others() -> None:
    paused = Control(KEY.cluster, pauses={"ada": Pause(NOON)})
    answer = node_answer(with_case(CaseStatus.QUEUED), config(), paused, NOON)
    assert [step.command for step in answer.you] == [
        f"faultbridge resume --cluster {KEY.cluster}",
        f"faultbridge resume --cluster {KEY.cluster} --force",
    ]


def test_an_answer_states_what_blocks_the_repair() -> None:
    asked = node_answer(with_case(CaseStatus.QUEUED, approval=ASKED), config(), Control(KEY.cluster), NOON)
    assert asked.what == "Rule r requires that an operator approves this repair first: replace the node."
    assert "Without an answer until 2026-02-03 13:00 UTC" in asked.system
    stays = node_answer(QUEUED, config(), Control(KEY.cluster, breakers={"cluster": STAYS_OPEN}), NOON)
    assert stays.what == "The breaker of the cluster opened 3 times within a day and stays open."
