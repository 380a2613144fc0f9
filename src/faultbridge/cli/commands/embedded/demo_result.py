"""The result of the demo: its checks, its JSON document and its final table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.cli.render.output import Columns, OutputFormat, print_line, show_one
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
    "Outcomes": lambda one: ", ".join(f"{count} {name}" for name, count in one["outcomes"].items() if count),
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
    "Console": lambda one: one["console"],
    "Record verified": lambda one: f"{'yes' if one['whole'] else 'no'} ({one['streams']} streams)",
    "Repaired in": lambda one: (
        "not repaired" if one["repaired_in_s"] is None else f"{one['repaired_in_s']:.1f} s after the records were sent"
    ),
    "Total time": lambda one: f"{one['ran_for_s']:.1f} s",
}


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of one demo run.

    `events` and `pages` include repeated deliveries. `repaired_in` and `ran_for` are in seconds.
    """

    cluster: str
    records: int
    audit: DeliveryAudit
    verified: Verified
    entries: int
    events: Sequence[Mapping[str, Any]]
    pages: Sequence[Mapping[str, Any]]
    cases: Sequence[CaseView]
    nodes: Sequence[NodeState]
    repaired_in: float
    ran_for: float
    console: str

    @property
    def repaired(self) -> bool:
        """Return whether a case of the demo was resolved by the replacement of its instance."""
        return any(view.case.resolution is Resolution.REPLACED for view in self.cases)

    @property
    def problems(self) -> list[str]:
        """Return one line of text for each check of the demo that failed."""
        return list(self._problems())

    def document(self) -> dict[str, Any]:
        """Return the result as one JSON document, for `--json` and for the final table."""
        replaced = next((node for node in self.nodes if node.former_instances), None)
        incarnation = replaced.incarnation if replaced else None
        return {
            "cluster": self.cluster,
            "records": self.records,
            "outcomes": {outcome.value: count for outcome, count in self.audit.outcomes.items()},
            "unaccounted": len(self.audit.missing),
            "entries": self.verified.entries,
            "events": len(self._event_ids()),
            "deliveries": len(self.events),
            "pages": [dict(page) for page in self._pages()],
            "cases": [_case(view) for view in self.cases],
            "node": replaced.key.node if replaced else None,
            "old_instance": replaced.former_instances[-1] if replaced else None,
            "new_instance": incarnation.instance_id if incarnation else None,
            "whole": self.verified.whole,
            "streams": self.verified.streams,
            "console": f"{self.console}/clusters/{self.cluster}",
            "repaired_in_s": round(self.repaired_in, 3) if self.repaired else None,
            "ran_for_s": round(self.ran_for, 3),
            "wrong": self.problems,
        }

    def _problems(self) -> Iterator[str]:
        if not self.repaired:
            states = ", ".join(f"{view.case.id} is {view.case.status}" for view in self.cases) or "no case was opened"
            yield f"node not replaced in time: {states}"
        if not self.audit.complete:
            yield f"records without an outcome: {len(self.audit.missing)}"
        if not self.verified.whole:
            yield f"record not verified: {self.verified.breaks[0]}"
        if len(self._event_ids()) != self.verified.entries:
            yield f"events missing on the bus: {len(self._event_ids())} events for {self.verified.entries} entries"
        if not self.pages:
            yield "no page was sent"

    def _event_ids(self) -> set[str]:
        return {str(event["metadata"]["event_id"]) for event in self.events}

    def _pages(self) -> list[Mapping[str, Any]]:
        """Return the pages in order of time; if times are equal, a triggered page precedes a resolved one."""
        return sorted(self.pages, key=lambda page: (str(page["occurred_at"]), str(page["state"]) != "triggered"))


def print_result(result: DemoResult) -> None:
    """Print the final table of the demo."""
    print_line()
    show_one(result.document(), TABLE, OutputFormat.TABLE)


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
