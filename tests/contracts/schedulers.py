"""Orchestrators for the contract tests: one in memory, and EKS on a fake Kubernetes API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from moto.backends import get_backend

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.local.kubernetes import api
from faultbridge.local.kubernetes.cluster import Cluster, Pod, RunningInstance, takes_work
from faultbridge.ports import ClusterNode, Orchestrator, ProviderFailure
from faultbridge.simulation.fakes import START, FakeOrchestrator, ManualClock
from tests.contracts.aws import REGION, fresh


class Scheduler(Protocol):
    """A cluster with one node, and its orchestrator; the cluster does not have `stranger`."""

    orchestrator: Orchestrator
    clock: ManualClock
    member: ClusterNode
    stranger: ClusterNode

    def occupy(self, minutes: float) -> None:
        """Run work on the node that takes this long to terminate after eviction."""

    def takes_work(self) -> bool:
        """Whether new work can be scheduled on the node."""

    def become_unreachable(self) -> None:
        """Respond to no further call."""


class InMemory:
    """An orchestrator in memory (fake)."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        fake = FakeOrchestrator(self.clock)
        self.orchestrator: Orchestrator = fake
        self.fake = fake
        config = ClusterConfig("train-a")
        self.member, self.stranger = ClusterNode(config, "node-1", "i-1"), ClusterNode(config, "node-9", "i-9")
        fake.unknown_nodes.add("node-9")

    def occupy(self, minutes: float) -> None:
        self.fake.busy_until["node-1"] = self.clock.now() + timedelta(minutes=minutes)

    def takes_work(self) -> bool:
        return "node-1" not in self.fake.cordoned

    def become_unreachable(self) -> None:
        self.fake.fail_next(*[ProviderFailure.TIMEOUT] * 10)


class OnEks:
    """The adapter, EKS of moto, and the Kubernetes API of the embedded stack (fake) on loopback."""

    NODE, INSTANCE = "ip-10-0-0-7.ec2.internal", "i-00000000000000007"

    def __init__(self, clients: Clients, name: str, cluster: Cluster, clock: ManualClock) -> None:
        self.clock, self.cluster = clock, cluster
        self.orchestrator: Orchestrator = EksOrchestrator(clients, clock)
        config = ClusterConfig("train-a", orchestrator="eks", eks_cluster=name)
        self.member = ClusterNode(config, "node-1", self.INSTANCE, ("10.0.0.7", self.NODE))
        self.stranger = ClusterNode(config, "node-9", "i-00000000000000009")

    def occupy(self, minutes: float) -> None:
        self.cluster.start(Pod("ml", "job-0", self.NODE, grace_seconds=minutes * 60))

    def takes_work(self) -> bool:
        return takes_work(self.cluster.node(self.NODE))

    def become_unreachable(self) -> None:
        self.cluster.reachable = False


@contextmanager
def on_eks(clients: Clients) -> Iterator[OnEks]:
    """An EKS cluster with one node, whose name differs from the name of our node."""
    clock, name = ManualClock(START), fresh("eks")
    cluster = Cluster(name, clock.now)
    cluster.join(RunningInstance(OnEks.INSTANCE, OnEks.NODE))
    with served(cluster) as url:
        clients.eks.create_cluster(
            name=name, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": []}
        )
        made = get_backend("eks")["123456789012"][REGION].clusters[name]
        # Nothing listens at the endpoint that moto returns.
        made.endpoint, made.certificate_authority = url, {}
        yield OnEks(clients, name, cluster, clock)


@contextmanager
def served(cluster: Cluster) -> Iterator[str]:
    """The URL of a Kubernetes API that serves the cluster on this machine."""

    def application(environ: Any, start: Any) -> Any:
        return api.answer(lambda: cluster, environ["PATH_INFO"], environ, start)

    with make_server("127.0.0.1", 0, application, WSGIServer, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        return
