"""A fake of Karpenter's controllers, and an EKS cluster with it, whose instances are those of moto.

The fake follows `karpenter.sh/v1`. A deleted NodeClaim waits until its node has no pod that a drain waits for, and is
removed with its node after its instance is terminated. A NodeClaim is launched for each pod that no node can run, or
until a NodePool with `replicas` has them. The taints with which nodes register are its startup taints. `launch` and
`terminate` change the instances.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from faultbridge.adapters.aws.clients import Clients
from faultbridge.local.kubernetes.cluster import ApiStatusError, Document, Pod, RunningInstance, takes_work
from tests.contracts.provider import IMAGE
from tests.contracts.schedulers import eks_cluster
from tests.kubernetes import FullCluster
from tests.sim.fakes import ManualClock

POOL = "gpu"
STARTUP_TAINTS = ({"key": "faultbridge/isolated", "value": "true", "effect": "NoSchedule"},)
CONTROLLER = ("kube-system", "karpenter")
POOL_LABEL = "karpenter.sh/nodepool"
DAEMON_SET = "DaemonSet"


@dataclass
class FakeKarpenter:
    """NodePools and NodeClaims of a fake cluster; `reconcile` does what the controllers do until now."""

    cluster: FullCluster
    launch: Callable[[str], RunningInstance]
    terminate: Callable[[str], None]
    register_after: timedelta = timedelta(minutes=2)
    capacity: bool = True
    pools: dict[str, Document] = field(default_factory=dict)
    claims: dict[str, Document] = field(default_factory=dict)
    deployments: dict[tuple[str, str], Document] = field(default_factory=dict)
    deletions: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _launched: dict[str, RunningInstance] = field(default_factory=dict)

    def add_pool(self, name: str, **spec: object) -> None:
        """Add a NodePool with the default disruption budget of Karpenter."""
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]}
        self.pools[name] = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name, "uid": str(uuid4())},
            "spec": {"disruption": disruption, **spec},
        }

    def add_claim(self, pool: str) -> str:
        """Launch an instance for a new NodeClaim of a NodePool; return the id of the instance."""
        with self.lock:
            name, now = f"{pool}-{uuid4().hex[:5]}", self.cluster.now()
            instance = self._launched[name] = self.launch(pool)
            provider_id = f"aws:///{instance.zone}/{instance.instance_id}"
            labels = {POOL_LABEL: pool, "node.kubernetes.io/instance-type": "p5.48xlarge"}
            self.claims[name] = {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {
                    "name": name,
                    "uid": str(uuid4()),
                    "creationTimestamp": _text(now),
                    "labels": {**labels, "topology.kubernetes.io/zone": instance.zone},
                    "finalizers": ["karpenter.sh/termination"],
                },
                "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
                "status": {"providerID": provider_id, "conditions": [{"type": "Launched", "status": "True"}]},
            }
            return instance.instance_id

    def delete_claim(self, name: str, options: Document) -> Document:
        """Accept the deletion of a NodeClaim; raises a 409 error if the precondition names another UID."""
        with self.lock:
            claim = self.claims.get(name)
            if claim is None:
                raise ApiStatusError(404, "NotFound", f'nodeclaims.karpenter.sh "{name}" not found')
            wanted = (options.get("preconditions") or {}).get("uid")
            if wanted not in {None, claim["metadata"]["uid"]}:
                uid = claim["metadata"]["uid"]
                text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
                raise ApiStatusError(409, "Conflict", text)
            if "deletionTimestamp" not in claim["metadata"]:
                self.deletions.append(name)
                claim["metadata"]["deletionTimestamp"] = _text(self.cluster.now())
            return deepcopy(claim)

    def pending(self) -> list[Pod]:
        """Return the pods that no node can run now."""
        return [pod for pod in self.cluster.running() if pod.phase == "Pending"]

    def reconcile(self) -> None:
        """Register launched nodes, start waiting pods, finish deletions, and launch what is required now."""
        with self.lock, self.cluster.lock:
            for name in tuple(self.claims):
                self._register(name)
                self._initialize(name)
                self._finalize(name)
            self._place_pods()
            for pool, document in self.pools.items():
                self._launch(pool, document["spec"].get("replicas"))

    def _register(self, name: str) -> None:
        claim, instance = self.claims[name], self._launched[name]
        created = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
        if "nodeName" in claim["status"] or self.cluster.now() < created + self.register_after:
            return
        self.cluster.join(instance)
        pool = claim["metadata"]["labels"][POOL_LABEL]
        labels = {POOL_LABEL: pool, "karpenter.sh/registered": "true"}
        self.cluster.patch_node(instance.name, {"metadata": {"labels": labels}})
        claim["status"]["nodeName"] = instance.name
        _set_true(claim, "Launched", "Registered")

    def _initialize(self, name: str) -> None:
        claim = self.claims[name]
        node = self.cluster.nodes.get(str(claim["status"].get("nodeName")))
        waited_for = [one["key"] for one in self.cluster.register_taints]
        if node and not any(one["key"] in waited_for for one in node["spec"].get("taints") or ()):
            _set_true(claim, "Launched", "Registered", "Initialized", "Ready")

    def _finalize(self, name: str) -> None:
        claim, instance = self.claims[name], self._launched[name]
        if "deletionTimestamp" not in claim["metadata"]:
            return
        if any(pod.node == instance.name and _holds(pod) for pod in self.cluster.running()):
            return
        self.terminate(instance.instance_id)
        del self.claims[name]
        self.cluster.remove_node(instance.name)

    def _place_pods(self) -> None:
        free = [name for name, node in sorted(self.cluster.nodes.items()) if takes_work(node)]
        taken = {pod.node for pod in self.cluster.running() if pod.up and pod.owner != DAEMON_SET}
        for pod, node in zip(self.pending(), [one for one in free if one not in taken], strict=False):
            pod.node, pod.phase = node, "Running"

    def _launch(self, pool: str, replicas: object) -> None:
        kept = [one for one in self.claims.values() if one["metadata"]["labels"][POOL_LABEL] == pool]
        kept = [one for one in kept if "deletionTimestamp" not in one["metadata"]]
        starting = sum(all(one["type"] != "Initialized" for one in claim["status"]["conditions"]) for claim in kept)
        missing = int(str(replicas)) - len(kept) if replicas is not None else len(self.pending()) - starting
        for _ in range(missing if self.capacity else 0):
            self.add_claim(pool)


def _set_true(claim: Document, *conditions: str) -> None:
    claim["status"]["conditions"] = [{"type": one, "status": "True"} for one in conditions]


def _holds(pod: Pod) -> bool:
    return pod.owner != DAEMON_SET and not pod.mirror and pod.phase in {"Running", "Pending"}


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


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
        cluster.keeps_pending = True
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


def name_of(cluster: FullCluster, instance_id: str) -> str:
    """The name of the node of an instance."""
    return next(name for name, node in cluster.nodes.items() if node["spec"]["providerID"].endswith(instance_id))
