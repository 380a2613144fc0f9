"""One kind of page as data: the events that trigger or resolve it, its key and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.ports import PageUrgency

TIMELINE = "faultbridge timeline --cluster {cluster} --case {case}"
CASE_SHOW = "faultbridge case show {case}"
NODE_SHOW = "faultbridge node show {node} --cluster {cluster}"
INCIDENT_SHOW = "faultbridge incident show {incident_id}"
CLUSTER_SHOW = "faultbridge cluster show {cluster}"
CLUSTER_TIMELINE = "faultbridge timeline --cluster {cluster} --since 1h"
NO_ACTION = "None."


@dataclass(frozen=True, slots=True)
class PageRule:
    """One kind of page in one state.

    `kind` is the last part of the page key. `when` maps fields of `data` to the allowed values; None is the JSON null.
    `by_operator` limits the rule to events that an operator's order caused, or to all others.
    Texts may contain `{case}`, `{cluster}`, `{node}`, `{status}` (of the node) and every scalar field of `data`.
    """

    kind: str
    event_type: str
    when: Mapping[str, frozenset[str | None]]
    state: PageState
    headline: str
    system_action: str
    commands: tuple[str, ...]
    runbook: str
    action_required: str = NO_ACTION
    urgency: PageUrgency = PageUrgency.URGENT
    by_operator: bool | None = None

    def applies_to(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event triggers or resolves this kind of page."""
        metadata, data = event["metadata"], event.get("data") or {}
        if self.by_operator is not None and self.by_operator is not (metadata.get("recorded_by") == Actor.CLI):
            return False
        same_type = bool(data) and metadata["event_type"] == self.event_type
        return same_type and all(data.get(field) in allowed for field, allowed in self.when.items())

    def key(self, event: Mapping[str, Any]) -> str:
        """Return the page key: equal for the trigger, its repetitions and the resolve."""
        metadata, data = event["metadata"], event["data"]
        match self.event_type:
            case EntryType.CLUSTER_SAFETY:
                parts = (metadata["cluster"], str(data.get("kind")), data.get("domain"))
            case EntryType.CLUSTER_INCIDENT:
                parts = (metadata["cluster"], self.kind, data.get("incident_id"))
            case _:
                parts = (metadata.get("case_id") or metadata["stream"], self.kind, None)
        return ":".join(part for part in parts if part)
