"""`faultbridge fleet create` while the inventory of the stack synchronizes."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.cli.commands.embedded.fleet import NO_PROVIDER, add_fleet
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.instances import Instance
from faultbridge.model.values import replace
from faultbridge.repair.registry.views import Views
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.wiring.services import wire_registration
from tests.sim.fakes.inventory import FakeInventory
from tests.world import World


def test_an_inventory_sync_during_the_creation_of_a_fleet_adds_no_node_under_another_name() -> None:
    world, config = World(), ClusterConfig("lab", mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    world.ports.inventories[config.provider] = inventory = FakeInventory(world.ports.fleet)
    registration, sync = wire_registration(world.app), wire_inventory(world.app).sync_all
    registration.add_cluster(replace(config, provider=NO_PROVIDER))
    for _ in range(3):
        world.ports.fleet.launch("lab")

    def listed() -> Iterator[Instance]:
        for instance in inventory.serving_instances(config, "lab"):
            yield instance
            sync()

    add_fleet(registration, config, listed())
    sync()
    assert [state.key.node for state in Views(world.ports.table).nodes("lab")] == ["gpu-1", "gpu-2", "gpu-3"]
    assert registration.cluster("lab").provider == config.provider
