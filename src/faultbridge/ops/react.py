"""React: processes the nodes and clusters that have new entries. It runs on the table's stream.

An entry only triggers processing; every step reads the current state from the table. The sweep repeats the same steps
each minute, so a lost or failed trigger is only delayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.entries import EntryType
from faultbridge.errors import Transient
from faultbridge.incidents.correlate import Correlate
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.ledger.cluster_reads import ClusterReads
from faultbridge.ops.failures import Failures
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate_many import IsolateMany


@dataclass(frozen=True, slots=True)
class React:
    """Processes the triggers that new entries cause.

    For each cluster it runs these steps in this order:

    1. update its incidents, and let cases wait for them,
    2. open or close its breakers,
    3. isolate the named nodes whose case requires it,
    4. record the faults of these nodes on the jobs that run there,
    5. recompute its status from its nodes,
    6. start repairs that incidents, budget, breakers and windows admit, unless the first step failed.
    """

    correlate: Correlate
    breakers: Breakers
    isolate: IsolateMany
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact
    reads: ClusterReads

    def __call__(
        self, triggers: Iterable[tuple[str, str | None]], causes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Process (cluster, node or None) pairs, each once; a failed step does not stop the others.

        `causes` maps each cluster to the event id of the last status change of a node among the new entries. The
        entries that this batch leads to in the cluster's stream name it as their cause.
        Raises Transient at the end when any step failed. The stream then delivers the batch again, which is harmless.
        """
        failures = Failures()
        for cluster, nodes in _by_cluster(triggers).items():
            with self.reads.once(cluster):
                self._process(cluster, nodes, causes.get(cluster), failures)
        if failures.lines:
            raise Transient("; ".join(failures.lines)) from failures.first_error

    def _process(self, cluster: str, nodes: Sequence[str], cause: str | None, failures: Failures) -> None:
        """Run the steps of one cluster, which share what they read."""
        control, correlated = None, False
        with failures.collect(f"updating the incidents of {cluster}"):
            self.correlate(cluster, cause)
            correlated = True
        with failures.collect(f"updating the breakers of {cluster}"):
            control = self.breakers(cluster, cause)
        with failures.collect(f"isolating nodes of {cluster}"):
            self._isolate(cluster, nodes, control, failures)
        with failures.collect(f"recording job impact in {cluster}"):
            self._record_job_impact(cluster, nodes, failures)
        with failures.collect(f"updating the status of {cluster}"):
            self.rollup(cluster, cause)
        if correlated:
            with failures.collect(f"dispatching repairs of {cluster}"):
                self.dispatch(cluster)

    def _isolate(self, cluster: str, nodes: Sequence[str], control: Control | None, failures: Failures) -> None:
        for names, isolate in self.isolate(cluster, nodes, control).items():
            with failures.collect(f"isolating {names}"):
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
