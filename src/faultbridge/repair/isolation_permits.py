"""Isolation permits: gives a node of a cluster the permission to take no new work.

A permit is an attribute of the cluster's controls. It is written in the transaction that requests the isolation,
conditional on the version of the controls. Two writers therefore never exceed the budget together.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.isolation_budget import BudgetNode, IsolationUse, domain_sizes, is_expected
from faultbridge.model.cluster.config import ClusterConfig, FailureDomain, failure_domains, is_placed
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import DomainKind
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import RosterNode, UnhealthyNode
from faultbridge.model.storage.writes import Update, Value
from faultbridge.model.times import to_text
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import cluster_control, nodes_in_use, unhealthy_nodes


class IsolationPermits(Struct, frozen=True):
    """Measures the isolation budget and gives permits; its `table` must not cache reads.

    `refusing` has the last measure that refused a permit, by cluster; None measures for each node again. In one pass
    over many nodes, a used-up budget refuses most of them by one measure.
    """

    table: Table
    refusing: dict[str, tuple[int, IsolationUse]] | None = None

    def use(self, rules: Rules, control: Control, now: datetime, *, placed: bool, evicts: bool = True) -> IsolationUse:
        """Read the use of the isolation budget; `placed` also reads all nodes, for failure domains."""
        config = rules.config
        state = items.read_cluster(config.cluster, self.table.get(keys.cluster_state(config.cluster)))
        rows = unhealthy_nodes(self.table, config)
        roster = tuple(nodes_in_use(self.table, config)) if placed else ()
        return isolation_use(rules, control, (*state.occupied, *state.cordoned), rows, roster, now, evicts=evicts)

    def permit(self, state: NodeState, rules: Rules, now: datetime) -> Update | str:
        """Return the write that gives a node its permit, or the reason why the budget refuses it."""
        cluster, placement = state.key.cluster, state.placement
        domains = failure_domains(cluster, state.key.node, placement.domain, placement.domains, rules.config.domains)
        control = cluster_control(self.table, cluster)
        known = self.refusing.get(cluster) if self.refusing else None
        refused = known[1].refusal(state.key.node, domains) if known and known[0] == control.version else None
        if refused is not None:
            return refused
        use = self.use(rules, control, now, placed=is_placed(domains))
        refused = use.refusal(state.key.node, domains)
        if refused is not None:
            if self.refusing is not None:
                self.refusing[cluster] = control.version, use
            return refused
        permits: dict[str, Value] = {node: to_text(at) for node, at in control.permits.items()}
        return items.control_update(control, {("permits",): {**permits, state.key.node: to_text(now)}})


def isolation_use(
    rules: Rules,
    control: Control,
    occupied: Iterable[str],
    rows: Iterable[UnhealthyNode],
    roster: Iterable[RosterNode],
    now: datetime,
    *,
    evicts: bool = True,
) -> IsolationUse:
    """Return the use of the isolation budget; without `roster`, only that of the cluster is known.

    `occupied` are nodes that take no new work for a reason that is not Faultbridge's.
    """
    config, away = rules.config, frozenset(occupied) | control.permits.keys()
    nodes = {row.node: _node(config, row, away, control, now) for row in rows}
    members = {one.node: one.failure_domains(config) for one in roster}
    whole = FailureDomain(DomainKind.CLUSTER, config.cluster)
    for name in away - nodes.keys():
        nodes[name] = BudgetNode(name, members.get(name, (whole,)), out=True, holds=name in control.permits)
    sizes = {**domain_sizes(members.values()), whole: config.expected}
    return IsolationUse(tuple(nodes.values()), sizes, rules.policy.limits.isolation_percent, evicts=evicts)


def _node(
    config: ClusterConfig, row: UnhealthyNode, away: frozenset[str], control: Control, now: datetime
) -> BudgetNode:
    serves = row.status.in_service and not row.isolated
    return BudgetNode(
        row.node,
        row.failure_domains(config),
        out=not serves or row.node in away,
        holds=row.node in control.permits,
        waits=serves and row.needs_permit,
        urgency=(-row.severity.rank if row.severity else 0, to_text(row.opened) if row.opened else ""),
        expected=is_expected(joining=row.joining, left_at=row.left_at, now=now),
        returns_after=control.origin_of(row.incident),
    )
