"""A case that waits for an incident is released; any other case is left as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.correlate.held_cases import release
from tests.builders import GPU, NOON, POLICY, arrival, fault, folded, node

CASE = Case(
    "c-1",
    CaseStatus.ABSORBED,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    RepairAction.REPLACE_NODE,
    "default",
    "default@1",
    incident="i-1",
    marks={CaseStatus.OPEN.value: NOON},
)


def faulty(case: Case | None) -> NodeState:
    return folded(node(NodeStatus.DEGRADED, case=case), arrival(fault())).state


@pytest.mark.parametrize("status", [None, *(one for one in CaseStatus if one is not CaseStatus.ABSORBED)])
def test_a_node_whose_case_does_not_wait_for_an_incident_is_not_changed(status: CaseStatus | None) -> None:
    state = faulty(replace(CASE, status=status) if status else None)
    released = release(state, POLICY, NOON, "incident i-1 is closed")
    assert (released.state, released.drafts) == (state, ())


def test_a_faulty_node_waits_for_an_incident_that_holds_and_is_queued_when_none_does() -> None:
    state = faulty(CASE)
    assert release(state, POLICY, NOON, "closed", ["i-1"]).state == state
    queued = release(state, POLICY, NOON, "closed", ["i-2"]).state.live_case
    assert queued is not None
    assert (queued.status, queued.incident, queued.reason) == (CaseStatus.QUEUED, None, "closed")


def test_the_case_of_a_node_that_recovered_is_resolved_even_while_the_incident_holds() -> None:
    released = release(node(NodeStatus.DEGRADED, case=CASE), POLICY, NOON, "closed", ["i-1"])
    assert (released.state.live_case, released.drafts[0].data["to"]) == (None, CaseStatus.RESOLVED)
