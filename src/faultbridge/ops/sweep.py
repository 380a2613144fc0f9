"""Sweep: each minute, performs due work, and work that was interrupted or whose trigger was lost.

One sweep runs these parts in order. A failed part does not stop the others:

1. publish entries that the table's stream did not publish within two minutes,
2. process due timers: end waiting periods, recover attempts, report stalled jobs,
3. report missing heartbeats, and run the steps of each cluster (`cluster_steps`),
4. deliver job callbacks, whose receivers may be slow,
5. retry rejected records. This part is the last one, because any sender can cause rejected records.

Each part gets a fraction of the remaining time. `sweep_plan` chooses the order of clusters and partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.failures import Failures
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.ledger.cluster_reads import ClusterReads
from faultbridge.ledger.queries import query_all
from faultbridge.ops.cluster_steps import ClusterSteps
from faultbridge.ops.missing_heartbeats import report_missing_heartbeats
from faultbridge.ops.silent_instances import ProbeInstance
from faultbridge.ops.sweep_plan import SweepPlan, list_clusters, narrowed
from faultbridge.ops.sweep_result import SweepResult, TimeLimit
from faultbridge.ops.tick_node import TickNode
from faultbridge.ports import Clock
from faultbridge.storage.jobs import JOB
from faultbridge.storage.writes import WORK, Key, Work

UNPUBLISHED_AFTER = timedelta(minutes=2)
"""The stream normally publishes an entry within seconds. After this time, the sweep publishes the entry."""

MAX_PUBLISHED = 500
"""Maximum entries that one sweep publishes from one partition of unpublished entries."""

NODE_PREFIX = "NODE#"


@dataclass(frozen=True, slots=True)
class Sweep:
    """Performs one sweep, which is the due and unfinished work of one minute.

    The fields that are functions:

    - `publish(keys)` sends the entries with these table keys to the event bus.
    - `retry_reject(key)` puts a reject (a raw record that could not be used) on the queue of raw records again.
    - `check_progress(key)` records that a job is stalled, if it is stalled. `key` is the key of the job's due timer.
    - `deliver_callbacks(cluster, until)` delivers the waiting job callbacks of a cluster until the time `until`.
    """

    table: ClusterReads
    clock: Clock
    tick_node: TickNode
    cluster_steps: ClusterSteps
    heartbeat_monitor: HeartbeatMonitor
    probe: ProbeInstance
    publish: Callable[[Sequence[Key]], object]
    retry_reject: Callable[[Key], object]
    deliver_callbacks: Callable[[str, datetime], object]
    check_progress: Callable[[Key], object] = lambda _key: None

    def __call__(self, seconds: float = 40) -> SweepResult:
        """Run all parts in about `seconds` seconds; errors of parts are in the result, and not raised."""
        until = self.clock.now() + timedelta(seconds=seconds)
        result, failures, plan = SweepResult(), Failures(), SweepPlan()
        with failures.collect("listing the clusters"):
            plan = list_clusters(self.table, self.clock.now())
        with failures.collect("reading the sizes of the clusters"):
            plan = narrowed(plan, self.table, self.clock.now())
        parts = {self._publish: 4, self._due_timers: 3, self._clusters: 2, self._callbacks: 2, self._rejects: 1}
        for part, fraction in parts.items():
            share = (until - self.clock.now()) / fraction
            with failures.collect(part.__name__.lstrip("_")):
                part(plan, result, failures, TimeLimit(self.clock, self.clock.now() + share, result))
        result.failures = failures.lines
        return result

    def _publish(self, plan: SweepPlan, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        horizon = to_text(self.clock.now() - UNPUBLISHED_AFTER)
        for outbox in plan.partitions(Work.UNPUBLISHED):
            page = self.table.query(outbox, up_to=horizon, index=WORK, limit=MAX_PUBLISHED)
            waiting = [Key(str(row["pk"]), str(row["sk"])) for row in page.items]
            if limit.is_over():
                return
            if waiting:
                with failures.collect(f"publishing {outbox}"):
                    self.publish(waiting)
                    result.published += len(waiting)

    def _due_timers(self, plan: SweepPlan, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        for key in self._due(plan.partitions(Work.TIMER)):
            if limit.is_over():
                return
            if key.pk.startswith(JOB):
                with failures.collect(f"checking the progress of {key.pk}"):
                    self.check_progress(key)
            elif key.pk.startswith(NODE_PREFIX):
                node = _node_of(key)
                with failures.collect(f"updating {node.stream}"):
                    self.tick_node(node, result)

    def _rejects(self, plan: SweepPlan, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        for key in self._due(plan.partitions(Work.RETRY)):
            if limit.is_over():
                return
            with failures.collect(f"retrying the reject {key.pk} {key.sk}"):
                self.retry_reject(key)
                result.rejects += 1

    def _callbacks(self, _plan: SweepPlan, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        for cluster in result.with_callbacks:
            if limit.is_over():
                return
            with failures.collect(f"delivering job callbacks of {cluster}"):
                self.deliver_callbacks(cluster, limit.until)

    def _due(self, partitions: Iterable[str]) -> Iterator[Key]:
        now = to_text(self.clock.now())
        for partition in partitions:
            for row in query_all(self.table, partition, up_to=now, index=WORK):
                yield Key(str(row["pk"]), str(row["sk"]))

    def _clusters(self, plan: SweepPlan, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        monitor = self.heartbeat_monitor
        result.intake = report_missing_heartbeats(monitor, self.table, plan.clusters, failures, self.probe)
        for cluster in plan.clusters:
            if limit.is_over():
                return
            with self.table.once(cluster):
                self.cluster_steps(cluster, result, failures, limit)
            result.clusters += 1


def _node_of(key: Key) -> NodeKey:
    _, cluster, node = key.pk.split("#", 2)
    return NodeKey(cluster, node)
