"""Onsets: counts how often faults start, as a history that defines the usual rate of faults.

The incident rule for unusual fault rates opens an incident if faults start much more often than usual.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import Hold
from faultbridge.domain.copies import replace
from faultbridge.errors import Conflict
from faultbridge.log import log_cause
from faultbridge.pipeline.correlate.chance import OnsetHistory
from faultbridge.pipeline.correlate.snapshot import AffectedNode
from faultbridge.ports import Clock, Table
from faultbridge.storage import incidents as stored_incidents
from faultbridge.storage import items
from faultbridge.storage.codec import dump, load
from faultbridge.storage.writes import Absent, Equals, Put


@dataclass(frozen=True, slots=True)
class Onsets:
    """Reads and counts the starts of faults in a cluster, by fault family and failure domain."""

    table: Table
    clock: Clock

    def read(self, cluster: str) -> OnsetHistory:
        """Return the counted starts of faults by family and failure domain; empty before the first count."""
        found: Mapping[str, Any] | None = self.table.get(stored_incidents.onsets(cluster))
        return OnsetHistory() if found is None else load(OnsetHistory, found["history"])

    def count(
        self,
        cluster: str,
        affected: Iterable[AffectedNode],
        holds: Collection[Hold],
        window: timedelta,
        before: OnsetHistory | None = None,
    ) -> None:
        """Count faults that started at least `window` ago on the affected nodes and are not counted yet.

        - A fault that started less than `window` ago may still become part of an incident. A later run counts it.
        - `holds` are the holds of the cluster's incidents. A fault belongs to an incident, and is not counted, if a
          hold has the fault's family and a failure domain of the node.
        - `before` is the history that the caller read with `read`. If it is None, this method reads the history.
        - If another run stores its counts first, this run stores nothing, and the next run counts these faults.
        """
        before, now = self.read(cluster) if before is None else before, self.clock.now()
        independent = (
            (one.family, domain, one.since)
            for one in affected
            if not any(hold.family is one.family and hold.domain in one.domains for hold in holds)
            for domain in one.domains
        )
        history = before.counting(independent, now - window)
        if history.counts == before.counts:
            return
        history = replace(history, version=before.version + 1)
        unchanged = Equals("version", before.version) if before.version else Absent()
        row = items.item(stored_incidents.onsets(cluster), now, {"version": history.version, "history": dump(history)})
        try:
            self.table.write(Put(row, when=unchanged))
        except Conflict as conflict:
            log_cause("onsets_not_counted", reason=str(conflict), cluster=cluster)
