"""Reports of fatal faults: each one becomes a condition or a note, unless the same fault was seen before."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.decode import data
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Fault
from faultbridge.model.records import Outcome
from tests.sim.invariants.records import delivered_parts, is_forgotten, records_with_outcome
from tests.sim.invariants.view import SystemView
from tests.sim.laws.law import CLUSTER, Law

DROPPED = "a report of a fatal fault that was never seen becomes a condition or a note"


class ReportLaw(Law):
    """Checks the records that had no effect, at the end of a run."""

    def ended(self) -> Iterator[tuple[str, str]]:
        """Yield each fatal fault that was dropped although its node never showed its code."""
        view = SystemView(self.system)
        kept = set().union(*(records_with_outcome(view, one) for one in Outcome if one is not Outcome.STALE))
        dropped = records_with_outcome(view, Outcome.STALE) - kept
        rows = data.load_catalog()
        seen: dict[str, set[str]] = {}
        for state in view.nodes:
            if state.key.cluster == CLUSTER:
                texts = " ".join(str(body["data"]) for body in view.entries_of(state))
                seen[state.key.node] = {texts}
        for part in delivered_parts(view) if dropped else ():
            record = part.record
            if record.record_id not in dropped or record.node not in seen or is_forgotten(part):
                continue
            for one in part.observations:
                if isinstance(one, Fault) and rows.row(one.code).severity is Severity.FATAL:
                    names = (rows.row_of(one).mode, one.code)
                    if not any(f"'{name}'" in text for text in seen[record.node] for name in names):
                        yield DROPPED, f"{record.cluster}/{record.node}: {one.code} of {record.record_id} is stale"
