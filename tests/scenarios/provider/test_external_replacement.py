"""Others replace an instance: the new one is verified before it serves, and nothing is replaced twice."""

from __future__ import annotations

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.world import World
from tests.sim.fakes import Call


@pytest.mark.parametrize("orchestrated", [False, True])
def test_an_external_replacement_is_verified_and_serves_and_nothing_is_released(orchestrated: bool) -> None:
    world = World(orchestrated=orchestrated)
    external = ExternalReplacement(world)
    new = external.replace_instance()
    assert external.run_inventory() == ["node-1"]
    assert world.status() is NodeStatus.VALIDATING
    world.until(lambda: not world.case().status.live, minutes=60)
    state = world.node()
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.EXTERNAL)
    assert (state.incarnation.instance_id, state.unverified) == (new, False)
    assert world.released_instances() == []
    assert world.control().holders == {}


@pytest.mark.parametrize("volumes", [(), ("data",)])
def test_the_note_about_an_external_replacement_names_the_volumes_that_stay_behind(volumes: tuple[str, ...]) -> None:
    world = World()
    world.policy = replace(world.policy, volumes=volumes)
    external = ExternalReplacement(world)
    external.replace_instance()
    external.run_inventory()
    (note,) = [body["data"]["text"] for body in world.bodies() if body["data"].get("kind") == "inventory"]
    assert note.startswith("external: i-00000000000000001 was replaced by another controller")
    assert ("volumes with the tag faultbridge:volume (data) were not recorded" in note) is bool(volumes)


def test_a_bad_external_replacement_never_serves_and_is_repaired() -> None:
    world = World()
    external = ExternalReplacement(world)
    new = external.replace_instance()
    world.verifier.results[new] = Verification(Verdict.FAILED, ("memory: fail",))
    external.run_inventory()
    world.until(lambda: world.case().waiting_for is WaitingFor.APPROVAL, minutes=60)
    assert (world.status(), world.case().repair_action) == (NodeStatus.QUARANTINED, RepairAction.REPLACE_NODE)
    assert "node validating -> healthy" not in world.record_history()


@pytest.mark.parametrize("late", [False, True])
def test_a_bad_external_replacement_is_cordoned_before_its_diagnostics_and_its_repair(late: bool) -> None:
    world = World(orchestrated=True)
    external = ExternalReplacement(world)
    new = external.replace_instance()
    world.verifier.results[new] = Verification(Verdict.FAILED, ("memory: fail",))
    if late:
        world.orchestrator.unknown_nodes.add("node-1")
    external.run_inventory()
    world.advance_minutes(10)
    assert bool(world.verifier.started) is not late
    world.orchestrator.unknown_nodes.clear()
    world.until(lambda: world.case().waiting_for is WaitingFor.APPROVAL, minutes=60)
    assert world.orchestrator.cordoned == {"node-1"}


def test_a_repair_in_progress_ignores_an_external_replacement() -> None:
    world = World()
    world.fault()
    world.until(lambda: world.case().status is CaseStatus.IN_PROGRESS, minutes=10)
    external = ExternalReplacement(world)
    external.run_inventory()
    before = world.node()
    assert external.run_inventory() == []
    assert world.node().case == before.case
    world.until(lambda: not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY


def test_an_instance_that_came_while_the_cluster_was_only_observed_is_cordoned_before_its_repair() -> None:
    world = World(orchestrated=True)
    world.pause_repairs(paused=True)
    world.fault_and_react()
    world.set_mode(Mode.OBSERVE)
    replacement = ExternalReplacement(world)
    instance = replacement.replace_instance()
    replacement.run_inventory()
    world.set_mode(Mode.ACT)
    world.pause_repairs(paused=False)
    world.verifier.results[instance] = Verification(Verdict.FAILED, ("memory: failed",), level=3)
    world.orchestrator.cordoned.clear()
    cordoned: list[bool] = []

    def note(call: Call) -> None:
        if call.name == "provider.replace" and call.argument[0] == instance:
            cordoned.append("node-1" in world.orchestrator.cordoned)

    world.seam.before = note
    world.until(lambda: bool(cordoned))
    assert cordoned == [True]
