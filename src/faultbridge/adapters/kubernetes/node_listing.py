"""List the nodes of an EKS cluster: names, failure domains and opt-out labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.connection import connections
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.instances import Instance
from faultbridge.domain.nodes import NETWORK_LAYERS, DomainKind

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Node

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
        """Return the names, failure domains and opt-outs of the nodes of a cluster, by instance id.

        Nodes without an instance id are left out. The result is empty for a cluster without EKS.
        """
        if not config.eks_cluster:
            return {}
        nodes = self._connect(config).nodes()
        return {instance: _instance(instance, node) for node in nodes if (instance := instance_of(node))}


def instance_of(node: Node) -> str | None:
    """Return the instance id of a Kubernetes node, or None if it has none.

    The id comes from the provider id of the node or, for a HyperPod node, from its name.
    """
    by_provider_id = PROVIDER_ID.fullmatch((node.spec.providerID if node.spec else None) or "")
    by_name = HYPERPOD_NAME.fullmatch(_name(node) or "")
    found = by_provider_id or by_name
    return found[1] if found else None


def _name(node: Node) -> str | None:
    return node.metadata.name if node.metadata else None


def _instance(instance_id: str, node: Node) -> Instance:
    labels = (node.metadata.labels if node.metadata else None) or {}
    addresses = (node.status.addresses if node.status else None) or ()
    host_names = [one.address for one in addresses if one.type in ADDRESSES]
    names = dict.fromkeys(name for name in (_name(node), *host_names) if name)
    opted_out = labels.get(OPT_OUT_LABEL) == "true"
    opt_out_node = _name(node) if opted_out else None
    return Instance(instance_id, tuple(names), _domains(labels), opted_out=opted_out, opt_out_node=opt_out_node)


def _domains(labels: Mapping[str, str]) -> dict[str, str]:
    layers = sorted((found[1], value) for name, value in labels.items() if (found := NETWORK_NODE.fullmatch(name)))
    switches = [value for _, value in reversed(layers)]
    domains = {DomainKind.ZONE: labels.get(ZONE), **dict(zip(NETWORK_LAYERS, switches, strict=False))}
    return {kind.value: value for kind, value in domains.items() if value}
