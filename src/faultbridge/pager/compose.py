"""Writes a page from an event, the rule for this kind of page, and the stored case and node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import Case
from faultbridge.domain.cluster.config import ClusterConfig, RepairOwner
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text
from faultbridge.pager.page import Links, Location, Page
from faultbridge.pager.page_rule import PageRule
from faultbridge.pipeline.entry_builder import component_data, incarnation_data
from faultbridge.ports import ProviderFailure

UNKNOWN_STATUS = "unknown"
NO_ORCHESTRATOR = "none"
ESCALATED = "escalated"
MAX_NODES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class StoredDetails:
    """The stored case, node state and cluster registration that belong to an event.

    A value is None if the event does not name it. The case and the registration are also None if they are not stored.
    """

    case: Case | None = None
    node: NodeState | None = None
    config: ClusterConfig | None = None


def write_page(event: Mapping[str, Any], rule: PageRule, stored: StoredDetails, links: Links) -> Page:
    """Return the page for an event: the texts of its rule, filled with the values of the event.

    Stored details fill the values that the event does not contain.
    """
    metadata, data = event["metadata"], event["data"]
    values = _TextValues(
        _scalars(data.get("facts") or {})
        | _scalars(data)
        | {"case": metadata.get("case_id"), "cluster": metadata["cluster"], "node": metadata.get("node")}
        | {"status": stored.node.status.value if stored.node and stored.node.status else UNKNOWN_STATUS}
        | _isolation_texts(stored.config)
        | {"nodes": _nodes_text(data.get("nodes")), "no_repairs": _no_repairs_text(stored.config)}
    )
    cause = data.get("cause") or _cause_of(stored.case)
    return Page(
        key=rule.key(event),
        state=rule.state,
        urgency=rule.urgency,
        headline=rule.headline.format_map(values),
        fault=_fault_text(cause, data),
        location=_location(metadata, data, cause.get("component"), stored.node),
        system_action=rule.system_action.format_map(values),
        action_required=rule.action_required.format_map(values),
        commands=tuple(
            one.format_map(values) for one in rule.commands if "{case}" not in one or metadata.get("case_id")
        ),
        runbook=links.runbook(runbook_of(rule, data)),
        timeline=links.timeline(metadata["cluster"], metadata.get("case_id")),
        event_type=metadata["event_type"],
        event_id=metadata["event_id"],
        occurred_at=from_text(metadata["occurred_at"]),
        code=cause.get("code"),
        severity=data.get("severity")
        or metadata.get("severity")
        or (stored.case.severity.value if stored.case else None),
        case_id=metadata.get("case_id"),
        since=_since(data, stored.case),
        phases=data.get("phases") or {},
    )


def _scalars(data: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: str(value) for name, value in data.items() if value is not None and not isinstance(value, dict)}


def runbook_of(rule: PageRule, data: Mapping[str, Any]) -> str:
    """Return the name of the runbook that a page links to.

    For a page about an escalated case, this is the runbook for the reason why the repair failed. If the page has
    another kind, or the reason has no runbook, this is the runbook of the rule.
    """
    reason = str(data.get("reason") or "").partition(":")[0]
    has_runbook = rule.kind == ESCALATED and reason in ProviderFailure.__members__
    return f"reason-{reason.lower().replace('_', '-')}" if has_runbook else rule.runbook


def _isolation_texts(config: ClusterConfig | None) -> dict[str, str]:
    if config is None or config.orchestrator != NO_ORCHESTRATOR:
        return {"isolates": "Isolates the node", "isolated": "isolated", "meanwhile": "None now.", "not_isolated": ""}
    why = "isolation is not applicable: the cluster has no orchestrator"
    return {
        "isolates": f"Does not isolate the node ({why})",
        "isolated": f"out of service ({why})",
        "meanwhile": "Keep new work off the node: nothing else does.",
        "not_isolated": f" {why[:1].upper()}{why[1:]}, so keep new work off yourself.",
    }


def _no_repairs_text(config: ClusterConfig | None) -> str:
    if config is None or config.repairs:
        return ""
    text = f" Faultbridge repairs no node of this cluster (mode {config.mode}, repair owner {config.repair_owner})."
    follows = config.repair_owner is RepairOwner.PROVIDER
    return f"{text} Repairs of the provider do not wait." if follows else text


class _TextValues(dict[str, str | None]):
    def __missing__(self, _name: str) -> str:
        return "?"


def _nodes_text(nodes: Mapping[str, Any] | None) -> str:
    if not nodes:
        return "none"
    shown = list(nodes["listed"])[:MAX_NODES_SHOWN]
    more = int(nodes["count"]) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _cause_of(case: Case | None) -> dict[str, Any]:
    return {} if case is None else {"code": case.code, "component": component_data(case.component)}


def _fault_text(cause: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if not cause:
        return str(data.get("reason") or "")
    fault = " ".join(part for part in (cause.get("code"), component_text(cause.get("component"))) if part)
    message = str(cause.get("message") or cause.get("text") or "")
    if message == fault or message.startswith((f"{fault}:", f"{fault} ")):
        return message
    return f"{fault}: {message}" if message else fault


def _location(
    metadata: Mapping[str, Any], data: Mapping[str, Any], component: Mapping[str, Any] | None, node: NodeState | None
) -> Location:
    incarnation = data.get("incarnation") or incarnation_data(node.incarnation if node else None) or {}
    fields = component or {}
    return Location(
        cluster=metadata["cluster"],
        node=metadata.get("node"),
        instance_id=incarnation.get("instance_id"),
        component=component_text(component),
        serial=fields.get("serial") or _serial(fields.get("pci"), node),
        pci=fields.get("pci"),
    )


def _serial(pci: str | None, node: NodeState | None) -> str | None:
    devices = node.devices if node else ()
    return next((device.serial for device in devices if pci and device.pci == pci), None)


def _since(data: Mapping[str, Any], case: Case | None) -> datetime | None:
    since = data.get("detected_at") or data.get("opened_at")
    if since:
        return from_text(since)
    return case.marks.get("detected", case.opened_at) if case else None
