"""Lists findings, records whether each is right or wrong, and computes the precision of detectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Conflict, UnknownName
from faultbridge.model.findings import Detector, Finding, Mark, Precision, precision_of
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Equals, Item, Put
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.queries import query_all


class Judgments(Struct, frozen=True):
    """Reads findings, and records whether operators judge them right or wrong."""

    append: Append

    def list(self, clusters: Iterable[str], *, ended: bool = False) -> tuple[Finding, ...]:
        """Return the findings of clusters in the order of opening; ended findings only with `ended`."""
        found = (
            stored.read_finding(row)
            for cluster in clusters
            for row in query_all(self.append.table, keys.cluster_partition(cluster), prefix=stored.FINDING)
        )
        return tuple(sorted((one for one in found if ended or one.ended_at is None), key=lambda one: one.opened_at))

    def show(self, finding: str) -> Finding:
        """Return the finding with this id. Raises Rejected `unknown_finding` if no registered cluster has it."""
        return stored.read_finding(self._row(finding))

    def find(self, cluster: str, finding: str) -> Finding | None:
        """Return the finding with this id in one cluster, or None if the cluster has no such finding."""
        row = self.append.table.get(stored.finding_key(cluster, finding))
        return stored.read_finding(row) if row is not None else None

    def mark(self, finding: str, mark: Mark, operator: str, reason: str = "") -> Finding:
        """Record whether an operator judges a finding right or wrong; the last mark counts."""
        known = self.show(finding)
        marked = replace(known, mark=mark, marked_by=operator, reason=reason)

        def revise(state: NodeState, now: datetime) -> Transition:
            nonlocal marked
            row = self._row(finding)
            marked = replace(stored.read_finding(row), mark=mark, marked_by=operator, reason=reason)
            text = f"finding {finding} of {marked.detector} marked {mark.value}" + (f": {reason}" if reason else "")
            facts = {"finding_id": finding, "detector": marked.detector, "mark": mark.value}
            note = entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=now, facts=facts, operator=operator)
            when = Equals("updated_at", str(row["updated_at"]))
            return Transition(state, (note,), (Put(stored.finding_item(marked, now), when=when),))

        self.append(NodeKey(known.cluster, known.node), revise, actor=Actor.CLI)
        return marked

    def mark_proved(self, finding: Finding, case_id: str) -> None:
        """Mark a finding as right, because a case proves it, unless it has or gets another mark."""
        row = self.append.table.get(stored.finding_key(finding.cluster, finding.id))
        found = stored.read_finding(row) if row is not None else None
        if row is None or found is None or found.mark is not None:
            return
        reason = "a hard fault of the same component soon after"
        right = replace(found, mark=Mark.RIGHT, marked_by=case_id, reason=reason)
        when = Equals("updated_at", str(row["updated_at"]))
        try:
            self.append.table.write(Put(stored.finding_item(right, self.append.clock.now()), when=when))
        except Conflict as conflict:
            reason = f"another change of the finding came first: {conflict}"
            log_cause("finding_not_marked", reason=reason, cluster=finding.cluster, finding=finding.id)

    def precision(self, detectors: Sequence[Detector], findings: Sequence[Finding]) -> tuple[Precision, ...]:
        """Return the precision of each detector: the share of right findings among its marked findings."""
        return tuple(precision_of(one.name, findings) for one in detectors)

    def _row(self, finding: str) -> Item:
        clusters = [str(row["cluster"]) for row in query_all(self.append.table, keys.CLUSTERS)]
        found = self.append.table.get_many(stored.finding_key(cluster, finding) for cluster in clusters)
        row = next(iter(found.values()), None)
        if row is None:
            raise UnknownName("finding", finding)
        return row
