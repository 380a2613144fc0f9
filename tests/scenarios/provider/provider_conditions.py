"""Builders of provider conditions that several test modules use."""

from __future__ import annotations

from typing import Any

from faultbridge.local.hyperpod import FakeHyperPod
from faultbridge.model.cluster.state import ClusterState
from faultbridge.model.enums import ConditionKind, EntryType
from faultbridge.model.recorded import read_event
from faultbridge.model.storage import items, keys
from faultbridge.serve.pager.rules import CLUSTER_RULES
from tests.hyperpod import GROUP, NAME
from tests.scenarios.provider.hyperpod_world import HyperPodWorld
from tests.scenarios.world import CLUSTER

SCRIPT = "Lifecycle scripts did not run successfully. Ensure the scripts exist in provided S3 path."


def state(world: HyperPodWorld) -> ClusterState:
    return items.read_cluster(CLUSTER, world.table.get(keys.cluster_state(CLUSTER)))


def kinds(world: HyperPodWorld) -> list[ConditionKind]:
    return [one.kind for one in state(world).provider]


def statuses(world: HyperPodWorld) -> list[dict[str, Any]]:
    bodies = world.bodies(None)
    return [one for one in bodies if one["metadata"]["event_type"] == EntryType.CLUSTER_STATUS]


def pages(world: HyperPodWorld) -> list[str]:
    """The states of the provider page that the cluster's events cause."""
    rules = [rule for rule in CLUSTER_RULES if rule.kind == "provider"]
    return [rule.state.value for event in statuses(world) for rule in rules if rule.applies_to(read_event(event))]


def arn_of(cluster: str) -> str:
    """The ARN that the fake gives to a cluster of that name."""
    return FakeHyperPod(cluster, {}).arn


def cluster_event(message: str | None, *, cluster: str = NAME, level: str = "Error", **instance: Any) -> dict[str, Any]:
    metadata = {"Instance": {"FailureMessage": message, **instance}, "InstanceHealth": None}
    record = {
        "EventId": "11111111-2222-3333-4444-555555555555",
        "ClusterArn": arn_of(cluster),
        "ClusterName": cluster,
        "InstanceGroupName": GROUP,
        "ResourceType": "Instance",
        "EventLevel": level,
        "Description": f"Instance creation in Cluster {cluster} and InstanceGroup {GROUP} failed",
        "EventDetails": {"EventMetadata": metadata},
    }
    detail = {"EventDetails": record}
    return {"source": "aws.sagemaker", "detail-type": "SageMaker HyperPod Cluster Event", "detail": detail}
