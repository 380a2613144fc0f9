"""The provider repairs: nothing is done by us, and its node serves again only verified, or a person hears of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.clusters import RepairOwner
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.ports import Verdict, Verification
from faultbridge.registry.registration import Registration
from tests.scenarios.test_replaced_by_others import Rival
from tests.scenarios.world import CLUSTER, World

RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED
FIRST = "i-00000000000000001"
ACTS = {"replace", "restart", "cordon", "uncordon", "drain"}


def followed_world(world: World | None = None, **others: object) -> World:
    world = world or World(**others)  # type: ignore[arg-type]  # the arguments of a world
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
    world.fault()
    world.listen()
    return world


def done_by_us(world: World) -> list[str]:
    return [call.name for call in world.seam.calls if call.operation in ACTS]


def with_inventory(world: World, rival: Rival, holds: Callable[[], bool]) -> None:
    """Let minutes pass with an inventory each, until something holds."""
    for _ in range(120):
        if holds():
            return
        rival.look()
        world.minute()
    raise AssertionError("not within two hours")


@pytest.mark.parametrize("orchestrated", [False, True])
def test_a_machine_that_the_provider_replaces_is_followed_to_a_verified_node(orchestrated: bool) -> None:
    world = followed_world(orchestrated=orchestrated)
    rival = Rival(world)
    world.minute(10)
    assert world.status() is NodeStatus.DRAINING
    new = rival.replaces()
    with_inventory(world, rival, world.case_is(RESOLVED))
    node = world.node()
    assert (node.status, node.incarnation.instance_id) == (NodeStatus.HEALTHY, new)
    assert (world.case().resolution, node.unverified) == (Resolution.EXTERNAL, False)
    assert done_by_us(world) == []
    assert world.control().holders == {}
    assert world.story()[5:] == [
        "node degraded -> quarantined",
        "case queued -> in_progress",
        "node quarantined -> draining",
        "drain not_applicable",
        "cleared xid.79",
        "note inventory",
        "node draining -> provisioning",
        "node provisioning -> validating",
        "follow repaired",
        "verify begun",
        "verify passed",
        "return_to_service not_applicable",
        "node validating -> healthy",
        "case in_progress -> resolved (external)",
    ]


def test_a_provider_that_stalls_is_told_of_within_the_hour() -> None:
    world = followed_world()
    minutes = world.until(world.case_is(ESCALATED))
    assert 60 <= minutes <= 65
    assert world.case().reason.startswith("TIMEOUT: the provider stalls")
    assert (world.status(), done_by_us(world)) == (NodeStatus.FAILED, [])


def test_only_a_boot_after_the_following_began_is_the_providers() -> None:
    world = World()
    world.tells_of_boot("boot-1")
    world = followed_world(world)
    world.tells_of_boot("boot-2")
    world.minute(5)
    assert world.status() is NodeStatus.DRAINING
    world.tells_of_boot("boot-3")
    world.until(lambda: "follow repaired" in world.story(), 15)
    assert world.status() is NodeStatus.VALIDATING


def test_as_long_as_there_is_news_of_the_trouble_the_provider_has_its_hour() -> None:
    world = followed_world()
    world.minute(50)
    world.fault()
    world.minute(50)
    assert world.case().status is CaseStatus.IN_PROGRESS
    world.until(world.case_is(ESCALATED), minutes=20)


def test_a_node_that_the_provider_calls_well_again_is_verified_before_it_serves() -> None:
    world = followed_world()
    world.minute(5)
    world.clear()
    world.until(world.case_is(RESOLVED))
    assert "verify passed" in world.story()
    assert (world.status(), world.node().former_instances) == (NodeStatus.HEALTHY, ())


def test_a_machine_of_the_provider_that_fails_its_verification_is_a_persons() -> None:
    world = followed_world()
    rival = Rival(world)
    new = rival.replaces()
    world.verifier.results[new] = Verification(Verdict.FAILED, ("memory: fail",))
    with_inventory(world, rival, world.case_is(ESCALATED))
    assert "what the provider brought back is no good" in world.case().reason
    assert (world.status(), done_by_us(world)) == (NodeStatus.FAILED, [])


def test_a_case_that_a_person_had_goes_on_in_a_new_attempt_when_the_provider_replaces_the_machine_again() -> None:
    world = followed_world()
    rival = Rival(world)
    world.verifier.results[rival.replaces()] = Verification(Verdict.FAILED, ("memory: fail",))
    with_inventory(world, rival, world.case_is(ESCALATED))
    rival.replaces()
    with_inventory(world, rival, world.case_is(RESOLVED))
    case = world.case()
    assert (case.attempts, case.tried) == (2, 1)
    assert list(world.workflow.executions) == [f"{case.id}-1", f"{case.id}-2"]
    assert "admission lost" not in world.story()


def test_forty_nodes_that_the_provider_repairs_wait_for_no_slot_of_ours() -> None:
    world = followed_world(nodes=40)
    for number in range(2, 41):
        world.fault(number)
    world.listen()
    world.minute()
    assert {world.status(number) for number in range(1, 41)} == {NodeStatus.DRAINING}
    assert done_by_us(world) == []


def test_an_execution_that_is_lost_while_the_provider_works_goes_on_waiting() -> None:
    world = followed_world()
    world.minute(3)
    world.workflow.abort(f"{world.case().id}-1")
    rival = Rival(world)
    world.minute(10)
    rival.replaces()
    with_inventory(world, rival, world.case_is(RESOLVED))
    assert world.status() is NodeStatus.HEALTHY


def test_a_followed_node_that_breaks_again_after_its_verification_is_not_touched_by_us_either() -> None:
    world = followed_world(orchestrated=True)
    rival = Rival(world)
    world.minute(10)
    rival.replaces()
    handler = world.workflow.handler
    broken: list[str] = []

    def breaks_before_the_close(payload: Any) -> Any:
        if payload["step"] == "close" and not broken:
            broken.append("xid.48")
            world.fault(code="xid.48")
        return handler(payload)

    world.workflow.handler = breaks_before_the_close
    with_inventory(world, rival, lambda: bool(broken))
    assert world.case().status is not RESOLVED
    assert done_by_us(world) == []
