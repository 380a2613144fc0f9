"""Correlate: opens, changes and closes the incidents of a cluster, and makes cases wait for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.correlate.life_cycle import IncidentChange, correlate
from faultbridge.decide.correlate.shared_causes import (
    AffectedNode,
    ClusterSnapshot,
    OnsetHistory,
    needs_sizes,
    without_records,
)
from faultbridge.model.cluster.config import ClusterConfig, FailureDomain
from faultbridge.model.cluster.incidents import Hold, Incident
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import DomainKind, NodeStatus
from faultbridge.model.errors import Conflict
from faultbridge.model.fault_enums import Family
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.model.storage.writes import Absent, Equals, Item, Put
from faultbridge.model.values import replace
from faultbridge.record.ports import Clock, Table
from faultbridge.record.queries import held_cases, nodes_in_use, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.cluster_status import highest_severity, latest_event
from faultbridge.repair.incidents.changes import IncidentChanges
from faultbridge.repair.incidents.held import HeldCases

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
