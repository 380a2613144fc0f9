"""Cordon and drain the nodes of EKS clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.call_results import errors_become_results
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import DomainKind, ProviderFailure
from faultbridge.model.errors import FaultbridgeError, Misconfigured
from faultbridge.model.nodes import NETWORK_LAYERS, Instance
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult
from faultbridge.record.ports.table import Clock

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Node

    from faultbridge.adapters.kubernetes.client import Kubernetes
    from faultbridge.adapters.kubernetes.nodes import NodeClient, RemainingPod
    from faultbridge.model.cluster.config import ProviderRole

    Connect = Callable[[ClusterConfig], Kubernetes]

_FAILURES: Mapping[int, ProviderFailure] = {
    HTTPStatus.NOT_FOUND: ProviderFailure.NOT_FOUND,
    HTTPStatus.CONFLICT: ProviderFailure.CONFLICT,
}


def connections(clients: Clients) -> Connect:
    """Return a function that keeps one client per EKS cluster and role; Misconfigured without EKS."""
    known: dict[tuple[str, ProviderRole | None], Kubernetes] = {}

    def connect(config: ClusterConfig) -> Kubernetes:
        from faultbridge.adapters.kubernetes.client import eks

        cluster, role = config.eks_cluster, config.provider_role
        if cluster is None:
            raise Misconfigured(f"no EKS cluster is registered for {config.cluster}; set --eks-cluster")
        if (cluster, role) not in known:
            known[cluster, role] = eks(clients.for_role(role), cluster)
        return known[cluster, role]

    return connect


def failure_of(error: FaultbridgeError) -> ProviderFailure:
    """Convert an error of the client: an ApiRejection by its status, any other to PERMISSION_DENIED."""
    from faultbridge.adapters.kubernetes.client import ApiRejection

    if isinstance(error, ApiRejection):
        return _FAILURES.get(error.status, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PERMISSION_DENIED


class EksOrchestrator:
    """An Orchestrator for the nodes of EKS clusters; the Kubernetes client is imported on first use."""

    applicable = True

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._connect = connections(clients)
        self._clock = clock
        self._node_clients: dict[int, NodeClient] = {}

    @errors_become_results(failure_of)
    def cordon(self, node: ClusterNode) -> CallResult:
        """Make the node unschedulable, and add Faultbridge's isolation taint and label."""
        from faultbridge.adapters.kubernetes.nodes import isolation_patch

        self._node_client(node).patch(node, isolation_patch)
        return CallResult(reason="cordoned")

    @errors_become_results(failure_of)
    def discourage(self, node: ClusterNode) -> CallResult:
        """Add Faultbridge's taint with the effect `PreferNoSchedule`, unless the node is isolated."""
        from faultbridge.adapters.kubernetes.nodes import preference_patch

        self._node_client(node).patch(node, preference_patch)
        return CallResult(reason="other nodes are preferred")

    @errors_become_results(failure_of)
    def uncordon(self, node: ClusterNode) -> CallResult:
        """Remove Faultbridge's taint and isolation; a node that was cordoned before stays cordoned."""
        from faultbridge.adapters.kubernetes.nodes import release_patch, stays_cordoned

        before = self._node_client(node).patch(node, release_patch)
        return CallResult(
            reason="stays cordoned: it was cordoned before the isolation" if stays_cordoned(before) else "uncordoned"
        )

    @errors_become_results(failure_of)
    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Evict the pods of the node until the deadline; returns TIMEOUT while pods still run."""
        from faultbridge.adapters.kubernetes.nodes import evict_all

        return self._remaining(node, lambda api, name: evict_all(api, name, self._clock.now(), deadline))

    @errors_become_results(failure_of)
    def idle(self, node: ClusterNode) -> CallResult:
        """Return TIMEOUT while pods run that request an accelerator, EFA or a device claim. No pod is evicted."""
        from faultbridge.adapters.kubernetes.nodes import running_pods

        return self._remaining(node, partial(running_pods, working=True))

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return whether the condition `Ready` is true; a silent kubelet gives FAILED, no condition UNKNOWN."""
        found = self._node_client(node).find(node)
        conditions = (found.status.conditions if found is not None and found.status else None) or ()
        ready = next((one.status for one in conditions if one.type == "Ready"), None)
        if ready is None:
            return CheckResult.UNKNOWN
        return CheckResult.PASSED if ready == "True" else CheckResult.FAILED

    def _remaining(
        self, node: ClusterNode, remaining_pods: Callable[[Kubernetes, str], list[RemainingPod]]
    ) -> CallResult:
        from faultbridge.adapters.kubernetes.nodes import describe, name_of

        client = self._node_client(node)
        found = client.find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no pods to drain")
        remaining = remaining_pods(client.api, name_of(found))
        failure = ProviderFailure.TIMEOUT if remaining else None
        return CallResult(failure, describe(remaining) if remaining else "no pod is left")

    def _node_client(self, node: ClusterNode) -> NodeClient:
        from faultbridge.adapters.kubernetes.nodes import NodeClient

        api = self._connect(node.cluster)
        return self._node_clients.setdefault(id(api), NodeClient(api))


class NoOrchestrator:
    """The Orchestrator of a cluster that has no orchestrator: its calls do nothing, and no call fails."""

    applicable = False

    def cordon(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that no action of an orchestrator applies to this cluster."""
        return CallResult(reason="not applicable: the cluster has no orchestrator")

    discourage = uncordon = idle = cordon

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that a drain does not apply to this cluster."""
        return self.cordon(node)

    def readiness(self, node: ClusterNode) -> CheckResult:  # noqa: ARG002 - the port's signature
        """Return UNKNOWN, because no orchestrator reports whether the node is ready."""
        return CheckResult.UNKNOWN


ACCELERATORS = ("nvidia.com/", "aws.amazon.com/neuron", "amd.com/gpu")
"""Prefixes of the resources of accelerators, in the requests of the pods that use them."""

PROVIDER_ID = re.compile(r"aws:///[\w-]*/(i-[0-9a-f]{8,17})")
HYPERPOD_NAME = re.compile(r"hyperpod-(i-[0-9a-f]{8,17})")
OPT_OUT_LABEL = "faultbridge/opt-out"
ZONE = "topology.kubernetes.io/zone"
NETWORK_NODE = re.compile(r"topology\.k8s\.aws/network-node-layer-(\d)")
ADDRESSES = frozenset({"Hostname", "InternalDNS"})


class EksNodeListing:
    """Lists the nodes of EKS clusters through the Kubernetes API."""

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    def list_instances(self, config: ClusterConfig) -> dict[str, Instance]:
        """Return names, domains, opt-outs and cordons by instance id, without other nodes; empty without EKS."""
        if not config.eks_cluster:
            return {}
        nodes = self._connect(config).nodes()
        return {instance: _instance(instance, node) for node in nodes if (instance := instance_of(node))}


def instance_of(node: Node) -> str | None:
    """Return the instance id of a Kubernetes node: from its provider id or, on HyperPod, from its name."""
    by_provider_id = PROVIDER_ID.fullmatch((node.spec.providerID if node.spec else None) or "")
    by_name = HYPERPOD_NAME.fullmatch(_name(node) or "")
    found = by_provider_id or by_name
    return found[1] if found else None


def _name(node: Node) -> str | None:
    return node.metadata.name if node.metadata else None


def _instance(instance_id: str, node: Node) -> Instance:
    from faultbridge.adapters.kubernetes.nodes import stays_cordoned

    labels = (node.metadata.labels if node.metadata else None) or {}
    addresses = (node.status.addresses if node.status else None) or ()
    host_names = [one.address for one in addresses if one.type in ADDRESSES]
    names = dict.fromkeys(name for name in (_name(node), *host_names) if name)
    opted_out = labels.get(OPT_OUT_LABEL) == "true"
    opt_out_node = _name(node) if opted_out else None
    return Instance(
        instance_id,
        tuple(names),
        _domains(labels),
        opted_out=opted_out,
        opt_out_node=opt_out_node,
        cordoned=stays_cordoned(node),
    )


def _domains(labels: Mapping[str, str]) -> dict[str, str]:
    layers = sorted((found[1], value) for name, value in labels.items() if (found := NETWORK_NODE.fullmatch(name)))
    switches = [value for _, value in reversed(layers)]
    domains = {DomainKind.ZONE: labels.get(ZONE), **dict(zip(NETWORK_LAYERS, switches, strict=False))}
    return {kind.value: value for kind, value in domains.items() if value}


class EksVolumeAttachments:
    """Lists the VolumeAttachments of a node; the storage driver deletes one after it detached."""

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the volumes that are still attached; none if the cluster does not have the node."""
        from faultbridge.adapters.kubernetes.nodes import NodeClient, name_of

        api = self._connect(node.cluster)
        found = NodeClient(api).find(node)
        return tuple(api.attached_volumes(name_of(found))) if found else ()
