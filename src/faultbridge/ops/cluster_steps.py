"""The steps of a sweep for one cluster, in their order.

A failed step does not stop the others, but no repair starts if the incidents could not be updated.
"""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.dataclass import dataclass
from faultbridge.domain.edges import NodeStatus
from faultbridge.failures import Failures
from faultbridge.incidents.correlate import Correlate
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.jobs.resume import ResumeJobs
from faultbridge.ledger.cluster_reads import ClusterReads
from faultbridge.ledger.queries import shard_rows
from faultbridge.ops.postponed_cases import postponed_too_long
from faultbridge.ops.sweep_result import SweepResult, TimeLimit
from faultbridge.ops.tick_node import TickNode
from faultbridge.repair.attempt.leaked_slots import ReleaseLeakedSlots
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate_many import IsolateMany
from faultbridge.repair.spares.reconcile import ReconcileSpares
from faultbridge.repair.successor.unused import EndUnusedLaunches
from faultbridge.repair.successor.waits import CapacityWaits
from faultbridge.rules.rulebook import rules_of
from faultbridge.storage.projections import REQUESTED_ISOLATIONS, UNHEALTHY


@dataclass(frozen=True, slots=True)
class ClusterSteps:
    """Performs the due work of one cluster. Its steps share a read cache (`table`)."""

    table: ClusterReads
    tick_node: TickNode
    correlate: Correlate
    breakers: Breakers
    isolate: IsolateMany
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact
    resume_jobs: ResumeJobs
    release_leaked_slots: ReleaseLeakedSlots
    reconcile_spares: ReconcileSpares
    end_unused_launches: EndUnusedLaunches
    capacity_waits: CapacityWaits
    has_callbacks: Callable[[str], bool]
    compare_peers: Callable[[str], object] = lambda _cluster: None

    def __call__(self, cluster: str, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Run all steps for one cluster.

        If the incidents could not be updated, no repair starts, because an incident may forbid the repair. After the
        time of `limit`, no further node is isolated; the other steps still run. Counts are added to `result`, errors to
        `failures`.
        """
        correlated = False
        with failures.collect(f"updating the incidents of {cluster}"):
            self.correlate(cluster, intake=result.intake)
            correlated = True
        with failures.collect(f"updating the breakers of {cluster}"):
            self.breakers(cluster)
        with failures.collect(f"releasing leaked slots of {cluster}"):
            result.released_slots += len(self.release_leaked_slots(cluster))
        with failures.collect(f"reconciling the spares of {cluster}"):
            self.reconcile_spares(cluster)
        with failures.collect(f"terminating unused launches of {cluster}"):
            self.end_unused_launches(cluster)
        with failures.collect(f"checking the capacity that cases of {cluster} wait for"):
            self.capacity_waits(cluster)
        with failures.collect(f"opening postponed cases of {cluster}"):
            self._open_postponed(cluster, result)
        with failures.collect(f"isolating nodes of {cluster}"):
            self._isolate(cluster, failures, limit)
        with failures.collect(f"recording job impact in {cluster}"):
            self._record_job_impact(cluster, failures)
        with failures.collect(f"resuming jobs of {cluster}"):
            self.resume_jobs(cluster)
        with failures.collect(f"looking for job callbacks of {cluster}"):
            if self.has_callbacks(cluster):
                result.with_callbacks.append(cluster)
        with failures.collect(f"updating the status of {cluster}"):
            result.node_counts[cluster] = dict(self.rollup(cluster).counts)
        if correlated:
            with failures.collect(f"dispatching repairs of {cluster}"):
                self.dispatch(cluster)
        with failures.collect(f"comparing the nodes of {cluster}"):
            self.compare_peers(cluster)

    def _open_postponed(self, cluster: str, result: SweepResult) -> None:
        config = rules_of(self.tick_node.rulebook, cluster).config
        rows = shard_rows(self.table, config, UNHEALTHY)
        for key in postponed_too_long(rows, self.tick_node.append, config, self.table.clock.now()):
            self.tick_node(key, result)

    def _isolate(self, cluster: str, failures: Failures, limit: TimeLimit) -> None:
        """Isolate nodes that are still in service although their case requires isolation.

        Also withdraw isolations that are not needed any more.
        """
        config = rules_of(self.tick_node.rulebook, cluster).config
        rows = shard_rows(self.table, config, UNHEALTHY)
        serving = [row for row in rows if row["status"] == NodeStatus.DEGRADED and row.get("case")]
        requested = shard_rows(self.table, config, REQUESTED_ISOLATIONS)
        nodes = list(dict.fromkeys(str(row["node"]) for row in (*serving, *requested)))
        for names, isolate in self.isolate(cluster, nodes).items():
            # An orchestrator that does not respond costs seconds for each node.
            if limit.is_over():
                return
            with failures.collect(f"isolating {names}"):
                isolate()

    def _record_job_impact(self, cluster: str, failures: Failures) -> None:
        """Record the faults of unhealthy nodes on the jobs that run there, if `ops.react` has not done so.

        Usually, `ops.react` does this when a node has a new entry. This step covers entries whose trigger was lost.
        """
        rows = shard_rows(self.table, rules_of(self.tick_node.rulebook, cluster).config, UNHEALTHY)
        for key in self.job_impact.missed(cluster, rows):
            with failures.collect(f"recording job impact of {key.node}"):
                self.job_impact(key)
