"""A fake EKS cluster with Karpenter, whose instances are those of moto."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faultbridge.adapters.aws.clients import Clients
from faultbridge.local.kubernetes.cluster import Cluster, RunningInstance
from faultbridge.local.kubernetes.karpenter import FakeKarpenter
from tests.contracts.provider import IMAGE
from tests.contracts.schedulers import eks_cluster
from tests.sim.fakes import ManualClock

POOL = "gpu"
STARTUP_TAINTS = ({"key": "faultbridge/isolated", "value": "true", "effect": "NoSchedule"},)
CONTROLLER = ("kube-system", "karpenter")


@contextmanager
def karpenter_cluster(
    clients: Clients,
    clock: ManualClock,
    nodes: int,
    *,
    pool: str = POOL,
    launched: Callable[[str], object] = lambda _: None,
    terminated: Callable[[str], object] = lambda _: None,
    **spec: object,
) -> Iterator[FakeKarpenter]:
    """A cluster with one NodePool, whose nodes are registered; `spec` belongs to the NodePool."""

    def launch(_: str) -> RunningInstance:
        made = clients.ec2.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, InstanceType="p4d.24xlarge")
        instance = made["Instances"][0]
        launched(instance["InstanceId"])
        return RunningInstance(instance["InstanceId"], instance["PrivateDnsName"])

    def terminate(instance_id: str) -> None:
        clients.ec2.terminate_instances(InstanceIds=[instance_id])
        terminated(instance_id)

    with eks_cluster(clients, clock) as cluster:
        karpenter = cluster.karpenter = FakeKarpenter(cluster, launch, terminate)
        karpenter.add_pool(pool, **spec)
        for _ in range(nodes):
            karpenter.add_claim(pool)
        advance(clock, karpenter)
        cluster.register_taints = STARTUP_TAINTS
        yield karpenter


def advance(clock: ManualClock, karpenter: FakeKarpenter) -> None:
    """Advance the clock until the launched nodes are registered."""
    karpenter.reconcile()
    clock.advance(karpenter.register_after)
    karpenter.reconcile()


def deployment(gates: str) -> dict[str, object]:
    """The Deployment of Karpenter's Helm chart, as far as its feature gates matter."""
    container = {"name": "controller", "env": [{"name": "FEATURE_GATES", "value": gates}]}
    return {"metadata": {"name": "karpenter"}, "spec": {"template": {"spec": {"containers": [container]}}}}


def name_of(cluster: Cluster, instance_id: str) -> str:
    """The name of the node of an instance."""
    return next(name for name, node in cluster.nodes.items() if node["spec"]["providerID"].endswith(instance_id))
