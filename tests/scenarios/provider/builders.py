"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator
from faultbridge.local.hyperpod import CHECKING, RUNNING
from faultbridge.local.kubernetes.cluster import RunningInstance, takes_work
from faultbridge.model.cluster.config import RepairOwner
from faultbridge.model.cluster.state import Spare, SpareStatus
from faultbridge.model.enums import CaseStatus
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.retirement import Retirement
from faultbridge.repair.spares.pool import SparePool
from tests.contracts.schedulers import eks_cluster
from tests.scenarios.provider.growth import Growth
from tests.scenarios.provider.hyperpod_world import HyperPodWorld
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World


def last(growth: Growth) -> tuple[object, ...]:
    status = growth.statuses()[-1]
    return (status["to"], status["in_service"], status["expected"])


OLD, NEW = "i-00000000000000001", "i-00000000000000002"


def faulty(*instance_types: str) -> World:
    world = World()
    world.launch_from_template(*instance_types)
    world.fault()
    return world


def retire(world: World, reason: str) -> None:
    Retirement(world.table, world.append, world.rulebook).retire(world.key(), OperatorOrder("an operator", reason))


def launched_and_then_retired() -> World:
    """Return a world in which another tool ends the instance, and a node is retired while its successor is launched."""
    world = faulty()
    world.fleet.launch_delay = timedelta(minutes=5)
    world.fleet.terminate(OLD)
    world.process_entries()
    world.until(lambda: NEW in world.fleet.instances)
    retire(world, "not needed any more")
    return world


RESOLVED, READY = CaseStatus.RESOLVED, SpareStatus.READY


def pool(world: World) -> tuple[Spare, ...]:
    return SparePool(world.table, world.clock).spares(CLUSTER)


def ready(world: World) -> list[str]:
    return [str(one.instance_id) for one in pool(world) if one.status is READY]


def configure(world: World, **changes: Any) -> None:
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)


def world_with(spares: int, *, nodes: int = 1, orchestrated: bool = False) -> World:
    world = World(nodes=nodes, orchestrated=orchestrated)
    world.launch_from_template()
    configure(world, spares=spares, spare_group=GROUP)
    return world


def world_with_ready(spares: int, *, nodes: int = 1, orchestrated: bool = False) -> World:
    world = world_with(spares, nodes=nodes, orchestrated=orchestrated)
    world.until(lambda: len(ready(world)) == spares, minutes=60)
    return world


SYSTEM_UPDATING = "SystemUpdating"


class OnEks(HyperPodWorld):
    """HyperPod nodes that join a Kubernetes cluster under the names that HyperPod gives them."""

    def __init__(self, stack: ExitStack, clients: Clients, **others: Any) -> None:
        self.eks_clients = clients
        super().__init__(stack, RepairOwner.FAULTBRIDGE, {}, **others)

    def connect(self, ports: ScenarioPorts) -> None:
        super().connect(ports)
        self.kubernetes = self.stack.enter_context(eks_cluster(self.eks_clients, self.clock))
        self.orchestration = {"orchestrator": "eks", "eks_cluster": self.kubernetes.name}
        ports.orchestrators = {"eks": EksOrchestrator(self.eks_clients, self.clock)}

    def join_nodes(self) -> None:
        """Let the kubelets of running nodes register, and remove the nodes of the others."""
        running = [
            one.instance_id for one in self.cluster.current() if one.status in {RUNNING, CHECKING, SYSTEM_UPDATING}
        ]
        self.kubernetes.sync([RunningInstance(one, name(one)) for one in running])

    def takes_work(self, instance: str | None) -> bool:
        return takes_work(self.kubernetes.node(name(instance)))


def name(instance: str | None) -> str:
    return f"hyperpod-{instance}"
