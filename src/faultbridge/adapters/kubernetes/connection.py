"""Return the Kubernetes client of a registered cluster, and convert its errors to ProviderFailure.

The module imports the Kubernetes client on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from faultbridge.errors import FaultbridgeError, Misconfigured
from faultbridge.ports import ProviderFailure

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.kubernetes.client import Kubernetes
    from faultbridge.domain.cluster.config import ClusterConfig, ProviderRole

    Connect = Callable[[ClusterConfig], Kubernetes]

_FAILURES: Mapping[int, ProviderFailure] = {
    HTTPStatus.NOT_FOUND: ProviderFailure.NOT_FOUND,
    HTTPStatus.CONFLICT: ProviderFailure.CONFLICT,
}


def connections(clients: Clients) -> Connect:
    """Return a function that returns the Kubernetes client of a registered cluster.

    The returned function keeps one client for each EKS cluster and AWS role. For a cluster that is registered without
    an EKS cluster, the returned function raises Misconfigured.
    """
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
    """Convert an error of the Kubernetes client to a ProviderFailure.

    An ApiRejection is converted by its HTTP status. Any other error becomes PERMISSION_DENIED.
    """
    from faultbridge.adapters.kubernetes.client import ApiRejection

    if isinstance(error, ApiRejection):
        return _FAILURES.get(error.status, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PERMISSION_DENIED
