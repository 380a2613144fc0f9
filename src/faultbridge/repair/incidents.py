"""Incidents: when many nodes fail for one shared cause, their repairs wait and one page is sent.

`Correlate` opens, changes and closes the incidents of a cluster, `IncidentChanges` commits them with their holds and
entries, and `HeldCases` makes cases wait for the end of an open incident, then releases them. The rules without I/O are
in `faultbridge.decide.correlate`. Tests: tests/scenarios/incidents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.case_moves import SETTLE, Rules, continue_alone, fault_drafts
from faultbridge.decide.correlate.held_cases import absorb, release
from faultbridge.decide.correlate.life_cycle import IncidentChange, close_incident, correlate, hold_of
from faultbridge.decide.correlate.origins import end_symptoms
from faultbridge.decide.correlate.shared_causes import (
    AffectedNode,
    ClusterSnapshot,
    OnsetHistory,
    needs_sizes,
    without_records,
)
from faultbridge.decide.entry_builder import component_data, node_list
from faultbridge.model import event_data
from faultbridge.model.catalog import Catalog
from faultbridge.model.causation import moved_by
from faultbridge.model.cluster.config import ClusterConfig, FailureDomain
from faultbridge.model.cluster.incidents import CorrelationLimits, Hold, Incident, Origin
from faultbridge.model.cluster.state import Control
from faultbridge.model.conditions import parse_component
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import (
    Actor,
    DomainKind,
    EntryType,
    IncidentChangeKind,
    IncidentStatus,
    NodeStatus,
    SafetyKind,
    SafetyState,
)
from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.event_data import ClusterIncidentData, IncidentCause
from faultbridge.model.fault_enums import Family, Severity
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.node_rows import HeldCase, UnhealthyNode
from faultbridge.model.storage.writes import Absent, Equals, Item, Put
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Revise
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import held_cases, nodes_in_use, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.case_orders import OperatorOrder, RequestKey
from faultbridge.repair.cluster_status import highest_severity, latest_event
from faultbridge.repair.controls import ControlChange, Controls, control_draft


def incident_drafts(change: IncidentChange, at: datetime, limits: CorrelationLimits, waiting: int) -> tuple[Draft, ...]:
    """Draft the entries of an incident's change, and of the hold that starts or ends with it."""
    entry = Draft(EntryType.CLUSTER_INCIDENT, at, _data(change, at, waiting), subject=change.after.id)
    held_before = change.before is not None and change.before.status.holds
    if held_before is change.after.status.holds:
        return (entry,)
    return entry, _hold_draft(change.after, at, limits, held_before=held_before)


def _data(change: IncidentChange, at: datetime, waiting: int) -> ClusterIncidentData:
    after = change.after
    return ClusterIncidentData(
        incident_id=after.id,
        change=change.kind,
        from_=change.before.status if change.before else None,
        to=after.status,
        reason=after.reason,
        family=after.family,
        cause=_cause(after),
        domain=event_data.Domain(type=after.domain.kind, name=after.domain.name),
        domain_nodes=after.of,
        nodes=node_list(after.nodes, after.affected),
        doubled=change.doubled,
        finds_origin=change.finds_origin,
        added=node_list(change.added),
        removed=node_list(change.removed),
        absorbed_cases=waiting,
        opened_at=after.opened_at,
        operator=after.operator,
        phases=_phases(after, after.closed_at or at) if after.status is IncidentStatus.CLOSED else {},
    )


def _cause(incident: Incident) -> IncidentCause:
    origin = incident.origin
    about = f" about {incident.subject}" if incident.subject else ""
    text = f"{incident.code}{about} on many nodes of {incident.domain.text} at once; {incident.origin_text}"
    component = parse_component(origin.site.component) if origin else None
    return IncidentCause(
        code=origin.code if origin else incident.code,
        node=origin.node if origin else None,
        component=component_data(component) if component else None,
        text=text,
    )


def _phases(incident: Incident, closed_at: datetime) -> dict[str, int]:
    """Return the milliseconds in which the incident held repairs and, after its maximum age, did not."""
    held_until = incident.expired_at or closed_at
    phases = {"open": held_until - incident.opened_at}
    if incident.expired_at is not None:
        phases["expired"] = closed_at - incident.expired_at
    return {name: length // timedelta(milliseconds=1) for name, length in phases.items()}


def _hold_draft(incident: Incident, at: datetime, limits: CorrelationLimits, *, held_before: bool) -> Draft:
    before, after = (SafetyState.HELD, SafetyState.RELEASED) if held_before else (None, SafetyState.HELD)
    return control_draft(
        SafetyKind.HOLD,
        before,
        after,
        at,
        reason=incident.reason,
        domain=incident.domain.name,
        counts={"affected": incident.affected, "of": incident.of},
        operator=incident.operator,
        until=None if held_before else incident.opened_at + limits.max_age,
        name=f"{incident.id}:hold",
        incident=incident.id,
    )


VERIFICATION_MARGIN = timedelta(hours=1)
"""How much longer than the policy's `verify_deadline` a verification may take until its failure is recorded."""

MAX_CHANGES = 20
"""Maximum changes of one commit; the next run makes the others. A change is at most five writes."""

Decide = Callable[[Sequence[Incident], Control, datetime], Iterable[IncidentChange]]
"""Computes changes from the incidents that are not closed, the controls and the time."""


class IncidentChanges(Struct, frozen=True):
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

    def commit(
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
        request: RequestKey | None = None,
    ) -> tuple[IncidentChange, ...]:
        """Commit at most `MAX_CHANGES` changes of `decide`, once under the key of a request.

        With `affected`, holds that are not used are dropped.
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

        self.controls.change(cluster, revise, actor, request)
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


class IncidentOrders(Struct, frozen=True):
    """Accepts operator orders about incidents, and records each order with the operator's name."""

    changes: IncidentChanges
    rulebook: Rulebook

    def close(self, cluster: str, incident_id: str, order: OperatorOrder) -> None:
        """Close an open or expired incident by order of an operator.

        Faults that started before the close and that the incident explains open no further incident. `Correlate` then
        releases the cases that wait for the incident, the oldest first. Raises Rejected `incident_over` if no open or
        expired incident has this id.
        """

        def decide(incidents: Sequence[Incident], _: Control, now: datetime) -> Iterable[IncidentChange]:
            text = f"closed by an operator{': ' if order.reason else ''}{order.reason}"
            return [
                IncidentChange(IncidentChangeKind.CLOSED, one, close_incident(one, now, text, order.operator))
                for one in incidents
                if one.id == incident_id
            ]

        limits = rules_of(self.rulebook, cluster).policy.incidents
        closed = self.changes.commit(cluster, decide, limits, actor=Actor.CLI, request=order.request)
        if not closed and not (order.request and order.request.is_executed(self.changes.table)):
            raise Rejected("incident_over", f"no open incident: {incident_id}; run 'faultbridge incident list'")


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
                # Only a tick may set the status `healthy`, so the node is due at once.
                return Transition(replace(ended.state, due_at=at), fault_drafts(ended, rules))

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


# Intake: states whether records arrive from the nodes, and lists the silent nodes if none arrive.
#
# The intake is the path of records from the queue to the table. If it has failed, the state of the nodes is unknown. An
# incident of the intake then delays all repairs.


class Intake(Struct, frozen=True):
    """States whether the path of records from the queue to the table works.

    - `failed` is True if no records arrive.
    - `overdue` are the nodes whose heartbeats are overdue.
    - `last_arrival` is the later of two times: when the latest canary that arrived was sent, and when the latest
      heartbeat was received. A canary is a test record that Faultbridge sends to itself. Before the first canary,
      `last_arrival` is None.
    """

    failed: bool
    overdue: tuple[NodeKey, ...] = ()
    last_arrival: datetime | None = None

    def silent_nodes(self, cluster: str, all_nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the cluster's overdue nodes, else all nodes, if the intake has failed; none if it works."""
        if not self.failed:
            return ()
        return tuple(key.node for key in self.overdue if key.cluster == cluster) or tuple(all_nodes)


# Onsets: counts how often faults start, as a history that defines the usual rate of faults.
#
# The incident rule for unusual fault rates opens an incident if faults start much more often than usual.


class Onsets(Struct, frozen=True):
    """Reads and counts the starts of faults in a cluster, by fault family and failure domain."""

    table: Table
    clock: Clock

    def read(self, cluster: str) -> OnsetHistory:
        """Return the counted starts of faults by family and failure domain; empty before the first count."""
        found: Item | None = self.table.get(stored_incidents.onsets(cluster))
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


# Affected nodes: reads the nodes that an incident can affect, and the sizes of failure domains.
#
# The affected nodes are read from the index rows of unhealthy nodes. The sizes come from the list of all nodes.

_WITHOUT_INSTANCE = frozenset({NodeStatus.REPLACING, NodeStatus.PROVISIONING})
"""Statuses of nodes whose faults belong to an instance that is already released."""


def affected_nodes(config: ClusterConfig, rows: Sequence[UnhealthyNode], now: datetime) -> tuple[AffectedNode, ...]:
    """Return one `AffectedNode` for each unhealthy node and each fault family of its active faults.

    Two kinds of faults are left out:

    - Missing heartbeats of nodes during an update hold of their group, because an update interrupts heartbeats.
    - All faults of nodes whose instance is being replaced (`replacing` or `provisioning`).
    """
    held = {one.group for one in config.update_holds if one.until > now}
    found = ((one, row.group in held) for row in rows for one in _affected(config, row))
    return tuple(one for one, updated in found if not updated or one.family is not Family.HEARTBEAT)


def _affected(config: ClusterConfig, row: UnhealthyNode) -> Iterator[AffectedNode]:
    if not row.families or row.status in _WITHOUT_INSTANCE:
        return
    domains = row.failure_domains(config)
    for family, of in row.families.items():
        out = not row.status.in_service
        yield AffectedNode(row.node, family, of.since, of.code, domains, of.subject, of.first, row.ended, of.sites, out)


def incidents_of_failures(config: ClusterConfig, rows: Sequence[UnhealthyNode], control: Control) -> Mapping[str, str]:
    """Return, by node, the incident that may explain why a repair of the node failed."""
    explained: dict[str, str] = {}
    for row in rows:
        if row.repeated_since is not None:
            domains = row.failure_domains(config)
            incident = control.incident_of(row.node, domains, (), repeated_since=row.repeated_since)
            explained |= {row.node: incident} if incident is not None else {}
    return explained


def domain_sizes(table: Table, config: ClusterConfig) -> Mapping[FailureDomain, int]:
    """Return the number of nodes of each failure domain; the intake's domain has all nodes."""
    sizes = Counter(domain for one in nodes_in_use(table, config) for domain in one.failure_domains(config))
    intake = FailureDomain(DomainKind.INTAKE, config.cluster)
    return {**sizes, intake: sizes[FailureDomain(DomainKind.CLUSTER, config.cluster)]}


class Correlate(Struct, frozen=True):
    """Finds faults of a cluster that share a cause, and updates the cluster's incidents and cases."""

    table: Table
    rulebook: Rulebook
    changes: IncidentChanges
    held: HeldCases
    onsets: Onsets

    def update_incidents(
        self, cluster: str, cause: str | None = None, *, intake: Intake | None = None
    ) -> tuple[IncidentChange, ...]:
        """Update the incidents and waiting cases of a cluster, and return the changes of incidents."""
        rules, control = rules_of(self.rulebook, cluster), self.changes.controls.read(cluster)
        rows = unhealthy_nodes(self.table, rules.config)
        now = self.changes.controls.clock.now()
        affected = affected_nodes(rules.config, rows, now)
        if intake is not None and intake.failed:
            silent = intake.silent_nodes(cluster, sorted(one.node for one in nodes_in_use(self.table, rules.config)))
            affected = without_records(affected, cluster, silent, intake.last_arrival or now)
        changed: tuple[IncidentChange, ...] = ()
        history: OnsetHistory | None = None
        if control.holds or (intake and intake.failed) or needs_sizes(affected, rules.policy.incidents):
            sizes, history = domain_sizes(self.table, rules.config), self.onsets.read(cluster)
            catalog = self.rulebook.catalog()
            snapshot = ClusterSnapshot(rules.stack_id, cluster, affected, sizes, history, intake is not None, catalog)
            changed = self._change(snapshot, rows, rules, cause or latest_event(rows))
            control = self.changes.controls.read(cluster)
        if affected:
            window = rules.policy.incidents.window
            self.onsets.count(cluster, affected, control.holds.values(), window, history)
        self._hold_and_release(control, rows, rules, now)
        return changed

    def _change(
        self, snapshot: ClusterSnapshot, rows: Sequence[UnhealthyNode], rules: Rules, cause: str | None
    ) -> tuple[IncidentChange, ...]:
        with_case = frozenset(row.node for row in rows if row.case)
        limits = rules.policy.incidents

        def decide(incidents: Sequence[Incident], control: Control, now: datetime) -> Iterable[IncidentChange]:
            ended = [hold for hold in control.holds.values() if hold.ended_at is not None]
            return correlate(snapshot, incidents, ended, limits, now)

        return self.changes.commit(
            snapshot.cluster,
            decide,
            limits,
            waiting=lambda incident: len(with_case.intersection(incident.nodes)),
            severity=highest_severity(rows),
            cause=cause,
            affected=snapshot.affected,
            verify_deadline=rules.policy.limits.verify_deadline,
        )

    def _hold_and_release(self, control: Control, rows: Sequence[UnhealthyNode], rules: Rules, now: datetime) -> None:
        """Make cases wait for open incidents, release the others, and escalate those without an incident."""
        held, incidents = held_cases(self.table, rules.config), {}
        if held or control.holds:
            incidents = {incident.id: incident for incident in self.changes.read(control)}
            by_node = {row.node: row for row in rows}
            explained = incidents_of_failures(rules.config, rows, control)
            self.held.absorb(control, incidents, by_node, explained)
            self.held.end_symptoms(control, incidents, rules, self.rulebook.catalog(), now)
            self.held.release(control, incidents, held, rules, explained)
        self.held.escalate(control, incidents, rows, now)
