"""Builders of growth that several test modules use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Rule
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.registry.inventory_sync import SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import FakeInventory

BAD = Verification(Verdict.FAILED, ("memory: fail",))

RELEASE = Rule("release", release_without_capacity=True)


class Growth:
    """A cluster of two nodes whose group grows; the inventory knows the group before."""

    def __init__(self, *, known: bool = True, make: Callable[..., World] = World, **settings: object) -> None:
        self.world = make(**{"nodes": 2, "rules": (RELEASE,), **settings})
        world = self.world
        self.registration = Registration(world.table, world.append, world.clock)
        detection = ReplacementDetection(world.table, world.append, world.rulebook)
        self.fakes = FakeInventory(world.fleet)
        inventories = {"ec2-auto-scaling": self.fakes}
        check = ProviderCheck(inventories, world.rollup, world.clock, self.registration)
        retire = Retirement(world.table, world.append, world.rulebook)
        self.sync = SyncInventory(world.table, self.registration, detection, inventories, check, retire)
        if known:
            self.run_inventory()
        world.clock.advance(timedelta(minutes=1))

    def run_inventory(self) -> None:
        self.sync.sync(self.registration.cluster(CLUSTER))
        self.world.process_entries()

    def launch(self, number: int = 1) -> list[str]:
        return [self.world.fleet.launch(GROUP) for _ in range(number)]

    def node(self, instance: str) -> NodeState:
        return self.world.append.read(NodeKey(CLUSTER, f"ip-{instance[-4:]}"))

    def until_verified(self, *instances: str) -> None:
        def ended() -> bool:
            return all((case := self.node(one).case) is not None and not case.status.live for one in instances)

        self.world.until(ended, minutes=300)

    def statuses(self) -> list[dict[str, object]]:
        changes = [one for one in self.world.bodies(None) if one["metadata"]["event_type"] == "Cluster Status Change"]
        return [one["data"] for one in changes]
