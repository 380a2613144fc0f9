"""What happens where somebody else repairs, once a session."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.domain.clusters import RepairOwner
from faultbridge.local.clients import client
from tests.e2e.installation import Installation, eventually

NODE = "node-000"


@pytest.fixture(scope="session")
def followed(installation: Installation) -> str:
    """A cluster whose only node HyperPod (played by this test) called unhealthy, replaced and was done with."""
    cluster = installation.cluster(1, fleet=1)
    installation.application.registration.set_cluster(cluster, {"repair_owner": RepairOwner.PROVIDER})
    sick = _instance_of(installation, cluster)
    _hyperpod_says(installation, sick, "Unhealthy", "Replace")
    eventually(lambda: _at_step(installation, cluster) == "follow", 60, lambda: installation.cases(cluster))
    scaling = client("auto-scaling", installation.stack.info.environment)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=sick, ShouldDecrementDesiredCapacity=False)
    installation.invoke("inventory", {})
    _hyperpod_says(installation, _instance_of(installation, cluster), "Healthy", "None")
    installation.settle(cluster)
    return cluster


def _hyperpod_says(installation: Installation, instance: str, status: str, repair: str) -> None:
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


def _instance_of(installation: Installation, cluster: str) -> str:
    sitting = installation.states(cluster)[NODE].incarnation
    assert sitting is not None
    assert sitting.instance_id is not None
    return sitting.instance_id


def _at_step(installation: Installation, cluster: str) -> str | None:
    cases = installation.cases(cluster)
    return cases[0].attempt.step if cases and cases[0].attempt else None
