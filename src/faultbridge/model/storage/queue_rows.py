"""Queue rows: reads a queued case, a node without an instance, and a node's failure domains from table rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from faultbridge.model.cluster.config import ClusterConfig, FailureDomain, failure_domains
from faultbridge.model.cluster.state import QueuedCase
from faultbridge.model.cluster.vacancies import Vacancy
from faultbridge.model.enums import NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import NodeKey
from faultbridge.model.times import from_text


def read_queued(config: ClusterConfig, row: Mapping[str, Any]) -> QueuedCase:
    """Return a queued case from its row, whose sort key contains the priority and the time `since`."""
    _, priority_text, since, _ = str(row["sk"]).split("#", 3)
    waiting_for, not_before = row.get("waiting_for"), row.get("not_before")
    return QueuedCase(
        key=NodeKey(config.cluster, str(row["node"])),
        case=str(row["case"]),
        repair_action=RepairAction(row["repair_action"]),
        priority=int(priority_text),
        since=from_text(since),
        waiting_for=WaitingFor(waiting_for) if waiting_for else None,
        not_before=from_text(not_before) if not_before else None,
        rule=str(row.get("rule", "")),
        domain=_optional_text(row, "domain"),
        group=_optional_text(row, "group"),
        approved=bool(row.get("approved")),
        approval_pending=bool(row.get("approval_pending")),
        reason=str(row.get("reason", "")),
        needs_permit=bool(row.get("needs_permit")),
        lost=_optional_text(row, "lost"),
        domains=domains_of(config, row),
        families=tuple(Family(name) for name in row.get("families", ())),
        repeated_since=from_text(str(row["opened"])) if row.get("repeated") else None,
    )


def read_vacancies(rows: Iterable[Mapping[str, Any]]) -> tuple[Vacancy, ...]:
    """Return the nodes without an instance from the rows of a cluster's unhealthy nodes."""
    vacant = (row for row in rows if row.get("vacant"))
    return tuple(
        Vacancy(
            str(row["node"]),
            _optional_text(row, "group"),
            _optional_text(row, "case"),
            from_text(str(row["vacant"])),
            row["status"] != NodeStatus.REPLACING.value,
        )
        for row in vacant
    )


def domains_of(config: ClusterConfig, row: Mapping[str, Any]) -> tuple[FailureDomain, ...]:
    """Return the failure domains of a node from a row about the node, narrowest first."""
    domains = row.get("domains") or {}
    return failure_domains(config.cluster, str(row["node"]), _optional_text(row, "domain"), domains, config.domains)


def _optional_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(value)
