"""One kind of page, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.ports import PageUrgency

Data = Mapping[str, Any]

TIMELINE = "faultbridge timeline --cluster {cluster} --case {case}"
CASE_SHOW = "faultbridge case show {case}"
NODE_SHOW = "faultbridge node show {node} --cluster {cluster}"
CLUSTER_SHOW = "faultbridge cluster show {cluster}"
CLUSTER_TIMELINE = "faultbridge timeline --cluster {cluster} --since 1h"


@dataclass(frozen=True, slots=True)
class PageRule:
    """One kind of page: which events trigger it, what it says, and which key it has.

    `when` holds the values that fields of `data` must have, None standing for any. The texts may name what `data`
    holds as text, and `{case}`, `{cluster}`, `{node}` and `{status}`, the node's.
    """

    transition: str
    event_type: str
    when: Mapping[str, frozenset[str | None]]
    state: PageState
    urgency: PageUrgency
    headline: str
    doing: str
    reader: str
    commands: tuple[str, ...]
    runbook: str

    def covers(self, event_type: str, data: Data) -> bool:
        """Tell whether an event is of this kind."""
        return event_type == self.event_type and all(data.get(field) in allowed for field, allowed in self.when.items())

    def key(self, event: Mapping[str, Any]) -> str:
        """Name the trouble: the same for its repetitions and for its end."""
        metadata, data = event["metadata"], event["data"]
        match self.event_type:
            case EntryType.CLUSTER_SAFETY:
                parts = (metadata["cluster"], str(data.get("kind")), data.get("domain"))
            case EntryType.CLUSTER_INCIDENT:
                parts = (metadata["cluster"], "incident", data.get("incident_id"))
            case _:
                parts = (metadata.get("case_id") or metadata["stream"], self.transition, None)
        return ":".join(part for part in parts if part)
