"""Views: read the current state of clusters, nodes, cases and incidents for the CLI and the API."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Literal

from msgspec import Struct

from faultbridge.decide.entry_builder import durations
from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.coverage import Coverage
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.cluster.state import ClusterState, Control, Spare
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import UnknownName
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import RosterNode
from faultbridge.model.storage.writes import CASES, Item
from faultbridge.model.times import from_text, to_text
from faultbridge.record.coverage import read_coverage, recent_heartbeats
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import (
    held_cases,
    node_names,
    query_all,
    registered,
    roster,
    unhealthy_nodes,
)
from faultbridge.repair.spares.pool import read_spares

_OF_CLUSTER = keys.cluster_config, keys.cluster_state, keys.cluster_control, keys.cluster_coverage


class ClusterView(Struct, frozen=True):
    """A cluster: its configuration, its status, what limits or stops its repairs, its spares, and who reports."""

    config: ClusterConfig
    state: ClusterState
    control: Control
    pool: tuple[Spare, ...] = ()
    coverage: Coverage | None = None


class Reports(Struct, frozen=True):
    """The last heartbeats of a cluster's nodes, and what the sweep found about their reports."""

    heartbeats: Mapping[str, datetime]
    coverage: Coverage | None


class CaseView(Struct, frozen=True):
    """A case and the node that it belongs to."""

    case: Case
    key: NodeKey

    def phases(self, now: datetime) -> dict[str, int]:
        """Return the duration of each phase so far in milliseconds, in the order of the phases."""
        return durations(self.case, self.case.closed_at or now)

    def age(self, now: datetime) -> int:
        """Return the age of the case in milliseconds; the age of a closed case ends at its closure."""
        return ((self.case.closed_at or now) - self.case.opened_at) // timedelta(milliseconds=1)


class CasePageSent(Struct, frozen=True):
    """A page (notification to operators) about a case: its kind, its latest state, and when it was sent."""

    kind: str
    page_state: Literal["triggered", "resolved"]
    sent_at: datetime


class IncidentView(Struct, frozen=True):
    """A cluster incident; `held` maps a node to the id of its case that waits for the incident."""

    incident: Incident
    held: Mapping[str, str]


class Views(Struct, frozen=True):
    """Reads clusters, nodes, cases and incidents by key and index; writes nothing."""

    table: Table

    def cluster_names(self) -> list[str]:
        """Return the names of all clusters, sorted."""
        return [str(row["cluster"]) for row in query_all(self.table, keys.CLUSTERS)]

    def clusters(self) -> tuple[ClusterView, ...]:
        """Return all clusters, sorted by name."""
        return tuple(map(self.cluster, self.cluster_names()))

    def cluster(self, cluster: str) -> ClusterView:
        """Return a cluster; an unregistered cluster raises Rejected `unknown_cluster`."""
        item_keys = tuple(key(cluster) for key in _OF_CLUSTER)
        found = self.table.get_many(item_keys)
        config, state, control, coverage = (found.get(key) for key in item_keys)
        if config is None:
            raise UnknownName("cluster", cluster)
        parsed = items.read_config(config)
        return ClusterView(
            parsed,
            items.read_cluster(cluster, state),
            items.read_control(cluster, control),
            tuple(read_spares(self.table, cluster)) if parsed.spare_group else (),
            read_coverage(coverage),
        )

    def reports(self, view: ClusterView, now: datetime) -> Reports:
        """Return the last heartbeats of a cluster's nodes, and what the sweep found about their reports."""
        return Reports(recent_heartbeats(self.table, view.config.cluster, now), view.coverage)

    def nodes(self, cluster: str) -> tuple[NodeState, ...]:
        """Return all nodes of a cluster, including retired nodes, sorted by name."""
        config = self.cluster(cluster).config
        return tuple(sorted(self._states(cluster, node_names(self.table, config)), key=lambda state: state.key.node))

    def unhealthy(self, cluster: str) -> tuple[NodeState, ...]:
        """Return a cluster's nodes that are neither healthy nor retired, sorted by name."""
        rows = unhealthy_nodes(self.table, self.cluster(cluster).config)
        states = self._states(cluster, (row.node for row in rows))
        return tuple(sorted(states, key=lambda state: state.key.node))

    def page(self, cluster: str, after: str, limit: int) -> tuple[NodeState, ...]:
        """Return one page of a cluster's nodes, by name: at most `limit` nodes with names after `after`."""
        config = self.cluster(cluster).config
        names = sorted(name for name in node_names(self.table, config) if name > after)
        return self._states(cluster, names[:limit])

    def _states(self, cluster: str, names: Iterable[str]) -> tuple[NodeState, ...]:
        nodes = {keys.node_state(key): key for key in (NodeKey(cluster, name) for name in names)}
        found = self.table.get_many(nodes)
        return tuple(items.read_state(node, found.get(key)) for key, node in nodes.items())

    def node(self, key: NodeKey) -> NodeState:
        """Return a node; raises Rejected `unknown_cluster` or `unknown_node` if it is not registered."""
        state = items.read_state(key, self.table.get(keys.node_state(key)))
        if not state.registered:
            self.cluster(key.cluster)
        return registered(state)

    def cases(self, cluster: str, statuses: Sequence[CaseStatus] = ()) -> tuple[CaseView, ...]:
        """Return a cluster's cases with these statuses, by default all live cases, in the order of opening."""
        wanted = statuses or tuple(status for status in CaseStatus if status.live)
        config = self.cluster(cluster).config
        ids = [
            str(row["case_id"])
            for shard in range(config.shards)
            for first, last in status_ranges(wanted)
            for row in query_all(
                self.table, keys.cases_of(cluster, shard), after=f"{first}#", up_to=f"{last}$", index=CASES
            )
        ]
        return self._in_order(ids, wanted)

    def recent_cases(
        self, config: ClusterConfig, statuses: Sequence[CaseStatus], limit: int, opened_since: datetime | None = None
    ) -> tuple[CaseView, ...]:
        """Return the most recently opened cases with these statuses, in the order of opening."""
        rows = [
            row
            for shard in range(config.shards)
            for status in dict.fromkeys(statuses)
            for row in islice(self._newest_cases(config.cluster, shard, status, limit, opened_since), limit)
        ]
        newest = sorted(rows, key=lambda row: (str(row["opened"]), str(row["case_id"])))[-limit:]
        return self._in_order([str(row["case_id"]) for row in newest], statuses)

    def _newest_cases(
        self, cluster: str, shard: int, status: CaseStatus, limit: int, since: datetime | None
    ) -> Iterator[Item]:
        return query_all(
            self.table,
            keys.cases_of(cluster, shard),
            prefix=f"{status.value}#",
            after=f"{status.value}#{to_text(since)}" if since else None,
            index=CASES,
            page_size=limit,
            newest_first=True,
        )

    def pages(self, case_id: str) -> tuple[CasePageSent, ...]:
        """Return the pages (operator alerts) sent about a case in the last 30 days, sorted by kind."""
        rows = query_all(self.table, keys.case(case_id).pk, prefix=keys.PAGE)
        return tuple(
            CasePageSent(
                kind=str(row["sk"]).removeprefix(keys.PAGE),
                page_state="resolved" if row["page_state"] == "resolved" else "triggered",
                sent_at=from_text(str(row["sent_at"])),
            )
            for row in rows
            if row.get("sent_at")
        )

    def roster(self, config: ClusterConfig) -> tuple[RosterNode, ...]:
        """Return the group, failure domains and instance type of every node, also of retired nodes."""
        return tuple(roster(self.table, config))

    def cases_by_id(self, ids: Sequence[str]) -> tuple[CaseView, ...]:
        """Return the live cases with these ids, in the order of opening; other ids are ignored."""
        return self._in_order(ids, [status for status in CaseStatus if status.live])

    def case(self, case_id: str) -> CaseView:
        """Return a case; an unknown id raises Rejected `unknown_case`."""
        view = next(self._read([case_id]), None)
        if view is None:
            raise UnknownName("case", case_id)
        return view

    def incidents(self, cluster: str, *, closed: bool = False) -> tuple[IncidentView, ...]:
        """Return a cluster's incidents in the order of opening; closed incidents only if `closed` is True."""
        config = self.cluster(cluster).config
        rows = query_all(self.table, keys.cluster_partition(cluster), prefix=stored_incidents.INCIDENT)
        found = [stored_incidents.read_incident(row) for row in rows]
        return self._with_held(config, [one for one in found if closed or one.closed_at is None])

    def incident(self, incident_id: str, cluster: str | None = None) -> IncidentView:
        """Return an incident of one or any cluster; an unknown id raises Rejected `unknown_incident`."""
        clusters = [cluster] if cluster else self.cluster_names()
        for row in self.table.get_many(stored_incidents.incident_key(name, incident_id) for name in clusters).values():
            incident = stored_incidents.read_incident(row)
            return self._with_held(self.cluster(incident.cluster).config, [incident])[0]
        raise UnknownName("incident", incident_id, cluster)

    def _with_held(self, config: ClusterConfig, incidents: Sequence[Incident]) -> tuple[IncidentView, ...]:
        waiting = held_cases(self.table, config) if incidents else ()
        return tuple(
            IncidentView(one, {held.node: held.case for held in waiting if held.incident == one.id})
            for one in sorted(incidents, key=lambda incident: (incident.opened_at, incident.id))
        )

    def _in_order(self, ids: Sequence[str], statuses: Collection[CaseStatus]) -> tuple[CaseView, ...]:
        found = (view for view in self._read(ids) if view.case.status in statuses)
        return tuple(sorted(found, key=lambda view: (view.case.opened_at, view.case.id)))

    def _read(self, ids: Sequence[str]) -> Iterator[CaseView]:
        # The index is eventually consistent. The items are read consistently.
        for item in self.table.get_many(keys.case(one) for one in ids).values():
            yield CaseView(items.read_case(item), NodeKey(str(item["cluster"]), str(item["node"])))


def status_ranges(wanted: Collection[CaseStatus]) -> Iterator[tuple[str, str]]:
    """Yield the ends of each alphabetical range of wanted statuses, which one index query can read."""
    ordered = groupby(sorted(CaseStatus, key=lambda status: status.value), key=lambda status: status in wanted)
    for is_wanted, statuses in ordered:
        if is_wanted:
            names = [status.value for status in statuses]
            yield names[0], names[-1]
