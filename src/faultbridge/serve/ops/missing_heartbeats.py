"""Reports nodes in service whose heartbeats are overdue, unless no records arrive from any node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.cluster.config import ClusterConfig, failure_domains
from faultbridge.model.cluster.incidents import CorrelationLimits
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.fault_enums import Family
from faultbridge.model.log import Failures, log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.cluster_reads import ClusterReads
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult
from faultbridge.record.queries import cluster_control
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import StepTools
from faultbridge.repair.incidents import Intake
from faultbridge.serve.ingest.heartbeat_log import ClusterHeartbeats
from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor, Probe, ProbedInstance, unprobed

MAX_PROBED = 5
"""Maximum silent nodes of a cluster that one sweep probes."""

Impaired = Callable[[ClusterConfig], frozenset[str]]
"""Returns the instances of a cluster's account whose status checks fail."""

PAUSE = timedelta(minutes=10)
"""How long an orchestrator that did not answer is not called again."""


class ProbeInstance(Struct, frozen=True):
    """Probes the instance of one node that sends no heartbeat. What cannot be read is returned as unknown.

    If an open incident explains the missing heartbeat, the instance is not probed: many nodes then share one cause,
    which no single instance shows.
    """

    tools: StepTools
    _pauses: dict[str, datetime] = field(default_factory=dict)

    def probe(self, state: NodeState) -> ProbedInstance:
        """Return what the provider and the orchestrator report about a node's instance.

        The result states whether the instance exists, the provider's status checks, and whether the orchestrator
        reports the node as ready. The status checks of an instance that is gone are not read.
        """
        config = rules_of(self.tools.rulebook, state.key.cluster).config
        instance_id = state.instance_id
        if instance_id is None:
            return ProbedInstance()
        try:
            if self._is_covered(state, config):
                return ProbedInstance()
        except FaultbridgeError as error:
            _log_unanswered(state, error)
            return ProbedInstance()
        probed = self._probe_instance(state, config, instance_id)
        return replace(probed, orchestrator=self._readiness(state, config))

    def impaired(self, config: ClusterConfig) -> frozenset[str]:
        """Return the instances whose status checks fail at the provider of a cluster; empty without an answer."""
        try:
            provider = self.tools.compute(config).providers.get(config.provider)
            return provider.impaired() if provider is not None else frozenset()
        except FaultbridgeError as error:
            log_cause("status_checks_not_read", reason=str(error), cluster=config.cluster)
            return frozenset()

    def _probe_instance(self, state: NodeState, config: ClusterConfig, instance_id: str) -> ProbedInstance:
        probed = ProbedInstance()
        try:
            provider = self.tools.compute(config).providers.get(config.provider)
            if provider is not None:
                probed = ProbedInstance(provider.probe(instance_id))
                if not probed.presence.is_gone:
                    probed = ProbedInstance(probed.presence, provider.checks(instance_id))
        except FaultbridgeError as error:
            _log_unanswered(state, error)
        return probed

    def _readiness(self, state: NodeState, config: ClusterConfig) -> CheckResult:
        """Return what the orchestrator reports about a node; UNKNOWN without an answer or an orchestrator.

        A call without an answer lasts up to 40 seconds, and a sweep has no time for a second such call. After a failed
        call, the orchestrator of the cluster is therefore not called again for ten minutes (`PAUSE`).
        """
        orchestrator, now = self.tools.orchestrators.get(config.orchestrator), self.tools.clock.now()
        if orchestrator is None or now < self._pauses.get(config.cluster, now):
            return CheckResult.UNKNOWN
        try:
            return orchestrator.readiness(ClusterNode.of(state, config))
        except FaultbridgeError as error:
            self._pauses[config.cluster] = now + PAUSE
            _log_unanswered(state, error)
            return CheckResult.UNKNOWN

    def _is_covered(self, state: NodeState, config: ClusterConfig) -> bool:
        """Return whether an open incident explains why the node sends no heartbeat."""
        key, placement = state.key, state.placement
        control = cluster_control(self.tools.table, key.cluster)
        domains = failure_domains(key.cluster, key.node, placement.domain, placement.domains, config.domains)
        return control.incident_of(key.node, domains, [Family.HEARTBEAT]) is not None


def _log_unanswered(state: NodeState, error: FaultbridgeError) -> None:
    log_cause("silent_instance_not_probed", reason=str(error), cluster=state.key.cluster, node=state.key.node)


IMPAIRED_TIMEOUT = timedelta(minutes=5)
"""Heartbeat timeout of a node whose status check fails at the provider, if that of the policy is longer.

In a large fleet, agents send heartbeats less often, and the policy's timeout is longer. A node whose host or operating
system stopped is still reported within seven minutes: the status checks of all instances are read with two calls.
"""

MAX_CHECKED_AGAIN = 20
"""Per cluster, one sweep checks this many nodes with a recorded missing heartbeat again. Each check is one read."""


def report_missing_heartbeats(
    monitor: HeartbeatMonitor,
    reads: ClusterReads,
    clusters: Iterable[str],
    failures: Failures,
    probe: Probe = unprobed,
    impaired: Impaired = lambda _config: frozenset(),
) -> Intake | None:
    """Record a fault of nodes in service with overdue heartbeats; end it when heartbeats return.

    No fault is recorded if no records arrive at all. `probe` distinguishes a lost instance from a failed agent or
    network path. `probe` is called for at most `MAX_PROBED` nodes of a cluster. It is not called if so many nodes of
    the cluster are silent that they form an incident. `impaired` returns the instances whose status checks fail. It is
    called for a cluster whose timeout is longer than `IMPAIRED_TIMEOUT`. `reads` caches the data of each cluster.
    Returns the state of the intake, which is the path of records, or None if this state is unknown.
    """
    overdue, early, probed = dict[NodeKey, datetime](), dict[NodeKey, datetime](), set[str]()
    read, on_time = list[ClusterHeartbeats](), 0
    for cluster in clusters:
        with failures.collect(f"reading the heartbeats of {cluster}"), reads.once(cluster):
            rules = rules_of(monitor.log.rulebook, cluster)
            heartbeats = monitor.log.read(rules.config)
            missing = heartbeats.overdue(rules.policy.limits.heartbeat_timeout)
            on_time += len(heartbeats.last) - len(heartbeats.silent) - len(missing)
            overdue |= missing
            if rules.policy.limits.heartbeat_timeout > IMPAIRED_TIMEOUT:
                early |= _impaired_nodes(monitor, heartbeats, impaired(rules.config))
            read.append(heartbeats)
            if not _is_incident(len(missing), len(heartbeats.last), rules.policy.incidents):
                probed.add(cluster)
    checked: list[Intake] = []
    with failures.collect("checking that heartbeats arrive"):
        checked.append(_check_intake(monitor, read, tuple(sorted(overdue)), on_time))
    if not checked:
        return None
    (intake,) = checked
    if intake.failed:
        log_cause("missing_heartbeats_not_reported", reason=f"no records arrive: {len(overdue)} nodes are overdue")
    settled: set[NodeKey] = set()
    again = {node: last for heartbeats in read for node, last in heartbeats.to_check_again(MAX_CHECKED_AGAIN).items()}
    probe_some = _limited(probe, probed)
    for node, last in {} if intake.failed else (overdue | again | early).items():
        with failures.collect(f"checking the heartbeat of {node.stream}"):
            timeout = IMPAIRED_TIMEOUT if node in early else None
            if monitor.check(node, last, intake.last_arrival, probe_some, timeout):
                settled.add(node)
    for heartbeats in read:
        _settle(monitor, heartbeats, settled, failures)
    return intake


def _impaired_nodes(
    monitor: HeartbeatMonitor, heartbeats: ClusterHeartbeats, instances: Iterable[str]
) -> dict[NodeKey, datetime]:
    """Return the last heartbeats of the nodes that these instances back, if they are `IMPAIRED_TIMEOUT` old."""
    wanted = [keys.alias("instance", one) for one in sorted(instances)]
    rows = map(items.read_alias, monitor.log.table.get_many(wanted).values()) if wanted else ()
    nodes = [row.key for row in rows if row.valid_to is None and row.key.cluster == heartbeats.config.cluster]
    latest = heartbeats.read_at - IMPAIRED_TIMEOUT
    watched = {one: heartbeats.last[one.node] for one in nodes if one.node in heartbeats.last}
    return {one: at for one, at in watched.items() if at <= latest and one.node not in heartbeats.silent}


def _check_intake(
    monitor: HeartbeatMonitor, read: Iterable[ClusterHeartbeats], overdue: tuple[NodeKey, ...], on_time: int
) -> Intake:
    """Return the state of the intake, judged by the latest canary and the latest heartbeat of any node.

    The intake is the path of records to the table. A canary is a test record that Faultbridge sends to itself. `read`
    contains the heartbeats of each cluster, and `overdue` the nodes with an overdue heartbeat. `on_time` is the number
    of nodes whose heartbeat is not overdue.
    """
    canary, heartbeats = monitor.last_canary(), [one.newest for one in read if one.newest is not None]
    failed = monitor.intake_failed(canary, len(overdue), on_time, max(heartbeats, default=None))
    return Intake(failed, overdue, None if canary is None else max((canary, *heartbeats)))


def _limited(probe: Probe, clusters: Collection[str]) -> Probe:
    """Return a function that calls `probe` for at most `MAX_PROBED` nodes of each of these clusters.

    For any other node, the function returns that the node was not probed.
    """
    asked: set[NodeKey] = set()

    def probe_some(state: NodeState) -> ProbedInstance:
        cluster = state.key.cluster
        mine = {node for node in asked | {state.key} if node.cluster == cluster}
        if cluster not in clusters or len(mine) > MAX_PROBED:
            return unprobed(state)
        asked.add(state.key)
        return probe(state)

    return probe_some


def _is_incident(silent: int, nodes: int, limits: CorrelationLimits) -> bool:
    """Return whether so many nodes of a cluster are silent that they probably share one cause.

    Probes of single instances cannot show such a cause.
    """
    return silent > MAX_PROBED and silent >= limits.nodes and silent * 100 >= limits.percent * nodes


def _settle(
    monitor: HeartbeatMonitor, heartbeats: ClusterHeartbeats, settled: set[NodeKey], failures: Failures
) -> None:
    """End the faults of nodes that send heartbeats again, and store the latest heartbeats of a cluster.

    - The nodes in `settled` are stored as silent: the fault of their missing heartbeat is recorded, or they need none.
    - If a fault could not be ended, its node stays stored as silent, so that the next sweep tries again.
    """
    cluster = heartbeats.config.cluster
    not_cleared = set(heartbeats.returned)
    for node in heartbeats.returned:
        with failures.collect(f"ending the missing heartbeat of {cluster}/{node}"):
            monitor.clear(NodeKey(cluster, node), heartbeats.last[node])
            not_cleared.remove(node)
    with failures.collect(f"storing the heartbeats of {cluster}"):
        silent = [key.node for key in settled if key.cluster == cluster]
        monitor.log.store(heartbeats.before_return(not_cleared), silent)
