"""A growing HyperPod group: new nodes are verified by HyperPod before they serve; a bad one is replaced in its slot."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.adapters.hyperpod.provider import CHECK_LABEL, HEALTH_LABEL
from faultbridge.model.cases import INSTANCE_ADDED
from faultbridge.model.enums import NodeStatus, Resolution, WaitingFor
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Rule
from faultbridge.repair.registry.views import Views
from tests.hyperpod import GROUP
from tests.scenarios.provider.hyperpod import requests
from tests.scenarios.provider.hyperpod_world import HyperPodWorld, hyperpod_world
from tests.scenarios.provider.provider_conditions import statuses
from tests.scenarios.world import CLUSTER

RELEASE = Rule("release", release_without_capacity=True)
BAD = {HEALTH_LABEL: "UnschedulablePendingReplacement"}


def grow(world: HyperPodWorld, *labels: dict[str, str]) -> list[str]:
    """Add one node to the known group for each set of labels; returns their slots after the inventory listed them."""
    world.run_inventory()
    world.clock.advance(timedelta(minutes=1))
    new = [world.cluster.launch(GROUP) for _ in labels]
    world.cluster.labels |= {one.instance_id: given for one, given in zip(new, labels, strict=True) if given}
    world.run_inventory()
    return [one.slot for one in new]


def node_in(world: HyperPodWorld, slot: str) -> NodeState:
    (key,) = [one.key for one in Views(world.table).nodes(CLUSTER) if one.placement.slot == slot]
    return world.append.read(key)


def until_verified(world: HyperPodWorld, *slots: str) -> list[NodeState]:
    """Advance until the cases of these nodes have ended; the inventory runs every five minutes."""

    def ended() -> bool:
        if world.clock.now().minute % 5 == 0:
            world.run_inventory()
        return all((case := node_in(world, one).case) is not None and not case.status.live for one in slots)

    world.until(ended, minutes=300)
    return [node_in(world, one) for one in slots]


def test_a_good_new_node_serves_after_its_verification_and_a_bad_one_is_replaced_in_its_slot() -> None:
    with hyperpod_world(nodes=2, rules=(RELEASE,)) as world:
        good, bad = grow(world, {}, BAD)
        first = {one.slot: one.instance_id for one in world.cluster.current()}
        for slot in (good, bad):
            state = node_in(world, slot)
            assert (state.status, state.unverified) == (NodeStatus.VALIDATING, True)
            assert state.case is not None
            assert state.case.code == INSTANCE_ADDED
        kept, replaced = until_verified(world, good, bad)
        for state in (kept, replaced):
            assert (state.status, state.unverified) == (NodeStatus.HEALTHY, False)
        assert kept.case is not None
        assert kept.case.resolution is Resolution.RECOVERED
        assert requests(world, "replace") == [first[bad]]
        now = {one.slot: one.instance_id for one in world.cluster.current()}
        assert [one.incarnation.instance_id for one in (kept, replaced) if one.incarnation] == [first[good], now[bad]]
        assert replaced.former_instances == (first[bad],)
        last = statuses(world)[-1]["data"]
        assert (last["to"], last["in_service"], last["expected"], last["verified"]) == ("healthy", 4, 4, 2)
        assert {world.status(1), world.status(2)} == {NodeStatus.HEALTHY}


def test_a_bad_new_node_waits_for_an_operator_if_the_policy_requires_it() -> None:
    with hyperpod_world(nodes=2, rules=(Rule("careful"),)) as world:
        (bad,) = grow(world, BAD)
        world.until(lambda: node_in(world, bad).live_case.waiting_for is WaitingFor.APPROVAL, minutes=300)
        assert node_in(world, bad).status is NodeStatus.QUARANTINED
        assert requests(world, "replace") == []


@pytest.mark.parametrize("level", [1, 2])
def test_the_label_of_a_check_at_the_launch_of_a_node_decides_only_a_basic_verification(level: int) -> None:
    with hyperpod_world(nodes=2, rules=(Rule("deep", release_without_capacity=True, verify_level=level),)) as world:
        (new,) = grow(world, {CHECK_LABEL: "Failed"})
        (first,) = [one.instance_id for one in world.cluster.current() if one.slot == new]
        world.until(lambda: bool(requests(world, "check")) or bool(requests(world, "replace")), minutes=300)
        assert requests(world, "replace") == ([first] if level == 1 else [])
        if level == 1:
            return
        world.advance_minutes(5)
        world.cluster.labels[first] = {CHECK_LABEL: "Passed"}
        (state,) = until_verified(world, new)
        assert (state.status, requests(world, "replace"), requests(world, "check")) == (NodeStatus.HEALTHY, [], [first])
