"""Sweep: performs due and unfinished work each minute, whether or not a stream or trigger was lost.

One sweep runs these parts in order; a failed part does not stop the others:

1. publish entries that the stream did not publish within two minutes,
2. process due timers: end waiting periods, recover attempts, report stalled jobs,
3. report missing heartbeats, and run the steps of each cluster: see `cluster_steps`,
4. deliver job callbacks, whose receivers may be slow,
5. retry rejected records; this part is the last, because any sender can cause rejects.

Each part gets a share of the remaining time. Shards and clusters are taken in a random order that changes each
minute: in a fixed order, the last shards would never be reached under overload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from typing import TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.ledger.cluster_reads import ClusterReads
from faultbridge.ledger.queries import query_all
from faultbridge.ops.cluster_steps import ClusterSteps
from faultbridge.ops.failures import Failures
from faultbridge.ops.missing_heartbeats import report_missing_heartbeats
from faultbridge.ops.silent_instances import ProbeInstance
from faultbridge.ops.sweep_result import SweepResult, TimeLimit
from faultbridge.ops.tick_node import TickNode
from faultbridge.ports import Clock
from faultbridge.storage import keys
from faultbridge.storage.jobs import JOB
from faultbridge.storage.writes import WORK, Key

UNPUBLISHED_AFTER = timedelta(minutes=2)
"""The stream publishes an entry within seconds. After this time, the stream has lost it."""

MAX_PUBLISHED = 500
"""How many entries of one outbox a sweep publishes."""

NODE_PREFIX = "NODE#"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs one sweep; `publish`, `retry_reject` and `check_progress` receive the keys of waiting items."""

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
        """Sweep for at most this many seconds; failures are part of the result, and none is raised."""
        until = self.clock.now() + timedelta(seconds=seconds)
        result, failures = SweepResult(), Failures()
        parts = {self._publish: 4, self._due_timers: 3, self._clusters: 2, self._callbacks: 2, self._rejects: 1}
        for part, fraction in parts.items():
            share = (until - self.clock.now()) / fraction
            with failures.collect(part.__name__.lstrip("_")):
                part(result, failures, TimeLimit(self.clock, self.clock.now() + share, result))
        result.failures = failures.lines
        return result

    def _publish(self, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Publish entries that the stream did not publish within two minutes."""
        horizon = to_text(self.clock.now() - UNPUBLISHED_AFTER)
        for outbox in self._shuffled(keys.OUTBOXES):
            page = self.table.query(outbox, up_to=horizon, index=WORK, limit=MAX_PUBLISHED)
            waiting = [Key(str(row["pk"]), str(row["sk"])) for row in page.items]
            if limit.is_over():
                return
            if waiting:
                with failures.collect(f"publishing {outbox}"):
                    self.publish(waiting)
                    result.published += len(waiting)

    def _due_timers(self, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Process the due timers of nodes and jobs."""
        for key in self._due(keys.TIMERS):
            if limit.is_over():
                return
            if key.pk.startswith(JOB):
                with failures.collect(f"checking the progress of {key.pk}"):
                    self.check_progress(key)
            elif key.pk.startswith(NODE_PREFIX):
                node = _node_of(key)
                with failures.collect(f"updating {node.stream}"):
                    self.tick_node(node, result)

    def _rejects(self, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Put the rejected records on the queue again whose retry is due."""
        for key in self._due(keys.RETRIES):
            if limit.is_over():
                return
            with failures.collect(f"retrying the reject {key.pk} {key.sk}"):
                self.retry_reject(key)
                result.rejects += 1

    def _callbacks(self, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Deliver the job callbacks of the clusters in which some wait."""
        for cluster in result.with_callbacks:
            if limit.is_over():
                return
            with failures.collect(f"delivering job callbacks of {cluster}"):
                self.deliver_callbacks(cluster, limit.until)

    def _due(self, shards: Iterable[str]) -> Iterator[Key]:
        now = to_text(self.clock.now())
        for timer in self._shuffled(shards):
            for row in query_all(self.table, timer, up_to=now, index=WORK):
                yield Key(str(row["pk"]), str(row["sk"]))

    def _clusters(self, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Report missing heartbeats, then run the steps of each cluster."""
        clusters = self._shuffled(str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS))
        result.intake = report_missing_heartbeats(self.heartbeat_monitor, clusters, failures, self.probe)
        for cluster in clusters:
            if limit.is_over():
                return
            with self.table.once(cluster):
                self.cluster_steps(cluster, result, failures, limit)
            result.clusters += 1

    def _shuffled(self, things: Iterable[T]) -> list[T]:
        """Return shards or clusters in a random order, which differs each minute."""
        minute, listed = int(self.clock.now().timestamp()) // 60, list(things)
        return [listed[place] for place in _order(minute, len(listed))]


@lru_cache(maxsize=8)
def _order(minute: int, count: int) -> tuple[int, ...]:
    """Return a random order of a number of things for a minute; the shards of all kinds have the same one."""
    order = list(range(count))
    Random(minute).shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(order)


def _node_of(key: Key) -> NodeKey:
    _, cluster, node = key.pk.split("#", 2)
    return NodeKey(cluster, node)
