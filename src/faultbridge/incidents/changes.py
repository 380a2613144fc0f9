"""Commits changes of incidents, together with the holds that delay repairs and the entries about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import CorrelationLimits, Hold, Incident
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import Actor
from faultbridge.domain.faults import Severity
from faultbridge.incidents.entries import incident_drafts
from faultbridge.log import log_cause
from faultbridge.pipeline.correlate.exempt_nodes import hold_of
from faultbridge.pipeline.correlate.life_cycle import IncidentChange
from faultbridge.pipeline.correlate.snapshot import AffectedNode
from faultbridge.ports import Table
from faultbridge.repair.controls import ControlChange, Controls
from faultbridge.storage import incidents as stored_incidents
from faultbridge.storage.writes import Put

VERIFICATION_MARGIN = timedelta(hours=1)
"""How much longer than the policy's `verify_deadline` a verification may take until its failure is recorded."""

MAX_CHANGES = 20
"""Maximum changes of one commit; the next run makes the others. A change is at most five writes."""

Decide = Callable[[Sequence[Incident], Control, datetime], Iterable[IncidentChange]]
"""Computes changes from the incidents that are not closed, the controls and the time."""


@dataclass(frozen=True, slots=True)
class IncidentChanges:
    """Reads and commits the incidents of a cluster.

    The hold of an incident prevents repairs of the affected nodes. Holds are stored in the cluster's control item. A
    repair that is admitted while a new hold is committed therefore fails with a conflict.
    """

    table: Table
    controls: Controls

    def read(self, control: Control) -> tuple[Incident, ...]:
        """Return the incidents of a cluster that are not closed, according to the holds in `control`."""
        wanted = [name for name, hold in control.holds.items() if hold.ended_at is None]
        found = self.table.get_many(stored_incidents.incident_key(control.cluster, name) for name in wanted)
        return tuple(stored_incidents.read_incident(row) for row in found.values())

    def __call__(
        self,
        cluster: str,
        decide: Decide,
        limits: CorrelationLimits,
        *,
        waiting: Callable[[Incident], int] = lambda _: 0,
        severity: Severity | None = None,
        cause: str | None = None,
        actor: Actor = Actor.CORRELATE,
        affected: Iterable[AffectedNode] | None = None,
        verify_deadline: timedelta = timedelta(),
    ) -> tuple[IncidentChange, ...]:
        """Commit at most `MAX_CHANGES` of the changes that `decide` returns, and return the committed changes.

        `waiting` counts the cases that wait for an incident. With `affected`, the faults of unhealthy nodes, a change
        also removes holds that are not used any more (`_is_used`). Raises Conflict after 20 conflicts.
        """
        committed: tuple[IncidentChange, ...] = ()

        def revise(control: Control, now: datetime) -> ControlChange:
            nonlocal committed
            incidents = self.read(control)
            committed = tuple(decide(incidents, control, now))[:MAX_CHANGES]
            holds = dict(control.holds)
            if affected is not None and committed:
                kept = max(verify_deadline + VERIFICATION_MARGIN, limits.max_age)
                holds = {name: hold for name, hold in holds.items() if _is_used(hold, affected, kept, now)}
            holds |= {one.id: hold_of(one, limits, now) for one in (*incidents, *(one.after for one in committed))}
            drafts = tuple(
                draft for change in committed for draft in incident_drafts(change, now, limits, waiting(change.after))
            )
            writes = tuple(Put(stored_incidents.incident_item(change.after, now)) for change in committed)
            ended = control.holds.keys() - holds.keys()
            events = {name: event for name, event in control.events.items() if name.split(":")[0] not in ended}
            return ControlChange(replace(control, holds=holds, events=events), drafts, severity, cause, writes)

        self.controls.change(cluster, revise, actor)
        _log(committed)
        return committed


def _is_used(hold: Hold, affected: Iterable[AffectedNode], kept: timedelta, now: datetime) -> bool:
    """Return whether the hold of an incident is still needed.

    - A hold is needed until its incident is closed, and for the time `kept` afterwards. In this time, the incident may
      explain a failed verification that started before the close, and the cause of the incident may return.
    - Later, the hold is needed only while a node in `affected` has a fault that the incident explains.
    """
    if hold.ended_at is None or now < hold.ended_at + kept:
        return True
    until = hold.explains_until
    return until is not None and any(
        one.family is hold.family and hold.domain in one.domains and one.since <= until for one in affected
    )


def _log(changes: Iterable[IncidentChange]) -> None:
    for change in changes:
        after = change.after
        log_cause(
            f"incident_{change.kind.value}",
            reason=after.reason,
            cluster=after.cluster,
            incident=after.id,
            domain=after.domain.text,
            affected=after.affected,
            of=after.of,
        )
