"""Cordon and drain the nodes of EKS clusters.

`NoOrchestrator` is for clusters that have no orchestrator; its calls do nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.kubernetes.connection import connections, failure_of
from faultbridge.ports import CallResult, CheckResult, Clock, ClusterNode, ProviderFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.kubernetes.client import Kubernetes
    from faultbridge.adapters.kubernetes.eviction import RemainingPod
    from faultbridge.adapters.kubernetes.node_client import NodeClient


class EksOrchestrator:
    """An Orchestrator that cordons and drains the nodes of EKS clusters.

    The Kubernetes client is imported on first use.
    """

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._connect = connections(clients)
        self._clock = clock
        self._node_clients: dict[int, NodeClient] = {}

    @property
    def applicable(self) -> bool:
        """Return True: the cluster has an orchestrator, so cordons and drains apply to it."""
        return True

    def cordon(self, node: ClusterNode) -> CallResult:
        """Make the node unschedulable, and add Faultbridge's isolation taint and label."""
        return result_of(lambda: self._cordon(node), failure_of)

    def discourage(self, node: ClusterNode) -> CallResult:
        """Add Faultbridge's taint with the effect `PreferNoSchedule`, unless the node is isolated."""
        return result_of(lambda: self._discourage(node), failure_of)

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Remove Faultbridge's taint and isolation, and make the node schedulable.

        A node that was already cordoned before Faultbridge isolated it stays cordoned, and the reason in the result
        states this. A node that Faultbridge did not isolate does not change.
        """
        return result_of(lambda: self._uncordon(node), failure_of)

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Evict the pods of the node; returns TIMEOUT while pods still run.

        No eviction starts after the deadline.
        """
        return result_of(lambda: self._drain(node, deadline), failure_of)

    def idle(self, node: ClusterNode) -> CallResult:
        """Return TIMEOUT while pods run for which a drain would have to wait. No pod is evicted."""
        return result_of(lambda: self._idle(node), failure_of)

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return PASSED if the node's condition `Ready` is true, and FAILED if it has another status.

        The control plane sets the status to `Unknown` when the kubelet stops reporting; the result is then FAILED. The
        result is UNKNOWN if the node does not exist or has no condition `Ready`.
        """
        found = self._node_client(node).find(node)
        conditions = (found.status.conditions if found is not None and found.status else None) or ()
        ready = next((one.status for one in conditions if one.type == "Ready"), None)
        if ready is None:
            return CheckResult.UNKNOWN
        return CheckResult.PASSED if ready == "True" else CheckResult.FAILED

    def _cordon(self, node: ClusterNode) -> CallResult:
        from faultbridge.adapters.kubernetes.taints import isolation_patch

        self._node_client(node).patch(node, isolation_patch)
        return CallResult(reason="cordoned")

    def _discourage(self, node: ClusterNode) -> CallResult:
        from faultbridge.adapters.kubernetes.taints import preference_patch

        self._node_client(node).patch(node, preference_patch)
        return CallResult(reason="other nodes are preferred")

    def _uncordon(self, node: ClusterNode) -> CallResult:
        from faultbridge.adapters.kubernetes.taints import release_patch, stays_cordoned

        before = self._node_client(node).patch(node, release_patch)
        return CallResult(
            reason="stays cordoned: it was cordoned before the isolation" if stays_cordoned(before) else "uncordoned"
        )

    def _drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        from faultbridge.adapters.kubernetes.eviction import evict_all

        return self._remaining(node, lambda api, name: evict_all(api, name, self._clock.now(), deadline))

    def _idle(self, node: ClusterNode) -> CallResult:
        from faultbridge.adapters.kubernetes.eviction import running_pods

        return self._remaining(node, running_pods)

    def _remaining(
        self, node: ClusterNode, remaining_pods: Callable[[Kubernetes, str], list[RemainingPod]]
    ) -> CallResult:
        from faultbridge.adapters.kubernetes.eviction import describe
        from faultbridge.adapters.kubernetes.node_client import name_of

        client = self._node_client(node)
        found = client.find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no pods to drain")
        remaining = remaining_pods(client.api, name_of(found))
        failure = ProviderFailure.TIMEOUT if remaining else None
        return CallResult(failure, describe(remaining) if remaining else "no pod is left")

    def _node_client(self, node: ClusterNode) -> NodeClient:
        from faultbridge.adapters.kubernetes.node_client import NodeClient

        api = self._connect(node.cluster)
        return self._node_clients.setdefault(id(api), NodeClient(api))


NOT_APPLICABLE = CallResult(reason="not applicable: the cluster has no orchestrator")


class NoOrchestrator:
    """The Orchestrator of a cluster that has no orchestrator: its calls do nothing, and no call fails."""

    @property
    def applicable(self) -> bool:
        """Return False: the cluster has no orchestrator, so cordons and drains do not apply to it."""
        return False

    def cordon(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that a cordon does not apply to this cluster."""
        return NOT_APPLICABLE

    def discourage(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that a preference for other nodes does not apply to this cluster."""
        return NOT_APPLICABLE

    def uncordon(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that an uncordon does not apply to this cluster."""
        return NOT_APPLICABLE

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing, and return that a drain does not apply to this cluster."""
        return NOT_APPLICABLE

    def idle(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Return that this check does not apply: no orchestrator lists the work of the cluster."""
        return NOT_APPLICABLE

    def readiness(self, node: ClusterNode) -> CheckResult:  # noqa: ARG002 - the port's signature
        """Return UNKNOWN, because no orchestrator reports whether the node is ready."""
        return CheckResult.UNKNOWN
