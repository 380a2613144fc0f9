"""Builders of external replacement that several test modules use."""

from __future__ import annotations

from faultbridge.model.values import replace
from faultbridge.repair.registry.inventory_sync import SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import FakeInventory


class ExternalReplacement:
    """Another tool that replaces an instance of the group, and the inventory that detects the change."""

    def __init__(self, world: World) -> None:
        self.world = world
        registration = Registration(world.table, world.append, world.clock)
        replacement_detection = ReplacementDetection(world.table, world.append, world.rulebook)
        inventories = {"ec2-auto-scaling": FakeInventory(world.fleet)}
        check = ProviderCheck(inventories, world.rollup, world.clock, registration)
        retire = Retirement(world.table, world.append, world.rulebook)
        self.sync = SyncInventory(world.table, registration, replacement_detection, inventories, check, retire)
        self.config = registration.cluster(CLUSTER)

    def replace_instance(self) -> str:
        incarnation = self.world.node().incarnation
        assert incarnation is not None
        assert incarnation.instance_id is not None
        fleet = self.world.fleet
        fleet.instances[incarnation.instance_id] = replace(fleet.instances[incarnation.instance_id], alive=False)
        return fleet.launch(GROUP)

    def run_inventory(self) -> list[str]:
        found = self.sync.sync(self.config)
        self.world.process_entries()
        return found.replaced_externally
