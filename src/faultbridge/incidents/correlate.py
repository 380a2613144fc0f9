"""Correlate: opens, changes and closes the incidents of a cluster, and makes cases wait for them.

`ops.cluster_steps` (in each sweep) and `ops.react` call `Correlate` before they update the breakers and start repairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.incidents import Incident
from faultbridge.domain.cluster.state import Control
from faultbridge.incidents.affected_nodes import affected_nodes, domain_sizes, incidents_of_failures, names_in_use
from faultbridge.incidents.changes import IncidentChanges
from faultbridge.incidents.held import HeldCases
from faultbridge.incidents.intake import Intake
from faultbridge.incidents.onsets import Onsets
from faultbridge.ledger.queries import unhealthy_rows
from faultbridge.pipeline.correlate.chance import OnsetHistory
from faultbridge.pipeline.correlate.life_cycle import IncidentChange, correlate
from faultbridge.pipeline.correlate.shared_causes import needs_sizes
from faultbridge.pipeline.correlate.snapshot import ClusterSnapshot, without_records
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import Table
from faultbridge.repair.cluster_status import highest_severity, latest_event
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage.writes import Item


@dataclass(frozen=True, slots=True)
class Correlate:
    """Finds faults of a cluster that share a cause, and updates the cluster's incidents and cases."""

    table: Table
    rulebook: Rulebook
    changes: IncidentChanges
    held: HeldCases
    onsets: Onsets

    def __call__(
        self, cluster: str, cause: str | None = None, *, intake: Intake | None = None
    ) -> tuple[IncidentChange, ...]:
        """Update the incidents and waiting cases of one cluster, and return the changes of incidents.

        `cause` is the id of the event that triggered the update. If it is None, the cause is the latest status change
        of an unhealthy node. `intake` states whether records arrive from the nodes; it is None if this is unknown.
        """
        rules, control = rules_of(self.rulebook, cluster), self.changes.controls.read(cluster)
        rows = unhealthy_rows(self.table, rules.config)
        now = self.changes.controls.clock.now()
        affected = affected_nodes(rules.config, rows, now)
        if intake is not None and intake.failed:
            silent = intake.silent_nodes(cluster, names_in_use(self.table, rules.config))
            affected = without_records(affected, cluster, silent, intake.last_arrival or now)
        changed: tuple[IncidentChange, ...] = ()
        history: OnsetHistory | None = None
        if control.holds or (intake and intake.failed) or needs_sizes(affected, rules.policy.incidents):
            sizes, history = domain_sizes(self.table, rules.config), self.onsets.read(cluster)
            snapshot = ClusterSnapshot(rules.stack_id, cluster, affected, sizes, history, intake is not None)
            changed = self._change(snapshot, rows, rules, cause or latest_event(rows))
            control = self.changes.controls.read(cluster)
        if affected:
            window = rules.policy.incidents.window
            self.onsets.count(cluster, affected, control.holds.values(), window, history)
        self._hold_and_release(control, rows, rules, now)
        return changed

    def _change(
        self, snapshot: ClusterSnapshot, rows: Sequence[Item], rules: Rules, cause: str | None
    ) -> tuple[IncidentChange, ...]:
        with_case = frozenset(str(row["node"]) for row in rows if row.get("case"))
        limits = rules.policy.incidents

        def decide(incidents: Sequence[Incident], control: Control, now: datetime) -> Iterable[IncidentChange]:
            ended = [hold for hold in control.holds.values() if hold.ended_at is not None]
            return correlate(snapshot, incidents, ended, limits, now)

        return self.changes(
            snapshot.cluster,
            decide,
            limits,
            waiting=lambda incident: len(with_case.intersection(incident.nodes)),
            severity=highest_severity(rows),
            cause=cause,
            affected=snapshot.affected,
            verify_deadline=rules.policy.limits.verify_deadline,
        )

    def _hold_and_release(self, control: Control, rows: Sequence[Item], rules: Rules, now: datetime) -> None:
        """Make cases wait for the open incidents that affect their node, and release the other waiting cases.

        Then escalate or verify the cases that await an incident but belong to no open incident. `rows` are the index
        rows of the unhealthy nodes, as read at `now`. If a run is interrupted, the next run does the rest.
        """
        held, incidents = self.held.rows(rules), {}
        if held or control.holds:
            incidents = {incident.id: incident for incident in self.changes.read(control)}
            by_node = {str(row["node"]): row for row in rows}
            explained = incidents_of_failures(rules.config, rows, control)
            self.held.absorb(control, incidents, by_node, explained)
            self.held.release(control, incidents, held, rules, explained)
        self.held.escalate(control, incidents, rows, now)
