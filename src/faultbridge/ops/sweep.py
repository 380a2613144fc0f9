"""Sweep: what time alone brings about, and what was left undone. Every part may fail without stopping another.

Where there is more to do than time, each part has its share of it, and each minute another shard and cluster comes
first: chance, not an order that repeats, because sweeps that take too long may also be every second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import TypeVar

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.clusters import Control
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import to_text
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.ledger.append import Append
from faultbridge.ledger.queries import query_all, shard_rows
from faultbridge.ops.failures import Failures
from faultbridge.pipeline.observe import tick
from faultbridge.ports import Clock, Table
from faultbridge.repair.attempt.leaked_slots import ReleaseLeakedSlots
from faultbridge.repair.attempt.recovery import RecoverAttempts, RecoveryResult
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import UNHEALTHY_ROWS, ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate import Isolate
from faultbridge.repair.spares.reconcile import ReconcileSpares
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import keys
from faultbridge.storage.rejects import is_reject
from faultbridge.storage.writes import WORK, Key

UNPUBLISHED_AFTER = timedelta(minutes=2)
"""The stream publishes within seconds; what still waits then was missed."""

MAX_PUBLISHED = 500
NODE = "NODE#"

T = TypeVar("T")


@dataclass(slots=True)
class Swept:
    """What one sweep did; `unfinished` when its time was up before its work was, `fleet` has nodes by their status."""

    ticked: int = 0
    poked: dict[str, int] = field(default_factory=dict)
    published: int = 0
    rejects: int = 0
    clusters: int = 0
    released: int = 0
    deaf: int = 0
    unfinished: bool = False
    fleet: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs each minute; `publish` and `retry_reject` take the keys of what waits."""

    table: Table
    clock: Clock
    append: Append
    rulebook: Rulebook
    guard: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    poke: RecoverAttempts
    silence: HeartbeatMonitor
    job_impact: JobImpact
    release: ReleaseLeakedSlots
    reconcile_spares: ReconcileSpares
    publish: Callable[[Sequence[Key]], object]
    retry_reject: Callable[[Key], object]

    def __call__(self, seconds: float = 40) -> Swept:
        """Work for at most so many seconds and say what was done; failures are in the answer, none is raised."""
        until = self.clock.now() + timedelta(seconds=seconds)
        swept, failures = Swept(), Failures()
        parts = (self._publish, self._due, self._clusters)
        for left, part in zip(range(len(parts), 0, -1), parts, strict=True):
            share = (until - self.clock.now()) / left
            with failures.of(part.__name__.lstrip("_")):
                part(swept, failures, self.clock.now() + share)
        swept.failures = failures.all
        return swept

    def _publish(self, swept: Swept, failures: Failures, until: datetime) -> None:
        horizon = to_text(self.clock.now() - UNPUBLISHED_AFTER)
        for outbox in self._in_turn(keys.OUTBOXES):
            page = self.table.query(outbox, up_to=horizon, index=WORK, limit=MAX_PUBLISHED)
            waiting = [Key(str(row["pk"]), str(row["sk"])) for row in page.items]
            if self._out_of_time(swept, until):
                return
            if waiting:
                with failures.of(f"publishing {outbox}"):
                    self.publish(waiting)
                    swept.published += len(waiting)

    def _due(self, swept: Swept, failures: Failures, until: datetime) -> None:
        silent: list[NodeKey] = []
        for key in self._timers():
            if self._out_of_time(swept, until):
                return
            if is_reject(key.pk):
                with failures.of(f"retrying {key.pk} {key.sk}"):
                    self.retry_reject(key)
                    swept.rejects += 1
            elif keys.is_heartbeat(key.sk):
                _, cluster, node = key.pk.split("#", 2)
                silent.append(NodeKey(cluster, node))
            elif key.pk.startswith(NODE):
                _, cluster, node = key.pk.split("#", 2)
                with failures.of(f"looking after {cluster}/{node}"):
                    self._look_after(NodeKey(cluster, node), swept)
        self._silent(silent, swept, failures)

    def _silent(self, overdue: list[NodeKey], swept: Swept, failures: Failures) -> None:
        with failures.of("listening for others"):
            if self.silence.reception_failed(len(overdue)):
                swept.deaf = len(overdue)
                return
        for node in overdue:
            with failures.of(f"judging the silence of {node.stream}"):
                self.silence.check(node)

    def _timers(self) -> Iterator[Key]:
        now = to_text(self.clock.now())
        for timer in self._in_turn(keys.TIMERS):
            for row in query_all(self.table, timer, up_to=now, index=WORK):
                yield Key(str(row["pk"]), str(row["sk"]))

    def _look_after(self, key: NodeKey, swept: Swept) -> None:
        rules = rules_of(self.rulebook, key.cluster)

        def pass_time(state: NodeState, now: datetime) -> Transition:
            passed = tick(state, rules=rules, now=now)
            return Transition(passed.state, passed.drafts)

        self.append(key, pass_time, actor=Actor.SWEEP, config=rules.config)
        swept.ticked += 1
        poked = self.poke(key)
        if poked is not RecoveryResult.NOTHING:
            swept.poked[poked.value] = swept.poked.get(poked.value, 0) + 1

    def _clusters(self, swept: Swept, failures: Failures, until: datetime) -> None:
        for cluster in self._in_turn(str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)):
            if self._out_of_time(swept, until):
                return
            control = None
            with failures.of(f"guarding {cluster}"):
                control = self.guard(cluster)
            with failures.of(f"releasing slots of {cluster}"):
                swept.released += len(self.release(cluster))
            with failures.of(f"tending the spares of {cluster}"):
                self.reconcile_spares(cluster)
            with failures.of(f"isolating in {cluster}"):
                self._isolate(cluster, control, swept, failures, until)
            with failures.of(f"telling the jobs of {cluster}"):
                self._job_impact(cluster, failures)
            with failures.of(f"rolling up {cluster}"):
                swept.fleet[cluster] = dict(self.rollup(cluster).counts)
            with failures.of(f"dispatching {cluster}"):
                self.dispatch(cluster)
            swept.clusters += 1

    def _isolate(
        self, cluster: str, control: Control | None, swept: Swept, failures: Failures, until: datetime
    ) -> None:
        """Isolate what serves although its case wants it isolated: a call that failed, a doorbell that was lost."""
        rows = shard_rows(self.table, rules_of(self.rulebook, cluster).config, UNHEALTHY_ROWS)
        served = [str(row["node"]) for row in rows if row["status"] == NodeStatus.DEGRADED and row.get("case")]
        for node, isolate in self.isolate.for_nodes(cluster, served, control).items():
            # An orchestrator that does not answer costs seconds a node.
            if self._out_of_time(swept, until):
                return
            with failures.of(f"isolating {node}"):
                isolate()

    def _job_impact(self, cluster: str, failures: Failures) -> None:
        """Tell of a fault that rang no doorbell, or whose doorbell was lost."""
        rows = shard_rows(self.table, rules_of(self.rulebook, cluster).config, UNHEALTHY_ROWS)
        for key in self.job_impact.busy_nodes(cluster, [str(row["node"]) for row in rows]):
            with failures.of(f"telling the jobs of {key.node}"):
                self.job_impact(key)

    def _in_turn(self, things: Iterable[T]) -> list[T]:
        minute = int(self.clock.now().timestamp()) // 60
        order = list(things)
        Random(minute).shuffle(order)  # noqa: S311 - an order, no secret
        return order

    def _out_of_time(self, swept: Swept, until: datetime) -> bool:
        over = self.clock.now() >= until
        swept.unfinished = swept.unfinished or over
        return over
