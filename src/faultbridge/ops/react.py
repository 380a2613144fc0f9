"""React: processes the nodes and clusters that have new entries. It runs on the table's stream.

An entry only triggers processing; every step reads the current state from the table. The sweep repeats the same steps
each minute, so a lost or failed trigger is only delayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from faultbridge.domain.cluster.state import Control
from faultbridge.domain.entries import EntryType
from faultbridge.errors import Transient
from faultbridge.incidents.correlate import Correlate
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.ops.failures import Failures
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate import Isolate


@dataclass(frozen=True, slots=True)
class React:
    """Processes the triggers that new entries cause.

    It runs these steps in this order:

    1. for each cluster: update its incidents, and let cases wait for them,
    2. and open or close its breakers,
    3. for each cluster: isolate the named nodes whose case requires it,
    4. and record the faults of these nodes on the jobs that run there,
    5. for each cluster: recompute its status from its nodes,
    6. and start repairs that incidents, budget, breakers and windows admit, unless the first step failed.
    """

    correlate: Correlate
    breakers: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact

    def __call__(
        self, triggers: Iterable[tuple[str, str | None]], causes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Process (cluster, node or None) pairs, each once; a failed step does not stop the others.

        `causes` maps each cluster to the event id of the last status change of a node among the new entries. The
        entries that this batch leads to in the cluster's stream name it as their cause.
        Raises Transient at the end when any step failed. The stream then delivers the batch again, which is harmless.
        """
        nodes_by_cluster, failures = _by_cluster(triggers), Failures()
        controls: dict[str, Control | None] = {}
        correlated: set[str] = set()
        for cluster in nodes_by_cluster:
            with failures.collect(f"updating the incidents of {cluster}"):
                self.correlate(cluster, causes.get(cluster))
                correlated.add(cluster)
            with failures.collect(f"updating the breakers of {cluster}"):
                controls[cluster] = self.breakers(cluster, causes.get(cluster))
        for cluster, nodes in nodes_by_cluster.items():
            with failures.collect(f"isolating nodes of {cluster}"):
                self._isolate(cluster, nodes, controls.get(cluster), failures)
            with failures.collect(f"recording job impact in {cluster}"):
                self._record_job_impact(cluster, nodes, failures)
        for cluster in nodes_by_cluster:
            with failures.collect(f"updating the status of {cluster}"):
                self.rollup(cluster, causes.get(cluster))
            if cluster in correlated:
                with failures.collect(f"dispatching repairs of {cluster}"):
                    self.dispatch(cluster)
        if failures.lines:
            raise Transient("; ".join(failures.lines)) from failures.first_error

    def _isolate(self, cluster: str, nodes: Sequence[str], control: Control | None, failures: Failures) -> None:
        for node, isolate in self.isolate.for_nodes(cluster, nodes, control).items():
            with failures.collect(f"isolating {node}"):
                isolate()

    def _record_job_impact(self, cluster: str, nodes: Sequence[str], failures: Failures) -> None:
        for key in self.job_impact.busy_nodes(cluster, nodes):
            with failures.collect(f"recording job impact of {key.node}"):
                self.job_impact(key)


def status_causes(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return, by cluster, the event id of the last status change of a node among new entry items."""
    changes = (one for one in entries if one["type"] == EntryType.NODE_STATUS)
    return {str(one["cluster"]): str(one["event_id"]) for one in changes}


def _by_cluster(triggers: Iterable[tuple[str, str | None]]) -> dict[str, list[str]]:
    """Return the node names of each cluster, without duplicates and in a stable order."""
    nodes_by_cluster: dict[str, list[str]] = {}
    for cluster, node in sorted(set(triggers), key=lambda trigger: (trigger[0], trigger[1] or "")):
        nodes = nodes_by_cluster.setdefault(cluster, [])
        if node is not None:
            nodes.append(node)
    return nodes_by_cluster
