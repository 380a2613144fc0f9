"""Failures of a whole HyperPod cluster: recorded, paged, and over with the next good state; they repair no node."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.local.hyperpod import NO_CAPACITY
from faultbridge.model.enums import ClusterStatus, ConditionKind, NodeStatus
from tests.hyperpod import GROUP, NAME
from tests.scenarios.provider.hyperpod_world import hyperpod_world
from tests.scenarios.provider.provider_conditions import SCRIPT, arn_of, cluster_event, kinds, pages, state, statuses
from tests.scenarios.world import CLUSTER

EFA = "Instance replacement failed: EFA health checks did not run successfully."


def state_change() -> dict[str, Any]:
    groups = [{"InstanceGroupName": GROUP, "Status": "Updating", "TargetCount": 3}]
    named = {"ClusterArn": arn_of(NAME), "ClusterName": NAME}
    detail = {**named, "ClusterStatus": "Failed", "FailureMessage": "claimed", "InstanceGroups": groups}
    return {"source": "aws.sagemaker", "detail-type": "SageMaker HyperPod Cluster State Change", "detail": detail}


def test_a_failed_cluster_is_recorded_and_paged_until_it_is_in_service_again() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        world.cluster.status, world.cluster.failure_message = "Failed", "The update failed."
        world.receive_event(state_change())
        last = statuses(world)[-1]["data"]
        assert (last["to"], last["provider_health"]) == ("degraded", "action_required")
        assert last["reason"].startswith("cluster failed: The update failed.")
        world.cluster.status = "InService"
        world.run_inventory()
        assert (state(world).provider, state(world).status) == ((), ClusterStatus.HEALTHY)
        assert pages(world) == ["triggered", "resolved"]
        assert world.status() is NodeStatus.HEALTHY
        assert world.cluster.requests == []


def test_a_rollback_is_recorded_without_a_page() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        world.cluster.status = "RollingBack"
        world.run_inventory()
        assert (kinds(world), state(world).status) == ([ConditionKind.ROLLING_BACK], ClusterStatus.RECOVERING)
        world.cluster.status = "InService"
        world.run_inventory()
        assert statuses(world)[-1]["data"]["to"] == "healthy"
        assert pages(world) == []


def test_the_state_of_the_cluster_counts_and_not_the_claim_of_an_event() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        before = len(statuses(world))
        world.receive_event(state_change())
        assert (state(world).provider, len(statuses(world))) == ((), before)


@pytest.mark.parametrize(
    ("message", "kind", "paged"),
    [
        (SCRIPT, ConditionKind.LIFECYCLE_SCRIPT, ["triggered", "resolved"]),
        (NO_CAPACITY, ConditionKind.NO_CAPACITY, []),
        (EFA, ConditionKind.EFA_CHECK, []),
        (None, ConditionKind.LAUNCH_FAILED, []),
    ],
)
def test_a_failed_launch_is_a_condition_until_its_group_is_complete(
    message: str | None, kind: ConditionKind, paged: list[str]
) -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        world.cluster.desired[GROUP] = 3
        world.receive_event(cluster_event(message))
        assert kinds(world) == [kind]
        world.run_inventory()
        assert kinds(world) == [kind]
        recorded = len(statuses(world))
        world.receive_event(cluster_event(message))
        assert len(statuses(world)) == recorded
        world.cluster.launch(GROUP)
        world.run_inventory()
        assert kinds(world) == []
        assert pages(world) == paged
        assert [world.status(number) for number in (1, 2)] == [NodeStatus.HEALTHY] * 2
        assert world.cluster.requests == []


def test_a_script_that_failed_is_read_from_its_state_without_a_message() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        world.cluster.desired[GROUP] = 3
        world.receive_event(cluster_event(None, level="Info", LcsExecutionState="Failed"))
        assert kinds(world) == [ConditionKind.LIFECYCLE_SCRIPT]


@pytest.mark.parametrize(
    "event",
    [
        cluster_event(NO_CAPACITY, cluster="another"),
        cluster_event(None, level="Info", LcsExecutionState="Started"),
        cluster_event("1 node lost orchestration-ready status", level="Warn"),
        {"source": "aws.sagemaker", "detail-type": "SageMaker HyperPod Cluster Event", "detail": []},
    ],
)
def test_events_of_other_clusters_and_without_a_failure_open_nothing(event: dict[str, Any]) -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        world.cluster.desired[GROUP] = 3
        world.receive_event(event)
        assert kinds(world) == []


@pytest.mark.parametrize("by_arn", [False, True])
def test_a_cluster_that_is_registered_by_its_arn_has_the_failed_launches_of_its_events(by_arn: bool) -> None:
    with hyperpod_world(nodes=2) as world:
        registered = world.cluster.arn if by_arn else NAME
        world.inventory.registration.set_cluster(CLUSTER, {"hyperpod_cluster": registered})
        world.run_inventory()
        world.cluster.desired[GROUP] = 3
        world.receive_event(cluster_event(SCRIPT, cluster="another"))
        assert kinds(world) == []
        world.receive_event(cluster_event(SCRIPT))
        assert (kinds(world), pages(world)) == ([ConditionKind.LIFECYCLE_SCRIPT], ["triggered"])


def test_a_node_that_could_not_start_is_found_without_an_event() -> None:
    with hyperpod_world(nodes=2, settings={"launch_failure": SCRIPT}) as world:
        world.cluster.capacity = False
        list(world.cluster.replace([world.backing()]))
        world.advance_minutes(5)
        world.run_inventory()
        assert kinds(world) == [ConditionKind.LIFECYCLE_SCRIPT]


def test_a_failed_and_a_degraded_group_are_conditions() -> None:
    with hyperpod_world(nodes=2) as world:
        world.cluster.group_status[GROUP] = "Failed"
        world.run_inventory()
        assert [(one.kind, one.group) for one in state(world).provider] == [(ConditionKind.GROUP_FAILED, GROUP)]
        world.cluster.group_status[GROUP] = "Degraded"
        world.run_inventory()
        assert kinds(world) == [ConditionKind.LAUNCH_FAILED]


def test_a_message_is_short_and_has_no_secret() -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    with hyperpod_world(nodes=2) as world:
        world.cluster.status = "Failed"
        world.cluster.failure_message = f"bad key {secret}\n\x1b[31m" + "x" * 2000
        world.run_inventory()
        (found,) = state(world).provider
        assert secret not in found.message
        assert "\x1b" not in found.message
        assert len(found.message) <= 300
