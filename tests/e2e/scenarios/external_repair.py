"""A repair by HyperPod, which this test emulates with HyperPod's events."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.local.clients import client
from faultbridge.model.cluster.config import RepairOwner
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.installation import Installation
from tests.waiting import eventually

NODE = "node-000"


@pytest.fixture(scope="session")
def externally_repaired(installation: Installation) -> str:
    """Report a node as unhealthy, replace its instance and report it as healthy, as HyperPod does."""
    cluster = installation.register_cluster(1, fleet=1)
    wire_registration(installation.application).set_cluster(cluster, {"repair_owner": RepairOwner.PROVIDER})
    unhealthy = installation.instance_of(cluster, NODE)
    _send_hyperpod_event(installation, unhealthy, "Unhealthy", "Replace")
    eventually(lambda: _current_step(installation, cluster) == "follow", 60, lambda: installation.cases(cluster))
    scaling = client("auto-scaling", installation.stack.info.environment)
    scaling.terminate_instance_in_auto_scaling_group(InstanceId=unhealthy, ShouldDecrementDesiredCapacity=False)
    installation.invoke("inventory", {})
    _send_hyperpod_event(installation, installation.instance_of(cluster, NODE), "Healthy", "None")
    installation.wait_until_idle(cluster)
    return cluster


def _send_hyperpod_event(installation: Installation, instance: str, status: str, repair: str) -> None:
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


def _current_step(installation: Installation, cluster: str) -> str | None:
    cases = installation.cases(cluster)
    return cases[0].attempt.step if cases and cases[0].attempt else None
