"""HyperPod: nodes are replaced, rebooted and verified by SageMaker's own calls, from the fault to the verified node."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from faultbridge.model.cluster.config import RepairOwner
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from tests.scenarios.provider.hyperpod import AUTOMATIC, DEEP, requests
from tests.scenarios.provider.hyperpod_world import HyperPodWorld, hyperpod_world
from tests.scenarios.world import CLUSTER, REPLACEMENT_AFTER_INTENT, limits

RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED
REBOOT = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE, release_without_capacity=True)


def lose_answers(world: HyperPodWorld, operation: str) -> list[Any]:
    """Lose the next answer to a call; SageMaker has carried it out. The result has one item once an answer is lost."""
    client = world.clients.sagemaker_no_retry
    lost: list[Any] = []

    def fail(**_: Any) -> None:
        if not lost:
            lost.append(True)
            raise ReadTimeoutError(endpoint_url="sagemaker")

    client.meta.events.register_last(f"after-call.sagemaker.{operation}", fail)
    return lost


def test_a_faulty_node_is_replaced_once_and_its_successor_is_verified() -> None:
    with hyperpod_world(nodes=2) as world:
        first = world.instance()
        world.fault_until_resolved()
        assert requests(world, "replace") == [first]
        assert world.instance() == world.backing() != first
        assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
        assert world.record_history()[5:] == [
            "node degraded -> quarantined",
            "case queued -> in_progress",
            "node quarantined -> draining",
            "drain not_applicable",
            "collect failed",
            "intent committed",
            *REPLACEMENT_AFTER_INTENT,
        ]


def test_two_nodes_of_a_group_each_get_the_instance_of_their_own_slot() -> None:
    with hyperpod_world(nodes=2) as world:
        slots = {number: world.node(number).placement.slot for number in (1, 2)}
        for number in (1, 2):
            world.fault_and_react(number)
        world.until(lambda: all(world.case(number).status is RESOLVED for number in (1, 2)))
        for number in (1, 2):
            assert world.instance(number) == world.backing(number)
            assert world.node(number).placement.slot == slots[number]
        assert len(requests(world, "replace")) == 2


def test_a_reboot_is_requested_once_and_the_same_instance_is_verified() -> None:
    with hyperpod_world(rules=(REBOOT,)) as world:
        first = world.instance()
        world.fault_until_resolved()
        assert world.cluster.requests == [("reboot", first), ("check", first)]  # only a deep check covers Xid 79
        node = world.node()
        assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPAIRED)
        assert node.incarnation is not None
        assert (node.incarnation.instance_id, node.incarnation.boot) == (first, 2)


def test_a_boot_that_the_node_reported_is_not_counted_twice() -> None:
    with hyperpod_world(rules=(REBOOT,)) as world:
        world.report_boot("boot-1")
        world.fault_and_react()
        world.until(lambda: bool(world.cluster.requests))
        world.advance_minutes(2)
        world.report_boot("boot-2")
        world.until(world.case_is(RESOLVED))
        node = world.node()
        assert node.incarnation is not None
        assert (node.incarnation.boot, node.incarnation.boot_id) == (2, "boot-2")


@pytest.mark.parametrize(
    ("operation", "action", "rules"),
    [
        ("BatchReplaceClusterNodes", "replace", ()),
        ("BatchRebootClusterNodes", "reboot", (REBOOT,)),
    ],
)
def test_a_request_whose_answer_was_lost_is_not_sent_for_a_second_repair(
    operation: str, action: str, rules: tuple[Rule, ...]
) -> None:
    with hyperpod_world(rules=rules) as world:
        first = world.instance()
        lost = lose_answers(world, operation)
        world.fault_until_resolved()
        assert (requests(world, action), lost) == ([first], [True])
        assert world.status() is NodeStatus.HEALTHY
        assert world.instance() == world.backing()


def test_a_successor_that_fails_its_deep_check_is_followed_to_the_instance_that_replaces_it() -> None:
    with hyperpod_world(rules=(DEEP,)) as world:
        world.fault_and_react()
        world.until(lambda: world.status() is NodeStatus.VALIDATING)
        bad = world.backing()
        world.cluster.faulty.add(bad)
        for _ in range(600):
            if world.case().status is RESOLVED:
                break
            world.advance_minutes()
            world.run_inventory()
        assert world.status() is NodeStatus.HEALTHY
        assert world.instance() == world.backing() != bad
        assert bad not in requests(world, "replace")  # HyperPod replaced it itself
        assert requests(world, "check") == [bad, world.instance()]


def test_no_node_is_released_while_hyperpod_recovers_nodes_itself() -> None:
    with hyperpod_world(limits=limits(attempts=1)) as world:
        world.cluster.node_recovery = "Automatic"
        world.fault_until(ESCALATED)
        assert world.cluster.requests == []
        assert "HyperPod recovers the nodes" in world.case().reason


def test_a_launch_without_capacity_is_escalated_at_the_launch_deadline() -> None:
    with hyperpod_world(limits=limits(attempts=1)) as world:
        first = world.instance()
        world.cluster.capacity = False
        world.fault_and_react()
        world.until(world.case_is(ESCALATED), minutes=700)
        assert requests(world, "replace") == [first]
        assert "no successor yet in gpu-workers" in world.case().reason


def test_without_a_training_plan_an_operator_approves_the_release() -> None:
    with hyperpod_world(rules=(Rule("careful", Match(codes=("xid.79",))),)) as world:
        world.fault_and_react(minutes=30)
        assert world.cluster.requests == []
        assert "no evidence of capacity" in world.case().reason


def test_in_a_cluster_that_hyperpod_repairs_its_replacement_is_verified_by_its_own_checks() -> None:
    with hyperpod_world(RepairOwner.PROVIDER, AUTOMATIC, nodes=2) as world:
        first = world.instance()
        world.fault_and_react(minutes=5)
        list(world.cluster.replace([str(first)]))
        world.cluster.requests.clear()
        for _ in range(120):
            if world.case().status is RESOLVED:
                break
            world.advance_minutes()
            world.run_inventory()
        assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.EXTERNAL)
        assert world.instance() == world.backing() != first
        assert world.cluster.requests == []


def test_faultbridge_does_not_act_beside_automatic_node_recovery() -> None:
    with pytest.raises(Rejected, match="--node-recovery None") as caught, hyperpod_world(settings=AUTOMATIC):
        pass
    assert caught.value.reason == "rival_repair"


def test_a_provider_that_repairs_nothing_is_not_followed() -> None:
    with pytest.raises(Rejected, match="--node-recovery Automatic") as caught, hyperpod_world(RepairOwner.PROVIDER):
        pass
    assert caught.value.reason == "no_provider_repair"


def test_a_later_change_is_checked_as_well() -> None:
    with hyperpod_world() as world:
        world.cluster.node_recovery = "Automatic"
        registration = world.inventory.registration
        registration.set_cluster(CLUSTER, {"expected": 9})
        registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
        with pytest.raises(Rejected, match="rival_repair"):
            registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.FAULTBRIDGE})
