"""Somebody else replaces an instance: what comes is verified, what leaves is forgotten, and nobody acts twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultbridge.domain.cases import RepairAction, Resolution, WaitingFor
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.ports import Verdict, Verification
from faultbridge.registry.inventory_sync import SyncInventory
from faultbridge.registry.registration import Registration
from faultbridge.registry.replacement_detection import ReplacementDetection
from faultbridge.simulation.fakes import FakeInventory
from tests.scenarios.world import CLUSTER, GROUP, World


class Rival:
    """Somebody with access to the group, and the inventory that looks after them."""

    def __init__(self, world: World) -> None:
        self.world = world
        registration = Registration(world.table, world.append, world.clock)
        seating = ReplacementDetection(world.table, world.append, world.rulebook)
        self.sync = SyncInventory(world.table, registration, seating, {"ec2-auto-scaling": FakeInventory(world.fleet)})
        self.config = registration.cluster(CLUSTER)

    def replaces(self) -> str:
        incarnation = self.world.node().incarnation
        assert incarnation is not None
        assert incarnation.instance_id is not None
        fleet = self.world.fleet
        fleet.instances[incarnation.instance_id] = replace(fleet.instances[incarnation.instance_id], alive=False)
        return fleet.launch(GROUP)

    def look(self) -> list[str]:
        found = self.sync.sync(self.config)
        self.world.listen()
        return found.reseated


@pytest.mark.parametrize("orchestrated", [False, True])
def test_the_machine_that_came_is_verified_and_serves_and_nothing_is_given_up(orchestrated: bool) -> None:
    world = World(orchestrated=orchestrated)
    rival = Rival(world)
    new = rival.replaces()
    assert rival.look() == ["node-1"]
    assert world.status() is NodeStatus.VALIDATING
    world.until(lambda: not world.case().status.live, minutes=60)
    state = world.node()
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.EXTERNAL)
    assert (state.incarnation.instance_id, state.unverified) == (new, False)
    assert world.released() == []
    assert world.control().holders == {}


def test_a_machine_that_came_and_is_bad_never_serves_and_climbs_the_ladder_like_any_other() -> None:
    world = World()
    rival = Rival(world)
    new = rival.replaces()
    world.verifier.results[new] = Verification(Verdict.FAILED, ("memory: fail",))
    rival.look()
    world.until(lambda: world.case().waiting_for is WaitingFor.APPROVAL, minutes=60)
    assert (world.status(), world.case().repair_action) == (NodeStatus.QUARANTINED, RepairAction.REPLACE_NODE)
    assert "node validating -> healthy" not in world.story()


def test_a_repair_that_is_under_way_goes_on_by_itself() -> None:
    world = World()
    world.fault()
    world.until(lambda: world.case().status is CaseStatus.IN_PROGRESS, minutes=10)
    rival = Rival(world)
    rival.look()
    before = world.node()
    assert rival.look() == []
    assert world.node().case == before.case
    world.until(lambda: not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY
