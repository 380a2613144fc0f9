"""HyperPod repairs a node: its events resolve the case, and Faultbridge performs no repair action."""

from __future__ import annotations

import pytest

from faultbridge.model.cases import Case
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.external_repair import NODE

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

REPAIR_CALLS = {"TerminateInstanceInAutoScalingGroup", "RunInstances", "RebootInstances"}


def case_of(installation: Installation, cluster: str) -> Case:
    (case,) = installation.cases(cluster)
    return case


def test_the_events_of_hyperpod_resolve_a_case_with_a_verified_node(
    installation: Installation, externally_repaired: str
) -> None:
    state, case = installation.states(externally_repaired)[NODE], case_of(installation, externally_repaired)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.EXTERNAL)
    assert (state.status, state.unverified, list(state.active())) == (NodeStatus.HEALTHY, False, [])
    assert state.former_instances
    steps = [
        (event["data"]["step"], event["data"]["outcome"])
        for event in installation.entries(externally_repaired).values()
        if event["metadata"]["event_type"] == "Node Replacement Step"
    ]
    assert [step for step in steps if step[0] in {"intent", "release_instance", "repair_in_place"}] == []
    assert {("follow", "repaired"), ("verify", "passed")} <= set(steps)


def test_faultbridge_performed_no_repair_action(installation: Installation, externally_repaired: str) -> None:
    former = set(installation.states(externally_repaired)[NODE].former_instances)
    repairs = [call for call in installation.required_proxy.calls if call.operation in REPAIR_CALLS]
    assert not [call for call in repairs if call.arguments.get("InstanceId") in former]
