"""Orchestrators for the contract tests: in memory, EKS on a fake Kubernetes API, and real Slurms on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from moto.backends import get_backend

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator
from faultbridge.adapters.slurm.access import Scontrol, SlurmOperations
from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.adapters.slurm.rest import Access, Answer, RestClient, SlurmRest, send
from faultbridge.local.kubernetes.cluster import Pod, RunningInstance, takes_work
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode, Orchestrator
from tests.contracts.aws import REGION, fresh
from tests.contracts.real_slurm import RealSlurm
from tests.kubernetes import FullCluster, answer
from tests.sim.fakes import START, FakeFleet, FakeOrchestrator, ManualClock
from tests.sim.fakes.fleet import host_name


class Scheduler(Protocol):
    """A cluster with two instances, and its orchestrator; the cluster does not have `stranger`.

    `successor` is the node of `member` after a replacement: its instance is on another host.
    """

    orchestrator: Orchestrator
    clock: ManualClock
    member: ClusterNode
    successor: ClusterNode
    stranger: ClusterNode

    def occupy(self, minutes: float, node: ClusterNode | None = None) -> None:
        """Run work on the instance of a node, by default the member, that ends this long after eviction."""

    def takes_work(self, node: ClusterNode | None = None) -> bool:
        """Whether new work can be scheduled on the instance of a node, by default the member."""

    def become_unreachable(self) -> None:
        """Respond to no further call."""


class InMemory:
    """An orchestrator in memory (fake)."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        fleet = FakeFleet(self.clock)
        fake = FakeOrchestrator(self.clock, fleet=fleet)
        self.orchestrator: Orchestrator = fake
        self.fake = fake
        config = ClusterConfig("train-a")
        first, second = fleet.launch("workers"), fleet.launch("workers")
        self.member = ClusterNode(config, "node-1", first, host_names=(host_name(first),))
        self.successor = replace(self.member, instance_id=second, host_names=(host_name(second),))
        self.stranger = ClusterNode(config, "node-9", "i-9")
        fake.unknown_nodes.add("node-9")

    def occupy(self, minutes: float, node: ClusterNode | None = None) -> None:
        instance = str((node or self.member).instance_id)
        self.fake.busy_until[instance] = self.clock.now() + timedelta(minutes=minutes)

    def takes_work(self, node: ClusterNode | None = None) -> bool:
        return (node or self.member).instance_id not in self.fake.cordoned_instances

    def become_unreachable(self) -> None:
        self.fake.fail_next(*[ProviderFailure.TIMEOUT] * 10)


class OnEks:
    """The adapter, EKS of moto, and the Kubernetes API of the embedded stack (fake) on loopback."""

    NODE, INSTANCE = "ip-10-0-0-7.ec2.internal", "i-00000000000000007"
    SECOND_NODE, SECOND_INSTANCE = "ip-10-0-0-8.ec2.internal", "i-00000000000000008"

    def __init__(self, clients: Clients, name: str, cluster: FullCluster, clock: ManualClock) -> None:
        self.clients, self.clock, self.cluster = clients, clock, cluster
        self.orchestrator: Orchestrator = EksOrchestrator(clients, clock)
        config = ClusterConfig("train-a", orchestrator="eks", eks_cluster=name)
        self.member = ClusterNode(config, "node-1", self.INSTANCE, ("10.0.0.7",), host_names=(self.NODE,))
        self.successor = replace(self.member, instance_id=self.SECOND_INSTANCE, host_names=(self.SECOND_NODE,))
        self.stranger = ClusterNode(config, "node-9", "i-00000000000000009")

    def occupy(self, minutes: float, node: ClusterNode | None = None) -> None:
        self.cluster.start(Pod("ml", "job-0", (node or self.member).host_names[0], grace_seconds=minutes * 60))

    def takes_work(self, node: ClusterNode | None = None) -> bool:
        return takes_work(self.cluster.node((node or self.member).host_names[0]))

    def become_unreachable(self) -> None:
        self.cluster.reachable = False


class SlurmClock(ManualClock):
    """A clock whose advance ends every job: the daemons of Slurm have their own clock."""

    def __init__(self, slurm: RealSlurm) -> None:
        super().__init__(START)
        self.slurm = slurm

    def advance(self, by: timedelta) -> None:
        super().advance(by)
        self.slurm(("scancel", "--user=root"))
        self.slurm.until(lambda: not self.slurm(("squeue", "--noheader")).stdout.strip())


def operations(slurm: RealSlurm) -> SlurmOperations:
    """The operations on a real Slurm: over slurmrestd if it runs, else by commands."""
    return SlurmRest(rest_client(slurm), Scontrol(slurm).requeue) if slurm.rest else Scontrol(slurm)


def rest_client(slurm: RealSlurm) -> RestClient:
    """A client of its slurmrestd, which does not answer while Slurm is unreachable."""

    def transport(access: Access, method: str, path: str, body: bytes | None) -> Answer:
        return send(replace(access, url=slurm.nowhere) if slurm.unreachable else access, method, path, body)

    return RestClient(lambda: Access(slurm.rest, "root", slurm.token()), transport)


class OnSlurm:
    """The adapter, and a real Slurm of two nodes; its commands run here instead of on a head node."""

    def __init__(self, slurm: RealSlurm, provider: str = "ec2-auto-scaling") -> None:
        self.slurm, self.clock = slurm, SlurmClock(slurm)
        self.orchestrator: Orchestrator = SlurmOrchestrator(lambda _: operations(slurm), self.clock)
        head = "i-0123456789abcdef0"
        self.config = ClusterConfig("train-a", provider=provider, orchestrator="slurm", slurm_head_node=head)
        # The node is named after the host of its first instance, like nodes of `node import --group`.
        first = ("n1", "n1.internal")
        self.member = ClusterNode(self.config, "n1", "i-00000000000000007", host_names=first, keeps_name=False)
        self.successor = replace(self.member, instance_id="i-00000000000000008", host_names=("n2", "n2.internal"))
        self.stranger = ClusterNode(self.config, "n9", "i-00000000000000009")

    def occupy(self, minutes: float, node: ClusterNode | None = None) -> None:
        host = (node or self.member).host_names[0]
        job = self.slurm.submit(int(minutes * 60), host)
        self.slurm.until(lambda: self.slurm.job(job) == f"RUNNING {host}")

    def takes_work(self, node: ClusterNode | None = None) -> bool:
        shown = self.slurm(("scontrol", "show", "node", (node or self.member).host_names[0])).stdout
        return not {"DRAIN", "FAIL"} & set(shown.partition("State=")[2].split()[0].split("+"))

    def become_unreachable(self) -> None:
        self.slurm.unreachable = True


@contextmanager
def on_eks(clients: Clients) -> Iterator[OnEks]:
    """An EKS cluster with two nodes, whose names differ from the name of our node."""
    clock = ManualClock(START)
    with eks_cluster(clients, clock) as cluster:
        cluster.join(RunningInstance(OnEks.INSTANCE, OnEks.NODE))
        cluster.join(RunningInstance(OnEks.SECOND_INSTANCE, OnEks.SECOND_NODE))
        yield OnEks(clients, cluster.name, cluster, clock)


@contextmanager
def eks_cluster(
    clients: Clients, clock: ManualClock, name: str | None = None, account: str = "123456789012"
) -> Iterator[FullCluster]:
    """An EKS cluster without nodes in the account of the clients, whose Kubernetes API is a fake on this machine."""
    name = name or fresh("eks")
    cluster = FullCluster(name, clock.now)
    with served(cluster) as url:
        clients.eks.create_cluster(
            name=name, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": []}
        )
        made = get_backend("eks")[account][REGION].clusters[name]
        # Nothing listens at the endpoint that moto returns.
        made.endpoint, made.certificate_authority = url, {}
        yield cluster


@contextmanager
def served(cluster: FullCluster) -> Iterator[str]:
    """The URL of a Kubernetes API that serves the cluster on this machine."""

    def application(environ: Any, start: Any) -> Any:
        return answer(cluster, environ, start)

    with make_server("127.0.0.1", 0, application, _Threaded, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Threaded(ThreadingMixIn, WSGIServer):
    """A watch takes one connection for minutes."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        return
