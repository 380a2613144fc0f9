"""React: updates and repairs the nodes and clusters that have new entries, seconds after each entry.

The table's stream triggers the work. An entry is only a trigger: every step reads the current state from the table. The
sweep runs the same steps each minute, so a lost or failed trigger only delays the work.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from msgspec import Struct

from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Transient
from faultbridge.model.log import Failures, log_cause
from faultbridge.model.storage.writes import Item
from faultbridge.record.cluster_reads import ClusterReads
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import MAX_ADMITTING, Dispatch
from faultbridge.repair.incidents import Correlate
from faultbridge.repair.isolate import Isolate, IsolationResult, prepare_isolations
from faultbridge.repair.jobs.job_impact import JobImpact

MAX_ISOLATING, MAX_RECORDING_IMPACT = timedelta(seconds=40), timedelta(seconds=20)
"""How long one batch isolates nodes and records job impact; its clusters share this time equally.

Each node may cost seconds, and the call that exceeds the time is completed. The timeout of the function in
`infra/template.yaml` is therefore longer than these limits and that of admission (`MAX_ADMITTING`) together.
"""

ANSWERED = frozenset({IsolationResult.DONE, IsolationResult.WITHDRAWN})
"""The results that show that the orchestrator responds."""


class React(Struct, frozen=True):
    """Updates and repairs the clusters and nodes that have new entries.

    For each cluster it runs these steps in this order:

    1. update its incidents, and make cases wait for them,
    2. open or close its breakers,
    3. isolate those of the triggered nodes whose case requires it,
    4. record the faults of the triggered nodes on the jobs that run there,
    5. recompute the cluster's status from its nodes,
    6. start the repairs that incidents, budget, breakers and windows permit, unless the first step failed.
    """

    correlate: Correlate
    breakers: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact
    reads: ClusterReads

    def run(self, triggers: Iterable[tuple[str, str | None]], causes: Mapping[str, str] = MappingProxyType({})) -> None:
        """Run the steps once for each triggered cluster; errors of steps are collected until the end.

        - A trigger is a cluster and the node that has a new entry. The node is None for an entry of the cluster itself.
        - `causes` maps a cluster to the event id of the last node status change among the new entries. This event is
          the cause of the entries about incidents, breakers and the status of the cluster.
        - If time runs out for isolating nodes or recording job impact, the next delivery or the sweep does the rest.

        Raises Transient at the end if any step failed or must continue. Lambda then delivers the same entries again,
        which is harmless.
        """
        failures, by_cluster = Failures(), _by_cluster(triggers)
        for cluster, nodes in by_cluster.items():
            with self.reads.once(cluster):
                self._process(cluster, nodes, causes.get(cluster), failures, len(by_cluster))
        if failures.lines:
            raise Transient("; ".join(failures.lines)) from failures.first_error

    def _process(
        self, cluster: str, nodes: Sequence[str], cause: str | None, failures: Failures, clusters: int
    ) -> None:
        """Run the steps for one cluster; `clusters`, the size of the batch, divides the time limits."""
        correlated = False
        with failures.collect(f"updating the incidents of {cluster}"):
            self.correlate.update_incidents(cluster, cause)
            correlated = True
        with failures.collect(f"updating the breakers of {cluster}"):
            self.breakers.update(cluster, cause)
        with failures.collect(f"isolating nodes of {cluster}"):
            self._isolate(cluster, nodes, failures, MAX_ISOLATING / clusters)
        with failures.collect(f"recording job impact in {cluster}"):
            self._record_job_impact(cluster, nodes, failures, MAX_RECORDING_IMPACT / clusters)
        with failures.collect(f"updating the status of {cluster}"):
            self.rollup.update(cluster, cause)
        if correlated:
            with failures.collect(f"dispatching repairs of {cluster}"):
                self.dispatch.admit_cases(cluster, MAX_ADMITTING / clusters)

    def _isolate(self, cluster: str, nodes: Sequence[str], failures: Failures, limit: timedelta) -> None:
        """Isolate those of the nodes whose case requires it; start no isolation after `limit` has passed.

        Raises Transient if `limit` has passed and some nodes were isolated, so that the next delivery isolates the
        rest. If no node was isolated, the orchestrator probably does not respond. Further deliveries would then only
        delay other entries, so the rest is left to the sweep.
        """
        until, isolated = self.reads.clock.now() + limit, 0
        for names, isolate in prepare_isolations(self.isolate, cluster, nodes).items():
            if self.reads.clock.now() >= until:
                reason = f"isolating nodes took more than {_seconds(limit)} seconds; nodes isolated: {isolated}"
                log_cause("isolation_interrupted", reason=reason, level=logging.WARNING, cluster=cluster)
                if isolated:
                    raise Transient(reason)
                return
            with failures.collect(f"isolating {names}"):
                isolated += sum(result in ANSWERED for result in isolate().values())

    def _record_job_impact(self, cluster: str, nodes: Sequence[str], failures: Failures, limit: timedelta) -> None:
        """Record the faults of nodes on their jobs; after `limit` has passed, leave the rest to the sweep."""
        until = self.reads.clock.now() + limit
        for key in self.job_impact.busy_nodes(cluster, nodes):
            if self.reads.clock.now() >= until:
                reason = f"recording job impact took more than {_seconds(limit)} seconds"
                log_cause("job_impact_left_to_sweep", reason=reason, level=logging.WARNING, cluster=cluster)
                return
            with failures.collect(f"recording job impact of {key.node}"):
                self.job_impact.record(key)


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():.1f}"


def status_causes(entries: Iterable[Item]) -> dict[str, str]:
    """Return, by cluster, the event id of the last node status change in the list `entries`."""
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
