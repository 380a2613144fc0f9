"""The nodes of an EKS cluster: what each is called, where it is, and whether its label opts it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from faultbridge.adapters.clients import Clients
from faultbridge.domain.clusters import ClusterConfig, ProviderRole
from faultbridge.domain.failure_domains import DomainKind
from faultbridge.registry.instances import Called

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Node

    from faultbridge.adapters.kubernetes.client import Kubernetes

PROVIDER_ID = re.compile(r"aws:///[\w-]*/(i-[0-9a-f]{8,17})")
HYPERPOD_NAME = re.compile(r"hyperpod-(i-[0-9a-f]{8,17})")
OPT_OUT_LABEL = "faultbridge/opt-out"
ZONE = "topology.kubernetes.io/zone"
NETWORK_NODE = re.compile(r"topology\.k8s\.aws/network-node-layer-(\d)")
ADDRESSES = frozenset({"Hostname", "InternalDNS"})


class EksRoll:
    """A Roll that asks the Kubernetes API."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: dict[tuple[str, ProviderRole | None], Kubernetes] = {}

    def call(self, config: ClusterConfig) -> dict[str, Called]:
        """Return what the nodes are called, by instance id; one whose instance nobody can tell is left out."""
        if not config.eks_cluster:
            return {}
        nodes = self._api(config.eks_cluster, config.provider_role).nodes()
        return {instance: _called(node) for node in nodes if (instance := instance_of(node))}

    def _api(self, cluster: str, role: ProviderRole | None) -> Kubernetes:
        if (cluster, role) not in self._known:
            from faultbridge.adapters.kubernetes.client import eks

            self._known[cluster, role] = eks(self._clients.assuming(role) if role else self._clients, cluster)
        return self._known[cluster, role]


def instance_of(node: Node) -> str | None:
    """Return the EC2 instance of a Kubernetes node, by its provider id, else by a HyperPod node's name."""
    told = PROVIDER_ID.fullmatch((node.spec.providerID if node.spec else None) or "")
    named = HYPERPOD_NAME.fullmatch(_name(node) or "")
    found = told or named
    return found[1] if found else None


def _name(node: Node) -> str | None:
    return node.metadata.name if node.metadata else None


def _called(node: Node) -> Called:
    labels = (node.metadata.labels if node.metadata else None) or {}
    addresses = (node.status.addresses if node.status else None) or ()
    others = [one.address for one in addresses if one.type in ADDRESSES]
    names = dict.fromkeys(name for name in (_name(node), *others) if name)
    return Called(tuple(names), _domains(labels), labels.get(OPT_OUT_LABEL) == "true")


def _domains(labels: Mapping[str, str]) -> dict[str, str]:
    layers = sorted((found[1], value) for name, value in labels.items() if (found := NETWORK_NODE.fullmatch(name)))
    told = {DomainKind.ZONE: labels.get(ZONE), DomainKind.NETWORK_NODE: layers[-1][1] if layers else None}
    return {kind.value: value for kind, value in told.items() if value}
