"""Affected nodes: reads the nodes that an incident can affect, and the sizes of failure domains.

The affected nodes are read from the index rows of unhealthy nodes. The sizes come from the list of all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from faultbridge.domain.times import from_text
from faultbridge.ledger.queries import nodes_in_use
from faultbridge.pipeline.correlate.snapshot import AffectedNode
from faultbridge.ports import Table
from faultbridge.storage.queue_rows import domains_of

_WITHOUT_INSTANCE = frozenset({NodeStatus.REPLACING, NodeStatus.PROVISIONING})
"""Statuses of nodes whose faults belong to an instance that is already released."""


def affected_nodes(config: ClusterConfig, rows: Sequence[Mapping[str, Any]], now: datetime) -> tuple[AffectedNode, ...]:
    """Return one `AffectedNode` for each unhealthy node and each fault family of its active faults.

    `rows` are the index rows of unhealthy nodes. Two kinds of faults are left out:

    - Missing heartbeats of nodes during an update hold of their group, because an update interrupts heartbeats.
    - All faults of nodes whose instance is being replaced (`replacing` or `provisioning`).
    """
    held = {one.group for one in config.update_holds if one.until > now}
    found = ((one, row.get("group") in held) for row in rows for one in _affected(config, row))
    return tuple(one for one, updated in found if not updated or one.family is not Family.HEARTBEAT)


def _affected(config: ClusterConfig, row: Mapping[str, Any]) -> Iterator[AffectedNode]:
    families = row.get("families") or {}
    if not families or NodeStatus(str(row["status"])) in _WITHOUT_INSTANCE:
        return
    domains, ended = domains_of(config, row), from_text(str(row["ended"])) if row.get("ended") else None
    for family, fault in families.items():
        since, subject = from_text(str(fault["since"])), fault.get("subject")
        first = from_text(str(fault["first"]))
        yield AffectedNode(str(row["node"]), Family(family), since, str(fault["code"]), domains, subject, first, ended)


def incidents_of_failures(
    config: ClusterConfig, rows: Sequence[Mapping[str, Any]], control: Control
) -> Mapping[str, str]:
    """Return, by node, the ids of incidents that may explain a failed repair attempt of the node.

    Only nodes whose case waits for a repair after a failed attempt are considered.
    """
    repeated = [row for row in rows if row.get("repeated")]
    found = {(node := str(row["node"])): _incident_of(control, node, config, row) for row in repeated}
    return {node: incident for node, incident in found.items() if incident is not None}


def _incident_of(control: Control, node: str, config: ClusterConfig, row: Mapping[str, Any]) -> str | None:
    return control.incident_of(node, domains_of(config, row), (), repeated_since=from_text(str(row["opened"])))


def names_in_use(table: Table, config: ClusterConfig) -> tuple[str, ...]:
    """Return the names of all nodes of a cluster that are not retired, sorted."""
    return tuple(sorted(str(row["node"]) for row in nodes_in_use(table, config)))


def domain_sizes(table: Table, config: ClusterConfig) -> Mapping[FailureDomain, int]:
    """Return the number of nodes of each failure domain, without retired nodes.

    The failure domain of the intake, which is the path of all records, contains each of these nodes.
    """
    sizes = Counter(domain for row in nodes_in_use(table, config) for domain in domains_of(config, row))
    intake = FailureDomain(DomainKind.INTAKE, config.cluster)
    return {**sizes, intake: sizes[FailureDomain(DomainKind.CLUSTER, config.cluster)]}
