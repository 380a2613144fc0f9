"""Makes cases wait for the end of an open incident that affects their node, then releases them.

Each node is changed in its own transaction. The error `Transient` ends a run, and the next run does the rest. After any
other error, the node is logged and skipped, and the next run tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.case_moves import SETTLE, Rules, continue_alone
from faultbridge.decide.correlate.held_cases import absorb, release
from faultbridge.decide.correlate.origins import end_symptoms
from faultbridge.decide.entry_builder import fault_change
from faultbridge.model.catalog import Catalog
from faultbridge.model.causation import moved_by
from faultbridge.model.cluster.incidents import Incident, Origin
from faultbridge.model.cluster.state import Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage.node_rows import HeldCase, UnhealthyNode
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Revise
from faultbridge.record.ports import Table

MAX_CASES = 200
"""Maximum cases that one run absorbs; escalations and releases have the same maximum. The next run continues."""


class HeldCases(Struct, frozen=True):
    """Makes cases wait for an incident, whose latest event is the cause of their entries."""

    table: Table
    append: Append

    def absorb(
        self,
        control: Control,
        incidents: Mapping[str, Incident],
        unhealthy: Mapping[str, UnhealthyNode],
        explained: Mapping[str, str],
    ) -> None:
        """Make the cases of the nodes of open incidents wait; one run changes at most `MAX_CASES` cases.

        `incidents` has the incidents that are not closed, by id. `unhealthy` has the unhealthy nodes, by name.
        `explained` maps nodes to incidents that explain their failed repair attempts; the cases of these nodes wait for
        these incidents. A case that already waits for one of `incidents` is not changed.
        """
        holding = [incident for incident in incidents.values() if incident.status.holds]
        found = {node: incidents[name] for node, name in explained.items() if name in incidents}
        found |= {node: incident for incident in holding for node in incident.held_nodes}
        waiting = {
            node: incident
            for node, incident in found.items()
            if (row := unhealthy.get(node)) is not None and row.case and row.incident not in incidents
        }
        for node, incident in sorted(waiting.items())[:MAX_CASES]:

            def revise(state: NodeState, now: datetime, incident: Incident = incident) -> Transition:
                return absorb(state, incident, now)

            self._append(control, node, revise, "case_absorbed", incident.id)

    def escalate(
        self,
        control: Control,
        incidents: Mapping[str, Incident],
        unhealthy: Iterable[UnhealthyNode],
        now: datetime,
    ) -> None:
        """Escalate the cases that await correlation, unless an open incident explains their fault.

        A case is escalated at the earliest 10 seconds after it opened, because an incident may still explain its fault.
        If no active fault of the node needs a case any more, the case is queued for a verification instead. One run
        changes at most `MAX_CASES` cases. The `unhealthy` nodes were read at `now`, before the incidents were updated.
        """
        explained = {node for incident in incidents.values() if incident.status.holds for node in incident.held_nodes}
        due = [one.node for one in unhealthy if one.awaits_correlation and one.opened and one.opened + SETTLE <= now]

        def revise(state: NodeState, at: datetime) -> Transition:
            return continue_alone(Transition(state), at, after=SETTLE)

        nodes = [node for node in due if node not in explained][:MAX_CASES]
        for node in nodes:
            self._append(control, node, revise, "case_escalated", "no incident")

    def release(
        self,
        control: Control,
        incidents: Mapping[str, Incident],
        held: tuple[HeldCase, ...],
        rules: Rules,
        explained: Mapping[str, str],
    ) -> None:
        """Release the waiting cases whose incident ended or does not affect their node any more.

        - `held` are the waiting cases, the oldest first. One run releases at most `MAX_CASES` of
          them, in this order.
        - `incidents` are the incidents of the cluster that are not closed, by id.
        - `explained` maps nodes to incidents that explain their failed repair attempts. These nodes count as affected.
        """
        holding = [name for name, incident in incidents.items() if incident.status.holds]
        affected = {node for name in holding for node in incidents[name].held_nodes} | explained.keys()
        origins = {one.origin.node for one in incidents.values() if one.origin is not None}
        released = [one for one in held if one.incident not in holding or one.node not in affected]
        for one in released[:MAX_CASES]:
            reason = f"released by incident {one.incident}"

            # The origin is repaired while the other nodes wait for the incident.
            waits_for = () if one.node in origins else holding

            def revise(
                state: NodeState, now: datetime, reason: str = reason, waits_for: Collection[str] = waits_for
            ) -> Transition:
                return release(state, rules.policy, now, reason, waits_for)

            self._append(control, one.node, revise, "case_released", str(one.incident))

    def end_symptoms(
        self, control: Control, incidents: Mapping[str, Incident], rules: Rules, catalog: Catalog, now: datetime
    ) -> None:
        """End the symptoms of nodes after the origin of their incident went out of service (`origins.end_symptoms`).

        The case of a node without another fault is then released. One run changes at most `MAX_CASES` nodes.
        """
        quiet = rules.policy.incidents.quiet
        out = [
            (node, incident.origin, incident)
            for incident in incidents.values()
            if incident.status.holds and incident.origin and incident.origin.mode in catalog.modes
            for node in incident.held_nodes
        ]
        due = [(node, origin, of) for node, origin, of in out if origin.out_at and now >= origin.out_at + quiet]
        for node, origin, incident in due[:MAX_CASES]:

            def revise(state: NodeState, at: datetime, origin: Origin = origin) -> Transition:
                mode, since = catalog.modes[origin.mode], origin.out_at or at
                ended = end_symptoms(state, mode, catalog, since=since, quiet=quiet, now=at)
                if not ended.changes:
                    return Transition(state)
                drafts = (fault_change(one, ended.state, rules.catalog, rules.policy) for one in ended.changes)
                # Only a tick may set the status `healthy`, so the node is due at once.
                return Transition(replace(ended.state, due_at=at), tuple(drafts))

            self._append(control, node, revise, "symptoms_ended", incident.id)

    def _append(self, control: Control, node: str, revise: Revise, decision: str, incident: str) -> None:
        key, cause = NodeKey(control.cluster, node), control.events.get(incident)

        def revise_for_incident(state: NodeState, now: datetime) -> Transition:
            moved = revise(state, now)
            return replace(moved, drafts=moved_by(moved.drafts, cause))

        try:
            appended = self.append(key, revise_for_incident, actor=Actor.CORRELATE)
        except Transient:
            raise
        except Exception as error:  # noqa: BLE001 - an unreadable node must not stop the other cases of the incident
            reason = f"{type(error).__name__}: {error}"
            log_cause(f"{decision}_failed", reason=reason, cluster=key.cluster, node=key.node, incident=incident)
            return
        if not appended.entries:
            return
        case = appended.state.case
        log_cause(decision, reason=incident, cluster=key.cluster, node=key.node, case_id=case.id if case else None)
