"""Fixtures of the inventory tests: a world with two nodes, a fake inventory, a fake node listing, and a sync."""

from __future__ import annotations

import pytest

from faultbridge.repair.registry.inventory_sync import SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.serve.wiring.services import wire_cluster_status, wire_registration, wire_retirement
from tests.builders import KEY
from tests.registry.fake_node_listing import FakeNodeListing
from tests.sim.fakes import FakeInventory
from tests.world import World


@pytest.fixture
def world():
    return World(nodes=("a", "b"), eks_cluster="train")


@pytest.fixture
def inventory(world):
    return FakeInventory(world.ports.fleet)


@pytest.fixture
def node_listing():
    return FakeNodeListing()


@pytest.fixture
def synchronizer(world, inventory, node_listing):
    """The inventory sync of all clusters of the world."""
    app = world.app
    detection = ReplacementDetection(world.ports.table, app.append, app.rulebook)
    inventories = {"ec2-auto-scaling": inventory}
    check = ProviderCheck(inventories, wire_cluster_status(app), world.ports.clock, wire_registration(app))
    return SyncInventory(
        world.ports.table,
        wire_registration(app),
        detection,
        inventories,
        check,
        wire_retirement(app),
        node_listing,
    )


@pytest.fixture
def sync(world, synchronizer):
    """Synchronize the cluster of the world; one sync has already run."""

    def run(only=None):
        return synchronizer.sync(wire_registration(world.app).cluster(KEY.cluster), only)

    run()
    return run
