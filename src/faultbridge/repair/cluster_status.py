"""The status of a cluster: computed from its nodes and its provider, recorded in its entry stream.

The version of the cluster's status is read before the index rows of unhealthy nodes, and every write of the status
increments this version. If two writers read the rows at the same time, the later write therefore gets a conflict, and
its writer computes the status again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.breaker import cluster_status, in_service, nodes_by_status, provider_health, provider_stage
from faultbridge.model import event_data
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ClusterState, Control
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, EntryType, NodeStatus
from faultbridge.model.event_data import ClusterStatusData
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.model.times import EPOCH, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.record.entry_text import condition_text
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import shard_rows, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of

Revise = Callable[[ClusterState], ClusterState]
"""A function that returns a cluster's state with the report of its provider added."""


class ClusterRollup(Struct, frozen=True):
    """Recomputes the status of a cluster, and records an entry if the status or its details changed."""

    table: Table
    clock: Clock
    stack: Stack
    rulebook: Rulebook

    def update(self, cluster: str, cause: str | None = None) -> ClusterState:
        """Recompute and store the status of one cluster, and return it.

        `cause` is the id of the status change that triggered the update. If it is None, the cause is the last status
        change of an unhealthy node, else the last entry of the cluster, else the last status change of one of the
        nodes. Raises Conflict after 20 conflicts with other writers, and Misconfigured for an unknown cluster.
        """
        config = rules_of(self.rulebook, cluster).config
        return append_to_cluster(lambda: self._once(config, cause))

    def report_provider(self, cluster: str, revise: Revise) -> ClusterState:
        """Record the provider's report, which `revise` adds to the state; unchanged, nothing is written."""
        before = items.read_cluster(cluster, self.table.get(keys.cluster_state(cluster)))
        if revise(before) == before:
            return before
        config = rules_of(self.rulebook, cluster).config
        return append_to_cluster(lambda: self._once(config, None, revise))

    def _once(self, config: ClusterConfig, cause: str | None, revise: Revise | None = None) -> ClusterState:
        wanted = keys.cluster_state(config.cluster), keys.cluster_control(config.cluster)
        found = self.table.get_many(wanted)
        before = items.read_cluster(config.cluster, found.get(wanted[0]))
        control = items.read_control(config.cluster, found.get(wanted[1]))
        rows = unhealthy_nodes(self.table, config)
        now = truncate(self.clock.now())
        after, drafts = _next_state(before, revise(before) if revise else before, rows, control, config, now)
        if drafts:
            cause = cause or (None if revise else latest_event(rows))
            cause = cause or before.head.event_id or self._first_registration(config)
            drafts = tuple(replace(draft, causation_id=cause) for draft in drafts)
        after, writes = cluster_writes(
            self.stack, before, after, drafts, actor=Actor.ROLLUP, severity=highest_severity(rows), now=now
        )
        if drafts:
            self.table.transact(writes)
        else:
            self.table.write(writes[0])
        return after

    def _first_registration(self, config: ClusterConfig) -> str | None:
        """Return the status event of one node, the cause of the cluster's first entry, or None."""
        row = next(shard_rows(self.table, config, keys.NODE_ROW), None)
        key = NodeKey(config.cluster, str(row["node"])) if row else None
        return items.read_state(key, self.table.get(keys.node_state(key))).status_event if key else None


def latest_event(rows: Iterable[UnhealthyNode]) -> str | None:
    """Return the event id of the latest status change of unhealthy nodes, or None."""
    last = max((row for row in rows if row.event), key=lambda row: row.updated_at or EPOCH, default=None)
    return last.event if last else None


def highest_severity(rows: Iterable[UnhealthyNode]) -> Severity | None:
    """Return the highest severity of unhealthy nodes, or None."""
    severities = [row.severity for row in rows if row.severity]
    return max(severities, key=lambda severity: severity.rank, default=None)


def _next_state(
    before: ClusterState,
    reported: ClusterState,
    rows: Sequence[UnhealthyNode],
    control: Control,
    config: ClusterConfig,
    now: datetime,
) -> tuple[ClusterState, tuple[Draft, ...]]:
    expected = max(config.expected, reported.target)
    unhealthy = Counter(row.status for row in rows)
    # A node that its group still lacks has no registration yet.
    unhealthy[NodeStatus.PROVISIONING] += expected - config.expected
    counts, occupied = nodes_by_status(unhealthy, expected), _occupied_in_service(reported, rows)
    status = cluster_status(unhealthy, expected, provider=reported.provider, occupied=len(occupied))
    open_incidents = {name: hold for name, hold in sorted(control.holds.items()) if hold.ended_at is None}
    serving = max(in_service(counts) - len(occupied), 0)
    unverified = control.unverified - sum(row.unverified for row in rows if not row.status.in_service)
    verified = max(serving - unverified + sum(occupied.values()), 0)
    after = replace(reported, status=status, counts=counts, incidents=tuple(open_incidents), verified=verified)
    same_number = len(occupied) == len(_occupied_in_service(before, rows))
    if same_number and after == replace(before, target=after.target, occupied=after.occupied, cordoned=after.cordoned):
        return after, ()
    causes = [condition_text(one) for one in reported.provider]
    causes += [f"{hold.family.value} incident {name} in {hold.domain.text}" for name, hold in open_incidents.items()]
    numbers = _numbers(counts, serving, expected, len(occupied))
    data = ClusterStatusData(
        from_=before.status,
        to=status,
        reason=", ".join([*causes, *numbers]),
        counts=counts,
        expected=expected,
        in_service=serving,
        verified=verified,
        incidents=tuple(open_incidents),
        provider_health=provider_health(reported.provider),
        provider_stage=provider_stage(before.provider, reported.provider),
        provider_conditions=tuple(
            event_data.ProviderCondition(kind=one.kind, group=one.group, message=one.message, since=one.since)
            for one in reported.provider
        ),
    )
    return after, (Draft(EntryType.CLUSTER_STATUS, now, data),)


def _numbers(counts: Mapping[str, int], serving: int, expected: int, occupied: int) -> list[str]:
    numbers = [f"{number} {name}" for name, number in counts.items()] or ["no nodes"]
    numbers += [f"{occupied} of them started, updated or tested by the provider"] if occupied else []
    return [f"{serving} of {expected} nodes in service", *numbers] if serving < expected else numbers


def _occupied_in_service(reported: ClusterState, rows: Iterable[UnhealthyNode]) -> dict[str, bool]:
    """Return the nodes in service that the provider occupies, and whether each was never verified."""
    out = {row.node for row in rows if not row.status.in_service}
    return {node: unverified for node, unverified in reported.occupied.items() if node not in out}
