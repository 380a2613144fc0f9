"""Facts: reads the documents of one web page, with a limited number of reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from faultbridge.decide.entry_builder import component_data, gpu_time_lost, total_gpu_time
from faultbridge.decode.data import gpus_by_instance_type, load_catalog
from faultbridge.model.cluster.config import ClusterConfig, failure_domains
from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Misconfigured, UnknownName
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import read_samples
from faultbridge.model.storage.incidents import incident_key, read_incident
from faultbridge.model.storage.items import read_state
from faultbridge.model.storage.node_rows import RosterNode, UnhealthyNode
from faultbridge.model.times import EPOCH
from faultbridge.model.values import replace
from faultbridge.record.cluster_reads import ClusterReads
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.record.ports.table import Clock
from faultbridge.record.queries import query_all, registered, unhealthy_nodes
from faultbridge.record.timeline import Line, Timeline, TimelineQuery
from faultbridge.repair.registry.documents import (
    Cluster,
    Incident,
    ShownNode,
    case_document,
    cluster_document,
    entry_document,
    incident_document,
    node_document,
    shown_case_document,
    shown_node_document,
)
from faultbridge.repair.registry.job_views import Job, JobViews, job_document
from faultbridge.repair.registry.views import CaseView, ClusterView, IncidentView, Reports, Views
from faultbridge.serve.presentation.case_answers import CaseFacts
from faultbridge.serve.presentation.cluster_page import ClusterFacts
from faultbridge.serve.presentation.entry_rows import ReadEntry, read_entry
from faultbridge.serve.presentation.fleet_page import FleetFacts
from faultbridge.serve.presentation.grid import Counters, GridNode, natural_order

T = TypeVar("T")
D = TypeVar("D")
Read = tuple[ReadEntry[Any], ...]


class _Value(Struct, frozen=True):
    at: datetime
    version: object
    value: Any


class Kept(Struct):
    """A cache of one value for each cluster and kind of data, which is used until it reaches an age."""

    clock: Clock
    _values: dict[tuple[str, str], _Value] = msgspec.field(default_factory=dict)

    def read(
        self, name: str, config: ClusterConfig, age: timedelta, read: Callable[[ClusterConfig], T], version: object = ""
    ) -> T:
        """Return the cached value if it is at most `age` old and of an equal `version`, or read and cache it."""
        now, key = self.clock.now(), (name, config.cluster)
        kept = self._values.get(key)
        if kept is None or kept.version != version or now - kept.at > age:
            kept = self._values[key] = _Value(now, version, read(config))
        value: T = kept.value
        return value

    def forget(self, *names: str) -> None:
        """Remove the cached values with these names; without names, remove all values."""
        self._values = {key: value for key, value in self._values.items() if names and key[0] not in names}


class StreamDocuments(Struct, Generic[D], frozen=True):
    """The documents of a node, job or incident page; the last three fields are those of a node."""

    document: D
    entries: Read
    older: bool
    jobs: tuple[Job, ...] = ()
    followed: int = 0
    case: CaseFacts | None = None


def gpus() -> dict[str, int]:
    """Return the number of GPUs of each instance type."""
    return dict(gpus_by_instance_type())


def meaning(code: str) -> str:
    """Return the name of a fault code in the catalog; "" for an unknown code."""
    row = load_catalog().rows.get(code)
    return row.name if row else ""


MAX_ENTRIES = 100
MAX_CLUSTER_ENTRIES = 40
MAX_CASES = 20
MAX_JOBS = 25
MAX_COUNTED_CASES = 500
MAX_STATES, MAX_GRID = 60, 16
GPU_SOURCES = ("dcgm-metrics", "dcgm-nvlink", "nvidia-smi-text")
"""The sources of the counters of GPUs."""

WEEK = timedelta(days=7)
CLOSED_AGE = timedelta(minutes=5)
QUARTER_HOUR = timedelta(minutes=15)
"""Maximum age of cached node placements, GPU time lost in a week, and newest entries of an unchanged stream."""

CLOSED = tuple(status for status in CaseStatus if not status.live)
LIVE = tuple(status for status in CaseStatus if status.live)
Window = tuple[datetime | None, datetime | None]


@dataclass(slots=True)
class Facts:
    """Reads clusters, nodes, cases, incidents, jobs and entries for pages. It writes nothing."""

    views: Views
    timeline: Timeline
    clock: Clock
    policy: Callable[[ClusterConfig], Policy]
    kept: Kept = field(init=False)

    def __post_init__(self) -> None:
        self.kept = Kept(self.clock)

    def fleet(self, clusters: Iterable[str] | None) -> tuple[FleetFacts, ...]:
        """Read the clusters with these names, and their nodes; None means all clusters."""
        wanted = None if clusters is None else set(clusters)
        found = [view for view in self.views.clusters() if wanted is None or view.config.cluster in wanted]
        facts = []
        for view in found:
            rows = unhealthy_nodes(self.views.table, view.config)
            lost = self.kept.read("lost", view.config, QUARTER_HOUR, self._lost_in_a_week)
            live = sum(1 for row in rows if row.case)
            reports, states = self.views.reports(view, self.clock.now()), self._states(view, rows)
            grid, shown = self._grid(view, rows), self._documents(view, states, reports)
            pages, incidents = self._open_pages(view), self._open_incidents(view)
            newest = max(reports.heartbeats.values(), default=None)
            facts.append(FleetFacts(cluster_document(view), grid, live, lost, shown, pages, incidents, newest))
        return tuple(facts)

    def _open_incidents(self, view: ClusterView) -> tuple[Incident, ...]:
        """Return the open incidents of a cluster, without the cases that wait for them."""
        wanted = [incident_key(view.config.cluster, one) for one in view.state.incidents]
        found = self.views.table.get_many(wanted).values() if wanted else ()
        return tuple(incident_document(IncidentView(read_incident(row), {})) for row in found)

    def _states(self, view: ClusterView, rows: Iterable[UnhealthyNode]) -> tuple[NodeState, ...]:
        """Return the states of the nodes that are not healthy, with cases first, at most `MAX_STATES`."""
        ordered = sorted(rows, key=lambda row: (row.case is None, natural_order(row.node)))[:MAX_STATES]
        wanted = {keys.node_state(key): key for key in (NodeKey(view.config.cluster, row.node) for row in ordered)}
        found = self.views.table.get_many(wanted)
        return tuple(registered(read_state(node, found.get(key))) for key, node in wanted.items() if key in found)

    def _documents(self, view: ClusterView, states: Iterable[NodeState], reports: Reports) -> tuple[ShownNode, ...]:
        now = self.clock.now()
        return tuple(shown_node_document(one, view, now, reports) for one in states)

    def _open_pages(self, view: ClusterView) -> int:
        """Return how many pages of a cluster are open."""
        partitions = (keys.pages(view.config.cluster, urgency) for urgency in PageUrgency)
        rows = (query_all(self.views.table, one, after=keys.LIVE_PAGE) for one in partitions)
        return sum(1 for one in rows for _ in one)

    def _counters(self, states: Iterable[NodeState]) -> dict[str, tuple[Counters, ...]]:
        """Return the last counters of the GPUs of nodes, as far as they are those of the present instance."""
        wanted = {keys.counter_samples(one.key, source): one for one in states for source in GPU_SOURCES}
        counters: dict[str, tuple[Counters, ...]] = {one.key.node: () for one in wanted.values()}
        for key, row in self.views.table.get_many(wanted).items():
            state, samples = wanted[key], read_samples(row)
            of = state.incarnation
            if of and (of.instance, of.boot) == (samples.instance, samples.boot):
                read = (Counters(component_data(one.component), one.values) for one in samples.ports.values())
                counters[state.key.node] += tuple(read)
        return counters

    def _lost_in_a_week(self, config: ClusterConfig) -> int | None:
        """Return the GPU-milliseconds lost in the last week by its closed cases and all live cases, 500 of each."""
        now = self.clock.now()
        closed = self.views.recent_cases(config, CLOSED, MAX_COUNTED_CASES, now - WEEK)
        live = self.views.recent_cases(config, LIVE, MAX_COUNTED_CASES)
        return total_gpu_time(
            gpu_time_lost(one.case, one.case.closed_at or now, now - WEEK) for one in (*closed, *live)
        )

    def cluster(self, cluster: str, window: Window) -> ClusterFacts:
        """Read a cluster for its page: 20 live and 20 closed cases, incidents, 25 jobs and 40 entries."""
        now = self.clock.now()
        with self._once(cluster) as views:
            view = views.cluster(cluster)
            rows = unhealthy_nodes(views.table, view.config)
            opened = sorted((row for row in rows if row.case), key=lambda row: row.opened or EPOCH, reverse=True)
            live = views.cases_by_id([str(row.case) for row in opened[:MAX_CASES]])
            incidents = views.incidents(cluster)
            jobs = JobViews(views.table).first(cluster, MAX_JOBS)
            states, reports = self._states(view, rows), views.reports(view, now)
        known = frozenset(str(row.case) for row in opened)
        closed = self.kept.read("closed", view.config, CLOSED_AGE, self._closed_last, known)
        entries, older = self._entries(view, window)
        return ClusterFacts(
            cluster_document(view),
            now,
            [case_document(one, now) for one in live],
            [case_document(one, now) for one in closed],
            [incident_document(one) for one in incidents],
            self._grid(view, rows),
            entries,
            older,
            jobs.documents(now),
            live=len(opened),
            followed=jobs.total,
            policy=self._limits(view.config),
            shown=self._documents(view, states, reports),
            counters=self.kept.read(
                "counters",
                view.config,
                CLOSED_AGE,
                lambda _: self._counters(states[:MAX_GRID]),
                [(one.key, one.incarnation) for one in states[:MAX_GRID]],
            ),
            gpus=gpus(),
        )

    def _limits(self, config: ClusterConfig) -> Policy | None:
        """Return the policy of a cluster; None if it cannot be read, so that the rest of the page is shown."""
        try:
            return self.policy(config)
        except Misconfigured:
            return None

    def _entries(self, view: ClusterView, window: Window) -> tuple[Read, bool]:
        def read(config: ClusterConfig) -> tuple[Read, bool]:
            lines, older = self.timeline.window(config.cluster, None, view.state.head, window, MAX_CLUSTER_ENTRIES)
            return _documents(lines), older

        if window != (None, None):
            return read(view.config)
        return self.kept.read("entries", view.config, QUARTER_HOUR, read, view.state.head)

    def _closed_last(self, config: ClusterConfig) -> tuple[CaseView, ...]:
        return self.views.recent_cases(config, CLOSED, MAX_CASES)[::-1]

    def node(self, cluster: str, node: str, window: Window) -> StreamDocuments[ShownNode]:
        """Read a node, its followed jobs, its last case, and the newest entries of its stream in `window`."""
        view, state = self.views.cluster(cluster), self.views.node(NodeKey(cluster, node))
        lines, older = self.timeline.window(cluster, node, state.head, window, MAX_ENTRIES)
        jobs = JobViews(self.views.table).first(cluster, MAX_JOBS, node)
        entries, now = _documents(lines), self.clock.now()
        case = self._of_case(CaseView(state.case, state.key), view, state, entries) if state.case else None
        document = shown_node_document(state, view, now, self.views.reports(view, now))
        return StreamDocuments(document, entries, older, jobs.documents(now), jobs.total, case)

    def job(self, cluster: str, job_id: str) -> StreamDocuments[Job]:
        """Read a job and the newest timeline entries about it."""
        self.views.cluster(cluster)
        job = JobViews(self.views.table).job(cluster, job_id)
        lines, older = self.timeline.of_job(cluster, job_id, MAX_ENTRIES)
        return StreamDocuments(job_document(job, self.clock.now()), _documents(lines), older)

    def case(self, cluster: str, case_id: str) -> CaseFacts:
        """Read a case of a cluster, its node, its newest entries, and the notifications to operators about it."""
        view = self.views.case(case_id)
        if view.key.cluster != cluster:
            raise UnknownName("case", case_id)
        lines, older = self.timeline.newest(TimelineQuery(case=case_id), MAX_ENTRIES)
        facts = self._of_case(view, self.views.cluster(cluster), self.views.node(view.key), _documents(lines))
        return replace(facts, pages=self.views.pages(case_id), older=older)

    def _of_case(self, view: CaseView, cluster: ClusterView, state: NodeState, entries: Read) -> CaseFacts:
        case = view.case
        return CaseFacts(
            shown_case_document(view, state, cluster, self.clock.now()),
            node_document(state),
            cluster_document(cluster),
            [one for one in entries if one.metadata.case_id == case.id],
            meaning(case.code),
            self._failing(cluster, state.key.node) if case.waiting_for is WaitingFor.BREAKER else (),
        )

    def _failing(self, cluster: ClusterView, node: str) -> tuple[str, ...]:
        rows = unhealthy_nodes(self.views.table, cluster.config)
        return tuple(sorted(row.node for row in rows if row.case and row.node != node))

    def report(self, cluster: str, window: Window, limit: int) -> tuple[ClusterFacts, tuple[CaseFacts, ...]]:
        """Read a cluster, its newest `limit` entries in a time window, and at most 20 cases of these entries."""
        query = TimelineQuery(cluster, since=window[0], until=window[1])
        lines, older = self.timeline.newest(query, limit)
        entries = _documents(lines)
        ids = [one.metadata.case_id for one in reversed(entries) if one.metadata.case_id]
        cases = tuple(self.case(cluster, one) for one in list(dict.fromkeys(ids))[:MAX_CASES])
        return replace(self.cluster(cluster, window), entries=entries, older=older), cases

    def incident(
        self, cluster: str, incident_id: str
    ) -> tuple[StreamDocuments[Incident], Cluster, tuple[GridNode, ...]]:
        """Read an incident, the nodes of its domain, and its entries among the newest 100 of the cluster."""
        with self._once(cluster) as views:
            view, of = views.incident(incident_id, cluster), views.cluster(cluster)
            rows = unhealthy_nodes(views.table, of.config)
        incident, config = view.incident, of.config
        until = incident.closed_at + timedelta(minutes=1) if incident.closed_at else None
        lines, older = self.timeline.window(cluster, None, of.state.head, (incident.opened_at, until), MAX_ENTRIES)
        entries = tuple(one for one in _documents(lines) if getattr(one.data, "incident_id", None) == incident_id)
        members = {
            one.node
            for one in self._roster(config)
            if incident.domain in failure_domains(cluster, one.node, one.domain, one.domains, config.domains)
        }
        nodes = tuple(one for one in self._grid(of, rows) if one.node in members)
        return StreamDocuments(incident_document(view), entries, older), cluster_document(of), nodes

    def _grid(self, view: ClusterView, rows: Iterable[UnhealthyNode]) -> tuple[GridNode, ...]:
        """Return the nodes of a cluster, up to 15 minutes old; one without a row is `healthy`, or has no data."""
        status = dict.fromkeys(view.coverage.no_data if view.coverage else (), "no_data")
        status |= {row.node: row.status.value for row in rows}
        return tuple(
            GridNode(
                node=one.node,
                status=status.get(one.node, NodeStatus.HEALTHY.value),
                group=one.group,
                domain=one.domain,
                instance_type=one.type,
            )
            for one in self._roster(view.config)
        )

    @contextmanager
    def _once(self, cluster: str) -> Iterator[Views]:
        """Yield `Views` that read a cluster once and reuse the result for at most five seconds."""
        reads = ClusterReads(self.views.table, self.clock)
        with reads.once(cluster, policy=False):
            yield Views(reads)

    def _roster(self, config: ClusterConfig) -> tuple[RosterNode, ...]:
        return self.kept.read("roster", config, QUARTER_HOUR, self._nodes)

    def _nodes(self, config: ClusterConfig) -> tuple[RosterNode, ...]:
        return tuple(one for one in self.views.roster(config) if not one.retired)


def _documents(lines: Iterable[Line]) -> Read:
    return tuple(read_entry(entry_document(line)) for line in lines)
