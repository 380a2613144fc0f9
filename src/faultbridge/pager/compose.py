"""Write: a page from an event, its rule, and what the table knows besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.domain.cases import Case
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text
from faultbridge.pager.page import Links, Page, PageState, Place
from faultbridge.pager.page_rule import PageRule
from faultbridge.pipeline.entry_builder import component_data, incarnation_data
from faultbridge.ports import ProviderFailure

UNKNOWN_STATUS = "unknown"
STOPPED = "escalated"
"""The transition of a repair that stopped; its reasons have pages of their own."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the table says of an event's case and node; empty when nobody could ask it."""

    case: Case | None = None
    node: NodeState | None = None
    note: str = ""


def write_page(event: Mapping[str, Any], rule: PageRule, known: Known, links: Links) -> Page:
    """Say what broke, where, since when, what is being done, and what the reader must do."""
    metadata, data = event["metadata"], event["data"]
    words = _Words(
        {name: str(value) for name, value in data.items() if value is not None and not isinstance(value, dict)}
        | {"case": metadata.get("case_id"), "cluster": metadata["cluster"], "node": metadata.get("node")}
        | {"status": known.node.status.value if known.node and known.node.status else UNKNOWN_STATUS}
    )
    cause = data.get("cause") or _cause_of(known.case)
    code = cause.get("code")
    return Page(
        key=rule.key(event),
        state=rule.state,
        urgency=rule.urgency,
        headline=rule.headline.format_map(words),
        broke=_broke(cause, data),
        place=_place(metadata, data, cause.get("component"), known.node),
        doing=rule.doing.format_map(words),
        reader=rule.reader.format_map(words),
        commands=tuple(
            one.format_map(words) for one in rule.commands if "{case}" not in one or metadata.get("case_id")
        ),
        runbook=links.runbook(runbook_of(rule, data)),
        timeline=links.timeline(metadata["cluster"], metadata.get("case_id")),
        event_type=metadata["event_type"],
        event_id=metadata["event_id"],
        at=from_text(metadata["occurred_at"]),
        code=code,
        severity=data.get("severity")
        or metadata.get("severity")
        or (known.case.severity.value if known.case else None),
        case_id=metadata.get("case_id"),
        since=_since(data, known.case),
        phases=data.get("phases") or {},
        note=known.note,
    )


def over(page: Page) -> Page:
    """Say of a trouble that it has ended, where nothing of its end is at hand."""
    return replace(page, state=PageState.RESOLVED, headline=f"over: {page.headline}", doing="Done.", reader="Nothing.")


def runbook_of(rule: PageRule, data: Mapping[str, Any]) -> str:
    """Name the page of the reason for which a repair stopped, where it has one; else that of the rule."""
    reason = str(data.get("reason") or "").partition(":")[0]
    known = rule.transition == STOPPED and reason in ProviderFailure.__members__
    return f"reason-{reason.lower().replace('_', '-')}" if known else rule.runbook


class _Words(dict[str, str | None]):
    """The words of an event for a sentence; a word that the event does not have is a question mark."""

    def __missing__(self, _name: str) -> str:
        return "?"


def _cause_of(case: Case | None) -> dict[str, Any]:
    return {} if case is None else {"code": case.code, "component": component_data(case.component)}


def _broke(cause: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if not cause:
        return str(data.get("reason") or "")
    about = " ".join(part for part in (cause.get("code"), component_text(cause.get("component"))) if part)
    return f"{about}: {cause['message']}" if cause.get("message") else about


def _place(
    metadata: Mapping[str, Any], data: Mapping[str, Any], component: Mapping[str, Any] | None, node: NodeState | None
) -> Place:
    sitting = data.get("incarnation") or incarnation_data(node.incarnation if node else None) or {}
    part = component or {}
    return Place(
        cluster=metadata["cluster"],
        node=metadata.get("node"),
        instance_id=sitting.get("instance_id"),
        component=component_text(component),
        serial=part.get("serial") or _serial(part, node),
        pci=part.get("pci"),
    )


def _serial(part: Mapping[str, Any], node: NodeState | None) -> str | None:
    devices = node.devices if node else ()
    same = (one.serial for one in devices if part.get("pci") and one.pci == part["pci"])
    return next(same, None)


def _since(data: Mapping[str, Any], case: Case | None) -> datetime | None:
    told = data.get("detected_at") or data.get("opened_at")
    if told:
        return from_text(told)
    return case.marks.get("detected", case.opened_at) if case else None
