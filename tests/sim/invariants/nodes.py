"""Checks nodes and clusters: status changes, service only after verification, index rows, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from faultbridge.model.edges import NODE_EDGES, allowed
from faultbridge.model.enums import Actor, Isolation, NodeStatus
from faultbridge.model.isolation import in_service, needs_isolation
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from tests.sim.invariants.arithmetic import status_of_cluster
from tests.sim.invariants.view import Invariant, SystemView

STATUS = "Node Status Change"
IN_SERVICE = frozenset({NodeStatus.HEALTHY.value, NodeStatus.DEGRADED.value})
_WITHOUT_ROW = frozenset({NodeStatus.HEALTHY, NodeStatus.RETIRED})


def _status_changes(entries: list[dict[str, Any]]) -> Iterator[tuple[str | None, str, str, int]]:
    for body in entries:
        meta = body["metadata"]
        if meta["event_type"] == STATUS:
            yield body["data"]["from"], body["data"]["to"], meta["recorded_by"], meta["sequence"]


def _illegal_changes(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        current = None
        for source, target, actor, sequence in _status_changes(view.entries_of(state)):
            if source != current or not allowed(NODE_EDGES, source, target, Actor(actor)):
                yield f"{state.key.stream} {sequence}: {current} | {source} -> {target} by {actor}"
            current = target
        if state.status is not None and current != state.status:
            yield f"{state.key.stream} is {state.status}, its last entry says {current}"


def _unverified(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        passed: set[tuple[str, int]] = set()
        for body in view.entries_of(state):
            meta, data = body["metadata"], body["data"]
            if data.get("step") == "verify" and data["outcome"] == "passed":
                passed.add((meta["case_id"], data["attempt"]))
            if meta["event_type"] != STATUS or data["to"] not in IN_SERVICE or data["from"] in {None, *IN_SERVICE}:
                continue
            if data["from"] != NodeStatus.VALIDATING or not any(case == meta["case_id"] for case, _ in passed):
                yield f"{state.key.stream} {meta['sequence']}: {data['from']} -> {data['to']}"
            passed.clear()


def _out_of_service_without_case(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        registered = state.status not in {None, NodeStatus.PROVISIONING, NodeStatus.RETIRED}
        if registered and state.status not in IN_SERVICE and state.live_case is None:
            yield f"{state.key.stream} is {state.status}"


def _shared_instances(view: SystemView) -> Iterator[str]:
    nodes = (state for state in view.nodes if state.status is not NodeStatus.RETIRED)
    counts = Counter(state.incarnation.instance_id for state in nodes if state.incarnation)
    yield from (f"{instance} backs {count} nodes" for instance, count in counts.items() if instance and count > 1)


def _wrong_aliases(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        instance = state.incarnation.instance_id if state.incarnation else None
        if instance is None or state.status is NodeStatus.RETIRED:
            continue
        found = view.at(*keys.alias("instance", instance))
        if found is None or items.read_alias(found).key != state.key or items.read_alias(found).valid_to:
            yield f"the alias {instance} does not resolve to {state.key.stream}"


def _wrong_rows(view: SystemView) -> Iterator[str]:
    wanted = {(state.key.cluster, state.key.node): _row(state) for state in view.nodes if _row(state)}
    found = {
        (str(item["pk"]).split("#")[1], str(item["node"])): (item["status"], item.get("severity"), item.get("case"))
        for item in view.items
        if str(item["sk"]).startswith("BAD#")
    }
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            yield f"{key}: the row says {found.get(key)}, the node's state {wanted.get(key)}"


def _row(state: NodeState) -> tuple[Any, ...] | None:
    """Return the status, severity and case that the index row of an unhealthy node contains.

    Returns None for a node without such a row: it is healthy, retired or not registered.
    """
    if state.status is None or state.status in _WITHOUT_ROW:
        return None
    case = state.live_case
    return state.status.value, state.severity.value if state.severity else None, case.id if case else None


def _wrong_cordons(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        cordoned = state.key.node in view.ports.orchestrator.cordoned
        if cordoned and state.status is not None and state.status.in_service and state.isolation is Isolation.NONE:
            yield f"{state.key.stream} is {state.status} and cordoned"
        if not cordoned and state.isolation is Isolation.CONFIRMED:
            yield f"{state.key.stream} is isolated and not cordoned"
        if in_service(state) and state.isolation is Isolation.CONFIRMED and not needs_isolation(state, ordered=False):
            yield f"{state.key.stream} is cordoned without a reason"
        # A node out of service may stay REQUESTED: the repair of a dead instance does not wait for the orchestrator.
        requested = state.isolation is Isolation.REQUESTED and state.status is not None and state.status.in_service
        if requested and not _held_by_breaker(view, state):
            yield f"{state.key.stream}: the isolation is still requested"


def _held_by_breaker(view: SystemView, state: NodeState) -> bool:
    cluster = state.key.cluster
    control = items.read_control(cluster, view.at(*keys.cluster_control(cluster)))
    return state.live_case is not None and control.breaker(state.placement.domain) is not None


def _missing_instances(view: SystemView) -> Iterator[str]:
    """Yield the nodes in service whose instance is terminated; other tools do so unseen where no inventory runs."""
    known = None if view.system.inventory_runs.groups else set(view.system.checks.released)
    for state in view.nodes:
        instance = state.incarnation.instance_id if state.incarnation else None
        if instance and state.status and state.status.in_service and not view.ports.fleet.is_alive(instance):
            if known is not None and instance not in known:
                continue
            yield f"{state.key.stream} is {state.status}, but its instance {instance} is terminated"


def _overdue_timers(view: SystemView) -> Iterator[str]:
    now = view.ports.clock.now()
    for state in view.nodes:
        if state.due_at is not None and state.due_at <= now:
            yield f"{state.key.stream} since {state.due_at}"


INVARIANTS = (
    Invariant("a node follows only legal edges, and its status is that of its last entry", _illegal_changes),
    Invariant("a node enters service only after a passed verification", _unverified),
    Invariant("a node out of service has a live case", _out_of_service_without_case),
    Invariant("an instance backs at most one node", _shared_instances),
    Invariant("the alias of an instance resolves to its node", _wrong_aliases),
    Invariant("the rows of unhealthy nodes match the node states", _wrong_rows),
    Invariant("exactly the isolated nodes are cordoned, and each has a reason", _wrong_cordons),
    Invariant("a node in service has a live instance", _missing_instances),
    Invariant("no timer is overdue", _overdue_timers),
)


def _wrong_statuses(view: SystemView) -> Iterator[str]:
    for item in view.partition(keys.CLUSTERS):
        cluster = str(item["cluster"])
        config = items.read_config(view.at(*keys.cluster_config(cluster)) or {})
        found = items.read_cluster(cluster, view.at(*keys.cluster_state(cluster)))
        nodes = [state for state in view.nodes if state.key.cluster == cluster and state.status is not None]
        statuses = [state.status for state in nodes if state.status is not None]
        # Only an inventory run notices that the group lacks nodes, so they may be counted or not.
        lacking = [NodeStatus.PROVISIONING] * _lacking_nodes(view, nodes)
        wanted = status_of_cluster(statuses, config.expected)
        counted = status_of_cluster([*statuses, *lacking], config.expected + len(lacking))
        if (found.status, dict(found.counts)) not in (wanted, counted):
            yield f"{cluster} has {found.status} {dict(found.counts)}, its nodes give {wanted[0]} {wanted[1]}"


def _lacking_nodes(view: SystemView, nodes: Iterable[NodeState]) -> int:
    """Return how many nodes the groups of these nodes lack: running or launching instances without a registered node.

    Only groups that the inventory reads are counted.
    """
    fleet, standby = view.ports.fleet, view.ports.repaired_inventory.standby
    registered = Counter(one.placement.group for one in nodes if one.status is not NodeStatus.RETIRED)
    lacking = 0
    for group in view.system.inventory_runs.groups:
        if group in registered:
            serving = sum(one.instance_id not in standby for one in fleet.running(group))
            lacking += max(serving + fleet.launching(group) - registered[group], 0)
    return lacking


def _wrong_node_counts(view: SystemView) -> Iterator[str]:
    for item in view.partition(keys.CLUSTERS):
        cluster = str(item["cluster"])
        config = items.read_config(view.at(*keys.cluster_config(cluster)) or {})
        nodes = [state for state in view.nodes if state.key.cluster == cluster and state.registered]
        serving = sum(state.status is not NodeStatus.RETIRED for state in nodes)
        partition = f"CLUSTER#{cluster}#"
        listed = sum(str(one["pk"]).startswith(partition) and str(one["sk"]).startswith("NODE#") for one in view.items)
        if config.expected != serving or len(nodes) != listed:
            yield f"{cluster} expects {config.expected} of {serving} nodes, lists {listed} of {len(nodes)}"


def _wrong_unverified_counts(view: SystemView) -> Iterator[str]:
    for item in view.partition(keys.CLUSTERS):
        cluster = str(item["cluster"])
        counted = items.read_control(cluster, view.at(*keys.cluster_control(cluster))).unverified
        nodes = [one for one in view.nodes if one.key.cluster == cluster and one.registered]
        wanted = sum(one.unverified and one.status is not NodeStatus.RETIRED for one in nodes)
        if counted != wanted:
            yield f"{cluster} counts {counted} unverified nodes, it has {wanted}"


CLUSTER_INVARIANTS = (
    Invariant("a cluster's status follows from its nodes", _wrong_statuses),
    Invariant("a cluster's node counts are correct", _wrong_node_counts),
    Invariant("a cluster's count of unverified nodes is correct", _wrong_unverified_counts),
)
