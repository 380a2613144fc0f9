"""Held cases: lets the cases of affected nodes wait for their incident, and releases them, one node at a time.

Each node is one transaction of its own, and every run continues where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.causation import moved_by
from faultbridge.domain.cluster.incidents import Incident
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import from_text
from faultbridge.ledger.append import Append, Revise
from faultbridge.ledger.queries import shard_rows
from faultbridge.log import log_cause
from faultbridge.pipeline.correlate.held_cases import absorb, release
from faultbridge.pipeline.decide.case_moves import SETTLE, continue_alone
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import Table
from faultbridge.storage.projections import HELD
from faultbridge.storage.writes import Item

MAX_CASES = 200
"""Maximum cases that one run absorbs or releases; the next run continues."""


@dataclass(frozen=True, slots=True)
class HeldCases:
    """Absorbs and releases the cases of a cluster's nodes, with the latest event of the incident as their cause."""

    table: Table
    append: Append

    def rows(self, rules: Rules) -> tuple[Item, ...]:
        """Return the rows of the cases that wait for an incident, the oldest case first."""
        return tuple(
            sorted(shard_rows(self.table, rules.config, HELD), key=lambda row: (str(row["opened"]), str(row["case"])))
        )

    def absorb(
        self,
        control: Control,
        incidents: Mapping[str, Incident],
        rows: Mapping[str, Item],
        explained: Mapping[str, str],
    ) -> int:
        """Let the live cases of the nodes of open incidents wait; returns the number of cases.

        `rows` are the rows of unhealthy nodes by name, `explained` the incidents that explain failed attempts, by node.
        A case that waits already is left alone.
        """
        holding = [incident for incident in incidents.values() if incident.status.holds]
        found = {node: incidents[name] for node, name in explained.items() if name in incidents}
        found |= {node: incident for incident in holding for node in incident.nodes}
        waiting = {
            node: incident
            for node, incident in found.items()
            if (row := rows.get(node)) is not None and row.get("case") and row.get("incident") not in incidents
        }
        count = 0
        for node, incident in sorted(waiting.items())[:MAX_CASES]:

            def revise(state: NodeState, now: datetime, incident: Incident = incident) -> Transition:
                return absorb(state, incident, now)

            count += self._append(control, node, revise, "case_absorbed", incident.id)
        return count

    def escalate(self, control: Control, incidents: Mapping[str, Incident], rows: Iterable[Item], now: datetime) -> int:
        """Escalate the cases that need an operator and that no open incident explains; returns how many.

        `rows` are the rows of unhealthy nodes, as read before the incidents were updated at `now`.
        """
        explained = {node for incident in incidents.values() if incident.status.holds for node in incident.nodes}
        due = [
            str(row["node"])
            for row in rows
            if row.get("awaits_correlation") and from_text(str(row["opened"])) + SETTLE <= now
        ]

        def revise(state: NodeState, at: datetime) -> Transition:
            return continue_alone(Transition(state), at, after=SETTLE)

        nodes = [node for node in due if node not in explained][:MAX_CASES]
        return sum(self._append(control, node, revise, "case_escalated", "no incident") for node in nodes)

    def release(
        self,
        control: Control,
        incidents: Mapping[str, Incident],
        held: tuple[Item, ...],
        rules: Rules,
        explained: Mapping[str, str],
    ) -> int:
        """Release the oldest cases that no open incident holds any longer; returns how many were released."""
        holding = [name for name, incident in incidents.items() if incident.status.holds]
        affected = {node for name in holding for node in incidents[name].nodes} | explained.keys()
        released = [row for row in held if row["incident"] not in holding or row["node"] not in affected]
        count = 0
        for row in released[:MAX_CASES]:
            reason = f"released by incident {row['incident']}"

            def revise(state: NodeState, now: datetime, reason: str = reason) -> Transition:
                return release(state, rules.policy, now, reason, holding)

            count += self._append(control, str(row["node"]), revise, "case_released", str(row["incident"]))
        return count

    def _append(self, control: Control, node: str, revise: Revise, decision: str, incident: str) -> int:
        key, cause = NodeKey(control.cluster, node), control.events.get(incident)

        def revise_for_incident(state: NodeState, now: datetime) -> Transition:
            moved = revise(state, now)
            return replace(moved, drafts=moved_by(moved.drafts, cause))

        appended = self.append(key, revise_for_incident, actor=Actor.CORRELATE)
        if not appended.entries:
            return 0
        case = appended.state.case
        log_cause(decision, reason=incident, cluster=key.cluster, node=key.node, case_id=case.id if case else None)
        return 1
