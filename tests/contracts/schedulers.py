"""Schedulers for the contract of the Orchestrator port: one in memory, and EKS over a small Kubernetes API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from moto.backends import get_backend

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.orchestrators.eks import EksOrchestrator
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.local.kubernetes import api
from faultbridge.local.kubernetes.cluster import Cluster, Machine, Pod, takes_work
from faultbridge.ports import Member, Orchestrator, ProviderFailure
from faultbridge.simulation.fakes import START, FakeOrchestrator, ManualClock
from tests.contracts.aws import REGION, fresh


class Scheduler(Protocol):
    """A cluster with one node, and the orchestrator that is asked about it."""

    orchestrator: Orchestrator
    clock: ManualClock
    member: Member
    stranger: Member

    def occupy(self, minutes: float) -> None:
        """Let work run on the node that takes so long to leave once it is asked to."""

    def takes_work(self) -> bool:
        """Whether new work may come to the node."""

    def fall_silent(self) -> None:
        """Answer nobody from now on."""


class InMemory:
    """A fake."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        fake = FakeOrchestrator(self.clock)
        self.orchestrator: Orchestrator = fake
        self.fake = fake
        config = ClusterConfig("train-a")
        self.member, self.stranger = Member(config, "node-1", "i-1"), Member(config, "node-9", "i-9")
        fake.absent.add("node-9")

    def occupy(self, minutes: float) -> None:
        self.fake.busy_until["node-1"] = self.clock.now() + timedelta(minutes=minutes)

    def takes_work(self) -> bool:
        return "node-1" not in self.fake.cordoned

    def fall_silent(self) -> None:
        self.fake.fail_next(*[ProviderFailure.TIMEOUT] * 10)


class OnEks:
    """The adapter, EKS of moto, and the Kubernetes API of the embedded stack (fake) on loopback."""

    NODE, INSTANCE = "ip-10-0-0-7.ec2.internal", "i-00000000000000007"

    def __init__(self, clients: Clients, name: str, cluster: Cluster, clock: ManualClock) -> None:
        self.clock, self.cluster = clock, cluster
        self.orchestrator: Orchestrator = EksOrchestrator(clients, clock)
        config = ClusterConfig("train-a", orchestrator="eks", eks_cluster=name)
        self.member = Member(config, "node-1", self.INSTANCE, ("10.0.0.7", self.NODE))
        self.stranger = Member(config, "node-9", "i-00000000000000009")

    def occupy(self, minutes: float) -> None:
        self.cluster.start(Pod("ml", "job-0", self.NODE, grace_seconds=minutes * 60))

    def takes_work(self) -> bool:
        return takes_work(self.cluster.node(self.NODE))

    def fall_silent(self) -> None:
        self.cluster.reachable = False


@contextmanager
def on_eks(clients: Clients) -> Iterator[OnEks]:
    """An EKS cluster with one node, called otherwise than its node."""
    clock, name = ManualClock(START), fresh("eks")
    cluster = Cluster(name, clock.now)
    cluster.join(Machine(OnEks.INSTANCE, OnEks.NODE))
    with served(cluster) as url:
        clients.eks.create_cluster(
            name=name, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": []}
        )
        made = get_backend("eks")["123456789012"][REGION].clusters[name]
        # Where moto says that the API is, nobody answers.
        made.endpoint, made.certificate_authority = url, {}
        yield OnEks(clients, name, cluster, clock)


@contextmanager
def served(cluster: Cluster) -> Iterator[str]:
    """The API of a cluster at an address on loopback."""

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
