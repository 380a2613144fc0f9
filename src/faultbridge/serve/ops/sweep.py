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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from typing import TypeVar

from msgspec import Struct, field

from faultbridge.decide.case_moves import opted_out_until
from faultbridge.decide.observe import tick
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.coverage import Coverage
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.log import Failures
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.jobs import JOB
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.model.storage.projections import REQUESTED_ISOLATIONS
from faultbridge.model.storage.writes import NUMBERS, WORK, Key, Work, used_numbers
from faultbridge.model.times import to_text
from faultbridge.record.append import Append
from faultbridge.record.cluster_reads import ClusterReads
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all, shard_rows, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.attempt.step_context import StepTools
from faultbridge.repair.attempt.step_runner import RecoveryResult, StepRunner, recover_attempt, release_leaked_slots
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.incidents import Correlate, Intake
from faultbridge.repair.isolate import Isolate, prepare_isolations
from faultbridge.repair.jobs.job_impact import JobImpact, record_resumable_jobs
from faultbridge.repair.spares.reconcile import reconcile_spares
from faultbridge.repair.successor.launch import end_unused_launches
from faultbridge.repair.successor.sources import check_capacity_waits
from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.serve.ops.missing_heartbeats import ProbeInstance, report_missing_heartbeats

# Sweep plan: the order in which a sweep reads the clusters and the index partitions of waiting work.
#
# The order is random and drawn again each minute. With a fixed order, the last clusters and partitions would never be
# processed under overload.

MINUTES_IN_HOUR = 60
T = TypeVar("T")


class SweepPlan(Struct, frozen=True):
    """The clusters, and the partition numbers of the index of waiting work, in the order of reading.

    `retry_numbers` are the partition numbers for retries of rejected records, and `numbers` those for other work.
    Retries use fewer partitions, because they are not spread over the shards of a cluster. A plan without arguments has
    no clusters and all partition numbers.
    """

    clusters: Sequence[str] = ()
    numbers: Sequence[int] = NUMBERS
    retry_numbers: Sequence[int] = NUMBERS

    def partitions(self, kind: Work) -> Iterator[str]:
        """Yield the partition keys of one kind of work, in the order of the plan."""
        return kind.partitions(self.retry_numbers if kind is Work.RETRY else self.numbers)


def list_clusters(table: Table, now: datetime) -> SweepPlan:
    """Return a plan with all registered clusters, in a random order that depends on the minute of `now`.

    The plan contains all partition numbers of the index of waiting work; `narrowed` reduces them.
    """
    return SweepPlan(shuffled((str(row["sk"]) for row in query_all(table, keys.CLUSTERS)), now))


def narrowed(plan: SweepPlan, table: Table, now: datetime) -> SweepPlan:
    """Return the plan with only the partition numbers in use (`numbers_to_read`).

    The registrations of the clusters determine these numbers. In the first minute of each hour, all numbers are kept.
    If the registrations cannot be read, the error is raised, and the sweep uses the plan with all numbers.
    """
    found = table.get_many(map(keys.cluster_config, plan.clusters))
    shards = {one.cluster: one.shards for one in map(items.read_config, found.values())}
    return plan_for(plan.clusters, shards, now)


def plan_for(clusters: Sequence[str], shards: Mapping[str, int], now: datetime) -> SweepPlan:
    """Return a plan with `clusters` in this order; `shards` maps each cluster to its number of shards."""
    retries = numbers_to_read(dict.fromkeys(shards, 1), now)
    return SweepPlan(clusters, numbers_to_read(shards, now), retries)


def numbers_to_read(shards: Mapping[str, int], now: datetime) -> list[int]:
    """Return the partition numbers in use, in a random order for this minute.

    Registered clusters and records of unknown clusters use these numbers. `shards` maps each cluster to its number of
    shards. In the first minute of each hour, all numbers are returned, because an earlier release may have written rows
    to other partitions.
    """
    if _minute(now) % MINUTES_IN_HOUR == 0:
        return shuffled(NUMBERS, now)
    used = {
        number for cluster, count in {keys.NO_CLUSTER: 1, **shards}.items() for number in used_numbers(cluster, count)
    }
    return shuffled(sorted(used), now)


def shuffled(things: Iterable[T], now: datetime) -> list[T]:
    """Return the given values in a random order.

    The order depends only on the minute of `now` and on the number of values.
    """
    listed = list(things)
    return [listed[place] for place in _order(_minute(now), len(listed))]


def _minute(now: datetime) -> int:
    return int(now.timestamp()) // 60


@lru_cache(maxsize=8)
def _order(minute: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(minute).shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(order)


# Finds nodes whose case is still postponed although their exclusion from repairs has ended.
#
# The state of a node stores the planned end of the exclusion. If a maintenance of the cluster or an update of the group
# ends early, the case would open too late.


def postponed_too_long(
    rows: Iterable[UnhealthyNode], append: Append, config: ClusterConfig, now: datetime
) -> Iterator[NodeKey]:
    """Yield the nodes with a postponed case that may open before the planned time in their state.

    `rows` are the unhealthy nodes of the cluster. `append` reads the states of the nodes.
    """
    until = max(now, config.maintenance_until or now)
    nodes = [NodeKey(config.cluster, row.node) for row in rows if row.deferred_until and row.deferred_until > until]
    for state in append.read_many(nodes) if nodes else ():
        hold = config.update_hold(state.placement.group, now)
        ends = (now, opted_out_until(state, config, now), hold.until if hold else None)
        stored = state.case_deferred_until
        if stored is not None and stored > max(end for end in ends if end is not None):
            yield state.key


class SweepResult(Struct):
    """The counts and failures of one sweep.

    - `ticked` counts the processed nodes, and `recovered_attempts` the lost repair attempts by result of the recovery.
    - `unfinished` is True if a part of the sweep ran out of time before its work was done.
    - `intake` states whether records arrive from the nodes, or is None if that is not known.
    - `node_counts` has the number of nodes by status for each cluster, and `coverage` how many report or have no data.
    - `with_callbacks` lists the clusters in which job callbacks wait.
    - `canary_seconds` is how long a canary took to the bus, if the call only confirmed its arrival.
    """

    ticked: int = 0
    recovered_attempts: dict[str, int] = field(default_factory=dict)
    published: int = 0
    rejects: int = 0
    clusters: int = 0
    released_slots: int = 0
    intake: Intake | None = None
    unfinished: bool = False
    node_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    with_callbacks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    canary_seconds: int | None = None


class TimeLimit(Struct, frozen=True):
    """The time at which a part of a sweep must stop."""

    clock: Clock
    until: datetime
    result: SweepResult

    def is_over(self) -> bool:
        """Return whether the time is over; if so, mark the sweep as unfinished."""
        over = self.clock.now() >= self.until
        self.result.unfinished = self.result.unfinished or over
        return over


class TickNode(Struct, frozen=True):
    """Ends the expired waiting periods, approval requests and conditions of a node.

    A condition expires if it was not observed during its quiet period. `TickNode` also recovers the node's repair
    attempt if the Step Functions execution of the attempt was lost.
    """

    append: Append
    rulebook: Rulebook
    step_runner: StepRunner

    def tick(self, key: NodeKey, result: SweepResult) -> None:
        """End the expired waiting periods, approval requests and conditions of one node.

        Also recover the node's repair attempt if its execution was lost. The node and a recovery are counted in
        `result`.
        """
        rules = rules_of(self.rulebook, key.cluster)

        def pass_time(state: NodeState, now: datetime) -> Transition:
            passed = tick(state, rules=rules, now=now)
            return Transition(passed.state, passed.drafts)

        self.append(key, pass_time, actor=Actor.SWEEP)
        result.ticked += 1
        recovered = recover_attempt(self.step_runner, key)
        if recovered is not RecoveryResult.NOTHING:
            result.recovered_attempts[recovered.value] = result.recovered_attempts.get(recovered.value, 0) + 1


# The steps of a sweep for one cluster, in their order.
#
# A failed step does not stop the others, but no repair starts if the incidents could not be updated.


class ClusterSteps(Struct, frozen=True):
    """Performs the due work of one cluster. Its steps share a read cache (`table`)."""

    table: ClusterReads
    tick_node: TickNode
    correlate: Correlate
    breakers: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact
    tools: StepTools
    has_callbacks: Callable[[str], bool]
    update_coverage: Callable[[str], Coverage]
    compare_peers: Callable[[str], object] = lambda _cluster: None
    check_claims: Callable[[str], object] = lambda _cluster: None

    def run(self, cluster: str, result: SweepResult, failures: Failures, limit: TimeLimit) -> None:
        """Run all steps for one cluster.

        If the incidents could not be updated, no repair starts, because an incident may forbid the repair. After the
        time of `limit`, no further node is isolated; the other steps still run. Counts are added to `result`, errors to
        `failures`.
        """
        correlated = False
        with failures.collect(f"ending pauses and silences of {cluster}"):
            self.breakers.controls.end_expired(cluster)
        with failures.collect(f"updating the incidents of {cluster}"):
            self.correlate.update_incidents(cluster, intake=result.intake)
            correlated = True
        with failures.collect(f"updating the breakers of {cluster}"):
            self.breakers.update(cluster)
        with failures.collect(f"releasing leaked slots of {cluster}"):
            result.released_slots += len(release_leaked_slots(self.table, cluster))
        with failures.collect(f"reconciling the spares of {cluster}"):
            reconcile_spares(self.tools, cluster)
        with failures.collect(f"terminating unused launches of {cluster}"):
            end_unused_launches(self.tools, cluster)
        with failures.collect(f"checking the capacity that cases of {cluster} wait for"):
            check_capacity_waits(self.tools, cluster)
        with failures.collect(f"opening postponed cases of {cluster}"):
            self._open_postponed(cluster, result)
        with failures.collect(f"isolating nodes of {cluster}"):
            self._isolate(cluster, failures, limit)
        with failures.collect(f"recording job impact in {cluster}"):
            self._record_job_impact(cluster, failures)
        with failures.collect(f"resuming jobs of {cluster}"):
            record_resumable_jobs(self.job_impact.jobs, cluster)
        with failures.collect(f"looking for job callbacks of {cluster}"):
            if self.has_callbacks(cluster):
                result.with_callbacks.append(cluster)
        with failures.collect(f"updating the status of {cluster}"):
            result.node_counts[cluster] = dict(self.rollup.update(cluster).counts)
        with failures.collect(f"finding the nodes of {cluster} that do not report"):
            coverage = self.update_coverage(cluster)
            result.coverage[cluster] = {"reporting": coverage.reporting, "no_data": len(coverage.no_data)}
        if correlated:
            with failures.collect(f"dispatching repairs of {cluster}"):
                self.dispatch.admit_cases(cluster)
        with failures.collect(f"checking claims about nodes of {cluster}"):
            self.check_claims(cluster)
        with failures.collect(f"comparing the nodes of {cluster}"):
            self.compare_peers(cluster)

    def _open_postponed(self, cluster: str, result: SweepResult) -> None:
        config = rules_of(self.tick_node.rulebook, cluster).config
        rows = unhealthy_nodes(self.table, config)
        for key in postponed_too_long(rows, self.tick_node.append, config, self.table.clock.now()):
            self.tick_node.tick(key, result)

    def _isolate(self, cluster: str, failures: Failures, limit: TimeLimit) -> None:
        """Isolate nodes that are still in service although their case requires isolation.

        Also withdraw isolations that are not needed any more.
        """
        config = rules_of(self.tick_node.rulebook, cluster).config
        rows = unhealthy_nodes(self.table, config)
        serving = [row.node for row in rows if row.status is NodeStatus.DEGRADED and row.case]
        requested = (str(row["node"]) for row in shard_rows(self.table, config, REQUESTED_ISOLATIONS))
        nodes = list(dict.fromkeys((*serving, *requested)))
        for names, isolate in prepare_isolations(self.isolate, cluster, nodes).items():
            # An orchestrator that does not respond costs seconds for each node.
            if limit.is_over():
                return
            with failures.collect(f"isolating {names}"):
                isolate()

    def _record_job_impact(self, cluster: str, failures: Failures) -> None:
        """Record the faults of unhealthy nodes on the jobs that run there, if `ops.react` has not done so.

        Usually, `ops.react` does this when a node has a new entry. This step covers entries whose trigger was lost.
        """
        rows = unhealthy_nodes(self.table, rules_of(self.tick_node.rulebook, cluster).config)
        for key in self.job_impact.missed(cluster, rows):
            with failures.collect(f"recording job impact of {key.node}"):
                self.job_impact.record(key)


UNPUBLISHED_AFTER = timedelta(minutes=2)
"""The stream normally publishes an entry within seconds. After this time, the sweep publishes the entry."""

MAX_PUBLISHED = 500
"""Maximum entries that one sweep publishes from one partition of unpublished entries."""

NODE_PREFIX = "NODE#"


class Sweep(Struct, frozen=True):
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

    def run(self, seconds: float = 40) -> SweepResult:
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
                    self.tick_node.tick(node, result)

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
        probe = self.probe
        result.intake = report_missing_heartbeats(
            monitor, self.table, plan.clusters, failures, probe.probe, probe.impaired
        )
        for cluster in plan.clusters:
            if limit.is_over():
                return
            with self.table.once(cluster):
                self.cluster_steps.run(cluster, result, failures, limit)
            result.clusters += 1


def _node_of(key: Key) -> NodeKey:
    _, cluster, node = key.pk.split("#", 2)
    return NodeKey(cluster, node)
