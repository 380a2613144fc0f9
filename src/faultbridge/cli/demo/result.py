"""What came of the demo: the numbers that must agree, and a table of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.cli.output import Columns, Form, show_one
from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.ingest.delivery_audit import DeliveryAudit
from faultbridge.ledger.entry_text import duration_text
from faultbridge.ledger.verify import Verified
from faultbridge.registry.views import CaseView

TABLE: Columns = {
    "Cluster": lambda one: one["cluster"],
    "Records sent": lambda one: one["records"],
    "Their outcomes": lambda one: ", ".join(f"{count} {name}" for name, count in one["outcomes"].items() if count),
    "Entries": lambda one: one["entries"],
    "Events on the bus": lambda one: one["events"],
    "Pages": lambda one: "\n".join(page["subject"] for page in one["pages"]) or "none",
    "Case": lambda one: "\n".join(
        f"{case['case_id']} {case['status']} ({case['resolution']})" for case in one["cases"]
    ),
    "Old instance": lambda one: one["old_instance"],
    "New instance": lambda one: one["new_instance"],
    "Phases": lambda one: "\n".join(
        f"{name:<14}{duration_text(took)}" for case in one["cases"] for name, took in case["phases"].items()
    ),
    "Record is whole": lambda one: f"{'yes' if one['whole'] else 'no'} ({one['streams']} streams)",
    "Repaired in": lambda one: f"{one['repaired_in_s']:.1f} s after the records were sent",
    "Whole demo": lambda one: f"{one['ran_for_s']:.1f} s",
}


@dataclass(frozen=True, slots=True)
class Result:
    """One run of the demo: `events` and `pages` as the taps got them, repetitions included; times in seconds."""

    cluster: str
    records: int
    accounted: DeliveryAudit
    verified: Verified
    entries: int
    events: Sequence[Mapping[str, Any]]
    pages: Sequence[Mapping[str, Any]]
    cases: Sequence[CaseView]
    nodes: Sequence[NodeState]
    repaired_in: float
    ran_for: float

    @property
    def wrong(self) -> list[str]:
        """List what did not come out as it should."""
        return list(self._wrong())

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON document."""
        replaced = next((node for node in self.nodes if node.former_instances), None)
        sitting = replaced.incarnation if replaced else None
        return {
            "cluster": self.cluster,
            "records": self.records,
            "outcomes": {outcome.value: count for outcome, count in self.accounted.outcomes.items()},
            "unaccounted": len(self.accounted.missing),
            "entries": self.verified.entries,
            "events": len(self._event_ids()),
            "deliveries": len(self.events),
            "pages": [dict(page) for page in self._pages()],
            "cases": [_case(view) for view in self.cases],
            "node": replaced.key.node if replaced else None,
            "old_instance": replaced.former_instances[-1] if replaced else None,
            "new_instance": sitting.instance_id if sitting else None,
            "whole": self.verified.whole,
            "streams": self.verified.streams,
            "repaired_in_s": round(self.repaired_in, 3),
            "ran_for_s": round(self.ran_for, 3),
            "wrong": self.wrong,
        }

    def _wrong(self) -> Iterator[str]:
        if not any(view.case.resolution is Resolution.REPLACED for view in self.cases):
            states = ", ".join(f"{view.case.id} is {view.case.status}" for view in self.cases) or "there is no case"
            yield f"the node was not replaced in time ({states})"
        if not self.accounted.complete:
            yield f"{len(self.accounted.missing)} records have no outcome"
        if not self.verified.whole:
            yield f"the record is broken: {self.verified.breaks[0]}"
        if len(self._event_ids()) != self.verified.entries:
            yield f"{self.verified.entries} entries, but {len(self._event_ids())} events on the bus"
        if not self.pages:
            yield "nobody was paged"

    def _event_ids(self) -> set[str]:
        return {str(event["metadata"]["event_id"]) for event in self.events}

    def _pages(self) -> list[Mapping[str, Any]]:
        return sorted(self.pages, key=lambda page: (str(page["at"]), str(page["state"]) != "triggered"))


def print_result(result: Result) -> None:
    """Print the table with which the demo ends."""
    print()
    show_one(result.document(), TABLE, Form.PEOPLE)


def _case(view: CaseView) -> dict[str, Any]:
    closed = view.case.closed_at
    return {
        "case_id": view.case.id,
        "node": view.key.node,
        "status": view.case.status,
        "resolution": view.case.resolution,
        "code": view.case.code,
        "phases": view.phases(closed) if closed else {},
        "closed": view.case.status is CaseStatus.RESOLVED,
    }
