"""Sweep: performs due and unfinished work each minute, whether or not a stream or trigger was lost.

One sweep runs these parts in order; a failed part does not stop the others:

1. publish entries that the stream did not publish within two minutes,
2. process due timers: retry rejects, end waiting periods, recover attempts, report missing heartbeats, stalled jobs,
3. for each cluster: update incidents and breakers, release leaked slots, reconcile spares, terminate unused launches,
   open postponed cases, isolate nodes, record job impact, report resumable jobs, deliver their callbacks,
   recompute the cluster status, start admitted repairs if incidents are up to date, and compare nodes with their peers.

Each part gets an equal share of the remaining time. Shards and clusters are taken in a random order that changes each
minute: in a fixed order, the last shards would never be reached under overload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import TypeVar

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import to_text
from faultbridge.incidents.correlate import Correlate
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.jobs.resume import ResumeJobs
from faultbridge.ledger.append import Append
from faultbridge.ledger.cluster_reads import ClusterReads
from faultbridge.ledger.queries import query_all, shard_rows
from faultbridge.ops.failures import Failures
from faultbridge.ops.missing_heartbeats import report_missing_heartbeats
from faultbridge.ops.postponed_cases import postponed_too_long
from faultbridge.ops.silent_instances import ProbeInstance
from faultbridge.ops.sweep_result import SweepResult
from faultbridge.pipeline.observe import tick
from faultbridge.ports import Clock
from faultbridge.repair.attempt.leaked_slots import ReleaseLeakedSlots
from faultbridge.repair.attempt.recovery import RecoverAttempts, RecoveryResult
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate import Isolate
from faultbridge.repair.spares.reconcile import ReconcileSpares
from faultbridge.repair.successor.unused import EndUnusedLaunches
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import keys
from faultbridge.storage.jobs import JOB
from faultbridge.storage.projections import REQUESTED_ISOLATIONS, UNHEALTHY
from faultbridge.storage.rejects import is_reject
from faultbridge.storage.writes import WORK, Key

UNPUBLISHED_AFTER = timedelta(minutes=2)
"""The stream publishes an entry within seconds. After this time, the stream has lost it."""

MAX_PUBLISHED = 500
"""How many entries of one outbox a sweep publishes."""

NODE_PREFIX = "NODE#"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs one sweep; `publish` and `retry_reject` receive the keys of waiting items, `compare_peers` a cluster."""

    table: ClusterReads
    clock: Clock
    append: Append
    rulebook: Rulebook
    correlate: Correlate
    breakers: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    recover_attempts: RecoverAttempts
    heartbeat_monitor: HeartbeatMonitor
    job_impact: JobImpact
    resume_jobs: ResumeJobs
    release_leaked_slots: ReleaseLeakedSlots
    reconcile_spares: ReconcileSpares
    end_unused_launches: EndUnusedLaunches
    publish: Callable[[Sequence[Key]], object]
    retry_reject: Callable[[Key], object]
    compare_peers: Callable[[str], object] = lambda _cluster: None
    deliver_callbacks: Callable[[str, datetime], object] = lambda _cluster, _until: None
    check_progress: Callable[[Key], object] = lambda _key: None

    def __call__(self, seconds: float = 40) -> SweepResult:
        """Sweep for at most this many seconds; failures are part of the result, and none is raised."""
        until = self.clock.now() + timedelta(seconds=seconds)
        result, failures = SweepResult(), Failures()
        parts = (self._publish, self._due_timers, self._clusters)
        for remaining, part in zip(range(len(parts), 0, -1), parts, strict=True):
            share = (until - self.clock.now()) / remaining
            with failures.collect(part.__name__.lstrip("_")):
                part(result, failures, self.clock.now() + share)
        result.failures = failures.lines
        return result

    def _publish(self, result: SweepResult, failures: Failures, until: datetime) -> None:
        """Publish entries that the stream lost."""
        horizon = to_text(self.clock.now() - UNPUBLISHED_AFTER)
        for outbox in self._shuffled(keys.OUTBOXES):
            page = self.table.query(outbox, up_to=horizon, index=WORK, limit=MAX_PUBLISHED)
            waiting = [Key(str(row["pk"]), str(row["sk"])) for row in page.items]
            if self._out_of_time(result, until):
                return
            if waiting:
                with failures.collect(f"publishing {outbox}"):
                    self.publish(waiting)
                    result.published += len(waiting)

    def _due_timers(self, result: SweepResult, failures: Failures, until: datetime) -> None:
        """Process the due timers of rejected records, nodes and heartbeats."""
        overdue: list[NodeKey] = []
        for key in self._timers():
            if self._out_of_time(result, until):
                return
            if is_reject(key.pk):
                with failures.collect(f"retrying the reject {key.pk} {key.sk}"):
                    self.retry_reject(key)
                    result.rejects += 1
            elif keys.is_heartbeat(key.sk):
                overdue.append(_node_of(key))
            elif key.pk.startswith(JOB):
                with failures.collect(f"checking the progress of {key.pk}"):
                    self.check_progress(key)
            elif key.pk.startswith(NODE_PREFIX):
                node = _node_of(key)
                with failures.collect(f"updating {node.stream}"):
                    self._tick(node, result)
        probe = ProbeInstance(self.recover_attempts.runner.tools)
        result.intake = report_missing_heartbeats(self.heartbeat_monitor, overdue, failures, probe)

    def _timers(self) -> Iterator[Key]:
        now = to_text(self.clock.now())
        for timer in self._shuffled(keys.TIMERS):
            for row in query_all(self.table, timer, up_to=now, index=WORK):
                yield Key(str(row["pk"]), str(row["sk"]))

    def _tick(self, key: NodeKey, result: SweepResult) -> None:
        """Apply the passing of time to a node, then recover its attempt when its execution was lost."""
        rules = rules_of(self.rulebook, key.cluster)

        def pass_time(state: NodeState, now: datetime) -> Transition:
            passed = tick(state, rules=rules, now=now)
            return Transition(passed.state, passed.drafts)

        self.append(key, pass_time, actor=Actor.SWEEP)
        result.ticked += 1
        recovered = self.recover_attempts(key)
        if recovered is not RecoveryResult.NOTHING:
            result.recovered_attempts[recovered.value] = result.recovered_attempts.get(recovered.value, 0) + 1

    def _clusters(self, result: SweepResult, failures: Failures, until: datetime) -> None:
        """Run the steps of each cluster."""
        for cluster in self._shuffled(str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)):
            if self._out_of_time(result, until):
                return
            with self.table.once(cluster):
                self._cluster(cluster, result, failures, until)
            result.clusters += 1

    def _cluster(self, cluster: str, result: SweepResult, failures: Failures, until: datetime) -> None:
        """Run the steps of one cluster, which share what they read."""
        control, correlated = None, False
        with failures.collect(f"updating the incidents of {cluster}"):
            self.correlate(cluster, intake=result.intake)
            correlated = True
        with failures.collect(f"updating the breakers of {cluster}"):
            control = self.breakers(cluster)
        with failures.collect(f"releasing leaked slots of {cluster}"):
            result.released_slots += len(self.release_leaked_slots(cluster))
        with failures.collect(f"reconciling the spares of {cluster}"):
            self.reconcile_spares(cluster)
        with failures.collect(f"terminating unused launches of {cluster}"):
            self.end_unused_launches(cluster)
        with failures.collect(f"opening postponed cases of {cluster}"):
            self._open_postponed(cluster, result)
        with failures.collect(f"isolating nodes of {cluster}"):
            self._isolate(cluster, control, result, failures, until)
        with failures.collect(f"recording job impact in {cluster}"):
            self._record_job_impact(cluster, failures)
        with failures.collect(f"resuming jobs of {cluster}"):
            self.resume_jobs(cluster)
        with failures.collect(f"delivering job callbacks of {cluster}"):
            self.deliver_callbacks(cluster, until)
        with failures.collect(f"updating the status of {cluster}"):
            result.node_counts[cluster] = dict(self.rollup(cluster).counts)
        if correlated:
            with failures.collect(f"dispatching repairs of {cluster}"):
                self.dispatch(cluster)
        with failures.collect(f"comparing the nodes of {cluster}"):
            self.compare_peers(cluster)

    def _open_postponed(self, cluster: str, result: SweepResult) -> None:
        """Open the postponed cases of nodes whose cluster is no longer under maintenance."""
        config = rules_of(self.rulebook, cluster).config
        rows = shard_rows(self.table, config, UNHEALTHY)
        for key in postponed_too_long(rows, self.append, config, self.clock.now()):
            self._tick(key, result)

    def _isolate(
        self, cluster: str, control: Control | None, result: SweepResult, failures: Failures, until: datetime
    ) -> None:
        """Isolate nodes that still serve although their case requires isolation.

        Isolation requests that are no longer needed are withdrawn.
        """
        config = rules_of(self.rulebook, cluster).config
        rows = shard_rows(self.table, config, UNHEALTHY)
        serving = [row for row in rows if row["status"] == NodeStatus.DEGRADED and row.get("case")]
        requested = shard_rows(self.table, config, REQUESTED_ISOLATIONS)
        nodes = list(dict.fromkeys(str(row["node"]) for row in (*serving, *requested)))
        for node, isolate in self.isolate.for_nodes(cluster, nodes, control).items():
            # An orchestrator that does not respond costs seconds for each node.
            if self._out_of_time(result, until):
                return
            with failures.collect(f"isolating {node}"):
                isolate()

    def _record_job_impact(self, cluster: str, failures: Failures) -> None:
        """Record the faults of unhealthy nodes on the jobs that run there, in case a trigger was lost."""
        rows = shard_rows(self.table, rules_of(self.rulebook, cluster).config, UNHEALTHY)
        for key in self.job_impact.missed(cluster, rows):
            with failures.collect(f"recording job impact of {key.node}"):
                self.job_impact(key)

    def _shuffled(self, things: Iterable[T]) -> list[T]:
        """Return shards or clusters in a random order, which differs each minute."""
        minute = int(self.clock.now().timestamp()) // 60
        order = list(things)
        Random(minute).shuffle(order)  # noqa: S311 - an order, not a secret
        return order

    def _out_of_time(self, result: SweepResult, until: datetime) -> bool:
        """Return whether the time is over, and record it in the result."""
        over = self.clock.now() >= until
        result.unfinished = result.unfinished or over
        return over


def _node_of(key: Key) -> NodeKey:
    _, cluster, node = key.pk.split("#", 2)
    return NodeKey(cluster, node)
