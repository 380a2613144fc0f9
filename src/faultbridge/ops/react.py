"""React: updates and repairs the nodes and clusters that have new entries, seconds after each entry.

The table's stream triggers it. An entry is only a trigger: every step reads the current state from the table. The sweep
repeats the same steps each minute, so a lost or failed trigger only delays the work.
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
    """Updates and repairs the clusters and nodes that have new entries.

    For each cluster it runs these steps in this order:

    1. update its incidents, and let cases wait for them,
    2. open or close its breakers,
    3. isolate those of the triggered nodes whose case requires it,
    4. record the faults of the triggered nodes on the jobs that run there,
    5. recompute the cluster's status from its nodes,
    6. start the repairs that incidents, budget, breakers and windows permit, unless the first step failed.
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
        """Run the steps once for each triggered cluster. A failed step does not stop the others.

        - A trigger is a cluster with the node that has a new entry, or None for the cluster itself.
        - `causes` maps each cluster to the event id of the latest node status change among the new entries. Entries
          that the steps add to the cluster name this event as their cause.

        Raises Transient at the end if any step failed. DynamoDB then delivers the same new entries again, which is
        harmless.
        """
        failures = Failures()
        for cluster, nodes in _by_cluster(triggers).items():
            with self.reads.once(cluster):
                self._process(cluster, nodes, causes.get(cluster), failures)
        if failures.lines:
            raise Transient("; ".join(failures.lines)) from failures.first_error

    def _process(self, cluster: str, nodes: Sequence[str], cause: str | None, failures: Failures) -> None:
        """Run the steps for one cluster and some of its nodes."""
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
    """Return, by cluster, the event id of the last node status change among new entries."""
    changes = (one for one in entries if one["type"] == EntryType.NODE_STATUS)
    return {str(one["cluster"]): str(one["event_id"]) for one in changes}


def _by_cluster(triggers: Iterable[tuple[str, str | None]]) -> dict[str, list[str]]:
    """Return the triggered nodes of each cluster, sorted by name and without duplicates.

    A trigger without a node adds only its cluster.
    """
    nodes_by_cluster: dict[str, list[str]] = {}
    for cluster, node in sorted(set(triggers), key=lambda trigger: (trigger[0], trigger[1] or "")):
        nodes = nodes_by_cluster.setdefault(cluster, [])
        if node is not None:
            nodes.append(node)
    return nodes_by_cluster
