"""Isolation permits: gives a node of a cluster the permission to take no new work.

A permit is an attribute of the cluster's controls. It is written in the transaction that requests the isolation,
conditional on the version of the controls. Two writers therefore never exceed the budget together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.isolation_budget import BudgetNode, IsolationUse, domain_sizes, is_expected
from faultbridge.model.cluster.config import ClusterConfig, FailureDomain, is_placed
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import DomainKind, NodeStatus
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.projections import UNHEALTHY
from faultbridge.model.storage.queue_rows import domains_of
from faultbridge.model.storage.writes import Equals, Update, Value
from faultbridge.model.times import from_text, to_text
from faultbridge.record.ports import Table
from faultbridge.record.queries import nodes_in_use, shard_rows


class IsolationPermits(Struct, frozen=True):
    """Measures the isolation budget and gives permits; its `table` must not cache reads."""

    table: Table

    def use(self, rules: Rules, control: Control, now: datetime, *, placed: bool, evicts: bool = True) -> IsolationUse:
        """Read the use of the isolation budget; `placed` also reads all nodes, for failure domains."""
        config = rules.config
        occupied = items.read_cluster(config.cluster, self.table.get(keys.cluster_state(config.cluster))).occupied
        rows = shard_rows(self.table, config, UNHEALTHY)
        roster = tuple(nodes_in_use(self.table, config)) if placed else ()
        return isolation_use(rules, control, occupied, rows, roster, now, evicts=evicts)

    def permit(self, state: NodeState, rules: Rules, now: datetime) -> Update | str:
        """Return the write that gives a node its permit, or the reason why the budget refuses it."""
        cluster, placement = state.key.cluster, state.placement
        domains = domains_of(
            rules.config, {"node": state.key.node, "domain": placement.domain, "domains": dict(placement.domains)}
        )
        control = self._control(cluster)
        use = self.use(rules, control, now, placed=is_placed(domains))
        refused = use.refusal(state.key.node, domains)
        if refused is not None:
            return refused
        permits: dict[str, Value] = {node: to_text(at) for node, at in control.permits.items()}
        return Update(
            keys.cluster_control(cluster),
            set={("permits",): {**permits, state.key.node: to_text(now)}},
            add={"version": 1},
            when=Equals("version", control.version),
        )

    def _control(self, cluster: str) -> Control:
        return items.read_control(cluster, self.table.get(keys.cluster_control(cluster)))


def isolation_use(
    rules: Rules,
    control: Control,
    occupied: Iterable[str],
    rows: Iterable[Mapping[str, Any]],
    roster: Iterable[Mapping[str, Any]],
    now: datetime,
    *,
    evicts: bool = True,
) -> IsolationUse:
    """Return the use of the isolation budget; without `roster`, only that of the cluster is known."""
    config, away = rules.config, frozenset(occupied) | control.permits.keys()
    nodes = {str(row["node"]): _node(config, row, away, control, now) for row in rows}
    members = {str(row["node"]): domains_of(config, row) for row in roster}
    whole = FailureDomain(DomainKind.CLUSTER, config.cluster)
    for name in away - nodes.keys():
        nodes[name] = BudgetNode(name, members.get(name, (whole,)), out=True, holds=name in control.permits)
    sizes = {**domain_sizes(members.values()), whole: config.expected}
    return IsolationUse(tuple(nodes.values()), sizes, rules.policy.limits.isolation_percent, evicts=evicts)


def _node(
    config: ClusterConfig, row: Mapping[str, Any], away: frozenset[str], control: Control, now: datetime
) -> BudgetNode:
    name, severity, opened, left = str(row["node"]), row.get("severity"), row.get("opened"), row.get("left_at")
    serves = NodeStatus(row["status"]).in_service and not row.get("isolated")
    return BudgetNode(
        name,
        domains_of(config, row),
        out=not serves or name in away,
        holds=name in control.permits,
        waits=serves and bool(row.get("needs_permit")),
        urgency=(-Severity(str(severity)).rank if severity else 0, str(opened or "")),
        expected=is_expected(joining=bool(row.get("joining")), left_at=from_text(str(left)) if left else None, now=now),
    )
