"""The transition guard refuses every move that no edge allows, and every change of status without its entry."""

from __future__ import annotations

from itertools import pairwise

import pytest

from faultbridge.decide import entry_builder
from faultbridge.model.cases import Case
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, RepairAction
from faultbridge.model.errors import IllegalTransition
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.append import check_moves
from tests.builders import GPU, NOON, node

HEALTHY, DEGRADED = node(NodeStatus.HEALTHY), node(NodeStatus.DEGRADED)


def with_case(status: CaseStatus | None) -> NodeState:
    """Return a degraded node with a case in this status, or without a case."""
    if status is None:
        return DEGRADED
    given = {"repair_action": RepairAction.REPLACE_NODE, "rule": "default", "policy": "p"}
    case = Case("c-1", status, NOON, "xid.79", GPU, Severity.FATAL, Action.REPLACE_NODE, **given)
    return replace(DEGRADED, case=case)


def case_moves(*statuses: CaseStatus | None) -> tuple[Draft, ...]:
    """Return the entries of a case that moves from status to status."""
    return tuple(
        entry_builder.case_change(before, with_case(after).case, NOON, "because", DEGRADED)
        for before, after in pairwise(statuses)
    )


@pytest.mark.parametrize(
    ("statuses", "actor"),
    [
        ((None, CaseStatus.OPEN), Actor.INGEST),
        ((CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.RESOLVED), Actor.SWEEP),
        ((CaseStatus.QUEUED, CaseStatus.IN_PROGRESS), Actor.DISPATCH),
        ((CaseStatus.ABSORBED, CaseStatus.ABSORBED), Actor.CORRELATE),
    ],
)
def test_a_case_moves_along_the_edges_of_its_actor(statuses: tuple[CaseStatus | None, ...], actor: Actor) -> None:
    check_moves(with_case(statuses[0]), with_case(statuses[-1]), case_moves(*statuses), actor)


@pytest.mark.parametrize(
    ("statuses", "actor"),
    [
        ((None, CaseStatus.OPEN), Actor.DISPATCH),
        ((CaseStatus.OPEN, CaseStatus.IN_PROGRESS), Actor.DISPATCH),
        ((CaseStatus.QUEUED, CaseStatus.OPEN), Actor.SWEEP),
        ((CaseStatus.RESOLVED, CaseStatus.QUEUED), Actor.CLI),
        ((CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.OPEN), Actor.SWEEP),
    ],
)
def test_a_move_of_a_case_without_an_edge_is_refused(statuses: tuple[CaseStatus | None, ...], actor: Actor) -> None:
    with pytest.raises(IllegalTransition, match="case status"):
        check_moves(with_case(statuses[0]), with_case(statuses[-1]), case_moves(*statuses), actor)


@pytest.mark.parametrize(("before", "after"), [(None, CaseStatus.OPEN), (CaseStatus.OPEN, None)])
def test_a_refused_transition_is_logged_with_its_case(
    before: CaseStatus | None, after: CaseStatus | None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(IllegalTransition):
        check_moves(with_case(before), with_case(after), (), Actor.SWEEP)
    (refused,) = [vars(record) for record in caplog.records if record.message == "transition_refused"]
    assert (refused["case_id"], refused["node"], refused["actor"]) == ("c-1", DEGRADED.key.node, "sweep")


def test_a_change_of_a_case_without_its_entry_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="record the change"):
        check_moves(with_case(CaseStatus.OPEN), with_case(CaseStatus.QUEUED), (), Actor.SWEEP)
    with pytest.raises(IllegalTransition, match="record the change"):
        check_moves(with_case(None), with_case(CaseStatus.OPEN), (), Actor.INGEST)


def test_entries_that_start_at_another_status_are_refused() -> None:
    moved = case_moves(CaseStatus.QUEUED, CaseStatus.RESOLVED)
    with pytest.raises(IllegalTransition, match="case status open"):
        check_moves(with_case(CaseStatus.OPEN), with_case(CaseStatus.RESOLVED), moved, Actor.SWEEP)


def test_a_node_keeps_its_closed_case_without_an_entry() -> None:
    closed = with_case(CaseStatus.RESOLVED)
    check_moves(closed, replace(closed, unverified=True), (), Actor.SWEEP)
    degraded = entry_builder.status_change(HEALTHY, NodeStatus.DEGRADED, NOON, "a fault")
    check_moves(replace(closed, status=NodeStatus.HEALTHY), closed, (degraded,), Actor.INGEST)


def test_a_new_case_follows_a_closed_one() -> None:
    opened = with_case(CaseStatus.OPEN)
    opened = replace(opened, case=replace(opened.case, id="c-2") if opened.case else None)
    check_moves(with_case(CaseStatus.RESOLVED), opened, case_moves(None, CaseStatus.OPEN), Actor.INGEST)


def test_a_change_of_the_node_without_its_entry_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="node status"):
        check_moves(HEALTHY, DEGRADED, (), Actor.INGEST)
