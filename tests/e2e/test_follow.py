"""HyperPod repairs a node itself: its own events drive a case to the end, and none of our functions does anything."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.domain.cases import Case, Resolution
from faultbridge.domain.clusters import RepairOwner
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.local.clients import client
from tests.e2e.installation import Installation, eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

NODE = "node-000"
ACTS = {"TerminateInstanceInAutoScalingGroup", "RunInstances", "RebootInstances"}


@pytest.fixture(scope="module")
def followed(installation: Installation) -> str:
    """A cluster whose only node HyperPod (played by this test) called unhealthy, replaced and was done with."""
    cluster = installation.cluster(1, fleet=1)
    installation.application.registration.set_cluster(cluster, {"repair_owner": RepairOwner.PROVIDER})
    sick = instance_of(installation, cluster)
    hyperpod_says(installation, sick, "Unhealthy", "Replace")
    eventually(lambda: at_step(installation, cluster) == "follow", 60, lambda: installation.cases(cluster))
    scaling = client("auto-scaling", installation.stack.info.environment)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=sick, ShouldDecrementDesiredCapacity=False)
    installation.invoke("inventory", {})
    hyperpod_says(installation, instance_of(installation, cluster), "Healthy", "None")
    installation.settle(cluster)
    return cluster


def hyperpod_says(installation: Installation, instance: str, status: str, repair: str) -> None:
    detail = {
        "ClusterName": "hyperpod-a",
        "InstanceId": instance,
        "HealthSummary": {"HealthStatus": status, "HealthStatusReason": None, "RepairAction": repair},
        "EventTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    entry = {
        "Source": "aws.sagemaker",
        "DetailType": "SageMaker HyperPod Cluster Node Health Event",
        "Detail": json.dumps(detail),
    }
    answer = client("events", installation.stack.info.environment).put_events(Entries=[entry])
    assert answer["FailedEntryCount"] == 0


def instance_of(installation: Installation, cluster: str) -> str:
    sitting = installation.states(cluster)[NODE].incarnation
    assert sitting is not None
    assert sitting.instance_id is not None
    return sitting.instance_id


def case_of(installation: Installation, cluster: str) -> Case:
    (case,) = installation.cases(cluster)
    return case


def at_step(installation: Installation, cluster: str) -> str | None:
    cases = installation.cases(cluster)
    return cases[0].attempt.step if cases and cases[0].attempt else None


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
    assert [one for one in told if one[0] in {"intent", "give_up", "repair_in_place"}] == []
    assert {("follow", "repaired"), ("verify", "passed")} <= set(told)


def test_nothing_was_done_to_the_node_by_us(installation: Installation, followed: str) -> None:
    gone = set(installation.states(followed)[NODE].former_instances)
    acted = [call for call in installation.wire_in_use.calls if call.operation in ACTS]
    assert not [call for call in acted if call.arguments.get("InstanceId") in gone]
