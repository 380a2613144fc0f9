"""HyperPod repairs a node itself: its own events drive a case to the end, and none of our functions does anything."""

from __future__ import annotations

import pytest

from faultbridge.domain.cases import Case, Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from tests.e2e.installation import Installation
from tests.e2e.rivals import NODE

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

ACTS = {"TerminateInstanceInAutoScalingGroup", "RunInstances", "RebootInstances"}


def case_of(installation: Installation, cluster: str) -> Case:
    (case,) = installation.cases(cluster)
    return case


def test_hyperpods_own_events_drive_a_case_from_its_fault_to_a_verified_node(
    installation: Installation, followed: str
) -> None:
    state, case = installation.states(followed)[NODE], case_of(installation, followed)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.EXTERNAL)
    assert (state.status, state.unverified, list(state.active())) == (NodeStatus.HEALTHY, False, [])
    assert state.former_instances
    told = [
        (event["data"]["step"], event["data"]["outcome"])
        for event in installation.entries(followed).values()
        if event["metadata"]["event_type"] == "Node Replacement Step"
    ]
    assert [one for one in told if one[0] in {"intent", "release_instance", "repair_in_place"}] == []
    assert {("follow", "repaired"), ("verify", "passed")} <= set(told)


def test_nothing_was_done_to_the_node_by_us(installation: Installation, followed: str) -> None:
    gone = set(installation.states(followed)[NODE].former_instances)
    acted = [call for call in installation.wire_in_use.calls if call.operation in ACTS]
    assert not [call for call in acted if call.arguments.get("InstanceId") in gone]
