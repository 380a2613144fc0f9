"""A world whose nodes belong to a fake HyperPod cluster, behind the real adapters and botocore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

from faultbridge.adapters.ec2.request_log import RequestLog
from faultbridge.adapters.hyperpod.cluster import HyperPodLogs
from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
from faultbridge.adapters.hyperpod.provider import HyperPodProvider, HyperPodRestarter, HyperPodVerifier
from faultbridge.decode.hyperpod import launch_failure
from faultbridge.model.cluster.config import HYPERPOD, ClusterConfig, Mode, RepairOwner
from faultbridge.model.values import replace
from faultbridge.repair.registry.inventory_sync import InventoryEventHandler, SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement
from tests.hyperpod import GROUP, NAME, api, hyperpod
from tests.scenarios.world import CLUSTER, ScenarioPorts, World


class HyperPodWorld(World):
    """A world with `nodes` HyperPod nodes; `cluster` is the fake, `inventory` lists it."""

    orchestration: Mapping[str, str] = MappingProxyType({})

    def __init__(self, stack: ExitStack, owner: RepairOwner, settings: dict[str, Any], **others: Any) -> None:
        self.stack, self.owner, self.settings = stack, owner, settings
        super().__init__(**others)

    def connect(self, ports: ScenarioPorts) -> None:
        self.clients, self.cluster = self.stack.enter_context(hyperpod(self.clock, size=0, **self.settings))
        nodes, requests = api(self.clients), RequestLog(self.table, self.clock)
        ports.providers = {HYPERPOD: HyperPodProvider(nodes)}
        ports.restarters = {HYPERPOD: HyperPodRestarter(nodes, requests)}
        ports.verifiers = {HYPERPOD: HyperPodVerifier(nodes, requests)}
        ports.collector = HyperPodLogs()

    def _register(self, nodes: int, mode: Mode, nodes_per_shard: int) -> None:
        inventories = {HYPERPOD: HyperPodInventory(self.clients)}
        registration = Registration(self.table, self.append, self.clock, inventories)
        parts = {"provider": HYPERPOD, "verifier": HYPERPOD, "restarter": HYPERPOD, "hyperpod_cluster": NAME}
        parts |= self.orchestration
        registration.add_cluster(
            ClusterConfig(CLUSTER, repair_owner=self.owner, mode=mode, nodes_per_shard=nodes_per_shard, **parts)
        )
        for number in range(1, nodes + 1):
            node = self.cluster.launch(GROUP)
            new = NewNode(f"node-{number}", node.instance_id, GROUP, node.group.instance_type, slot=node.slot)
            registration.add_node(CLUSTER, replace(new, since=self.clock.now()))
        detection = ReplacementDetection(self.table, self.append, self.rulebook)
        check = ProviderCheck(inventories, self.rollup, self.clock, registration)
        retire = Retirement(self.table, self.append, self.rulebook)
        self.inventory = SyncInventory(self.table, registration, detection, inventories, check, retire)
        self.process_entries()

    def run_inventory(self) -> None:
        """Run one inventory sync of the cluster."""
        self.inventory.sync(self.inventory.registration.cluster(CLUSTER))
        self.process_entries()

    def receive_event(self, event: dict[str, Any]) -> None:
        """Process one event of the provider, as the inventory function does."""
        InventoryEventHandler(self.table, self.inventory, launch_failure).sync_named_groups([event])
        self.process_entries()

    def instance(self, node: int = 1) -> str | None:
        incarnation = self.node(node).incarnation
        return incarnation.instance_id if incarnation else None

    def backing(self, node: int = 1) -> str:
        """The instance that HyperPod has in the slot of a node."""
        slot = self.node(node).placement.slot
        (found,) = [one.instance_id for one in self.cluster.current() if one.slot == slot]
        return found


@contextmanager
def hyperpod_world(
    owner: RepairOwner = RepairOwner.FAULTBRIDGE, settings: dict[str, Any] | None = None, **others: Any
) -> Iterator[HyperPodWorld]:
    """A world on HyperPod; `settings` are those of the fake."""
    with ExitStack() as stack:
        yield HyperPodWorld(stack, owner, settings or {}, **others)
