"""A year of a large cluster in a table in memory: any number of nodes and entries behind the real pages.

Each node repeats the recorded history of a real replacement, with a case of its own each time. The last hours are those
of `all_views`: a node was replaced, its job was explained, and a rack has an incident. Every entry is sealed, and every
row is made by the function that stores it; only the order of writing differs from a real year.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from msgspec import convert

from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Draft, seal
from faultbridge.model.enums import Actor, EntryType, NodeStatus
from faultbridge.model.event_data import EVENTS
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import Head, NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.storage import incidents, items, jobs, keys
from faultbridge.model.storage.projections import index_rows, projection_writes
from faultbridge.model.storage.writes import Item, Put
from faultbridge.model.times import from_text
from faultbridge.model.values import replace
from faultbridge.record.timeline import Timeline
from faultbridge.repair.registry.job_views import JobViews
from faultbridge.repair.registry.roster import new_row
from faultbridge.repair.registry.views import Views
from faultbridge.serve.console.facts import Facts
from faultbridge.serve.console.pages import Pages
from faultbridge.serve.entrypoints.console import wire_console
from tests.console.all_views import NODES as KNOWN
from tests.console.all_views import EveryView
from tests.console.sites import Site
from tests.ledger.bulk import BulkTable
from tests.presentation.builders import JOB, approval
from tests.scenarios.world import CLUSTER

NODES, ENTRIES, SHARDS, GPUS = 12_500, 1_000_000, 8, 8
YEAR = timedelta(days=365)
CLUSTER_SHARE, UNHEALTHY_SHARE = 20, 200
"""One entry in 20 is one of the cluster's own stream; one node in 200 waits for an approval at the end."""

RACK = 32


class Year(Site):
    """Serves the pages of a year; `paths` holds the path of every view below the base."""

    def __init__(self, nodes: int = NODES, entries: int = ENTRIES) -> None:
        last_hours = EveryView()
        made = YearItems(last_hours, nodes, entries)
        self.table: Any = BulkTable(made)
        clock, policy = last_hours.scenario.clock, last_hours.scenario.policy

        def current_policy(_: ClusterConfig) -> Policy:
            self.table.get(keys.CURRENT_POLICY)  # as a warm function: it reads which version is current
            return policy

        self.pages = Pages(Facts(Views(self.table), Timeline(self.table), clock, current_policy))
        console: Any = SimpleNamespace(app=SimpleNamespace(services={wire_console: self.pages}))
        super().__init__(console)
        self.paths, self.entries = last_hours.paths, made.written


@dataclass
class YearItems:
    """Every item of the year; `written` counts the entries."""

    last_hours: EveryView
    nodes: int
    entries: int
    written: int = 0
    _views: Views = field(init=False)

    def __post_init__(self) -> None:
        world = self.last_hours.scenario
        self._views = Views(world.table)
        self.config = replace(self._views.cluster(CLUSTER).config, shards=SHARDS, expected=self.nodes)
        self.now, self.stack = world.clock.now(), world.append.stack
        self.repair = [one for one in world.bodies(2) if one["metadata"]["case_id"]]
        self.repaired, self.waiting = world.case(2), approval().node()
        share = (self.entries - self.entries // CLUSTER_SHARE) / self.nodes
        self.cycles = max(int(share / len(self.repair)), 1)

    def __iter__(self) -> Iterator[Item]:
        states = []
        for number in range(1, self.nodes + 1):
            states.append((yield from self._node(number)))  # noqa: PERF401 - a comprehension cannot yield
        yield from self._cluster(states)
        yield items.config_item(self.config, self.now)
        yield items.item(keys.cluster_listed(CLUSTER), self.now, {"cluster": CLUSTER})
        job = JobViews(self._views.table).job(CLUSTER, JOB)
        yield from (write.item for write in jobs.job_writes(job, None, self.now) if isinstance(write, Put))
        yield from (incidents.incident_item(one.incident, self.now) for one in self._views.incidents(CLUSTER))

    def _node(self, number: int) -> Iterator[Item]:
        key, head, shard = NodeKey(CLUSTER, f"node-{number}"), Head(), self._shard(number)
        for cycle in range(self.cycles):
            case = self._case(key, cycle)
            yield items.case_item(case, key, shard, self.now)
            shift = case.opened_at - self.repaired.opened_at
            head = yield from self._append((key, shard), head, self.repair, shift, case.id)
        state = self._state(key, number)
        if number <= KNOWN:
            head = yield from self._append((key, shard), head, self.last_hours.scenario.bodies(number), timedelta())
        if state.case is not None:
            yield items.case_item(state.case, key, shard, self.now)
        state = replace(state, shard=shard, head=replace(head, version=1))
        yield items.state_item(state, self.now)
        yield new_row(state, self.now, described=True).item
        rows = (one.item for one in projection_writes(NodeState(key), state, self.now) if isinstance(one, Put))
        yield from (row for row in rows if row["sk"] != "CASE")
        return state

    def _case(self, key: NodeKey, cycle: int) -> Case:
        """Return the case of a repair some time in the year."""
        digest = hashlib.sha256(f"{key.node} {cycle}".encode()).digest()
        into = YEAR * ((cycle + digest[0] / 256) / self.cycles) * 0.99
        shift = self.now - YEAR + into - self.repaired.opened_at
        return replace(
            self.repaired,
            id=f"c-{base64.b32encode(digest).decode().lower()[:26]}",
            opened_at=self.repaired.opened_at + shift,
            closed_at=(self.repaired.closed_at or self.now) + shift,
            marks={name: at + shift for name, at in self.repaired.marks.items()},
            gpus=GPUS,
        )

    def _state(self, key: NodeKey, number: int) -> NodeState:
        if number <= KNOWN:
            return self.last_hours.scenario.node(number)
        like = self.waiting if number % UNHEALTHY_SHARE == 0 else self.last_hours.scenario.node(1)
        case = replace(like.case, id=self._case(key, self.cycles).id, gpus=GPUS) if like.case else None
        placement = replace(like.placement, domain=f"rack-{number // RACK + 10}")
        return replace(like, key=key, case=case, placement=placement)

    def _shard(self, number: int) -> int:
        return (number - 1) * SHARDS // self.nodes

    def _append(
        self,
        place: tuple[NodeKey, int],
        head: Head,
        bodies: Sequence[dict[str, Any]],
        shift: timedelta,
        case: str | None = None,
    ) -> Iterator[Item]:
        (key, shard), partition = place, keys.node_partition(place[0])
        for body in bodies:
            head = yield from self._seal(self.stack.stream(*key), head, body, (partition, shard), shift, case)
        return head

    def _seal(
        self, stream: Any, head: Head, body: dict[str, Any], place: tuple[str, int], shift: timedelta, case: str | None
    ) -> Iterator[Item]:
        metadata = body["metadata"]
        severity = Severity(metadata["severity"]) if metadata["severity"] else None
        occurred, recorded = (from_text(metadata[name]) + shift for name in ("occurred_at", "recorded_at"))
        kind = EntryType(metadata["event_type"])
        data = convert(body["data"], EVENTS[kind][0])
        draft = Draft(kind, occurred, data, case_id=case or metadata["case_id"])
        sealed, head = seal(stream, head, (draft,), actor=Actor.INGEST, severity=severity, recorded_at=recorded)
        yield items.entry_item(sealed[0], *place)
        yield from (write.item for write in index_rows((draft,), sealed, place[0], recorded))
        self.written += 1
        return head

    def _cluster(self, states: Sequence[NodeState]) -> Iterator[Item]:
        """Yield the cluster's own stream: changes of its status all year, and the last hours."""
        last = self.last_hours.scenario.bodies(None)
        changes = [one for one in last if one["metadata"]["event_type"] == "Cluster Status Change"][:2]
        stream, place = self.stack.stream(CLUSTER, None), (keys.cluster_partition(CLUSTER), 0)
        head, wanted = Head(), max(self.entries - self.written - len(last), 0)
        start = self.now - YEAR
        for number in range(wanted):
            body = changes[number % 2]
            shift = start + YEAR * 0.99 * (number / wanted) - from_text(body["metadata"]["recorded_at"])
            head = yield from self._seal(stream, head, body, place, shift, None)
        for body in last:
            head = yield from self._seal(stream, head, body, place, timedelta(), None)
        state = self._views.cluster(CLUSTER).state
        counts = {str(status): sum(one.status is status for one in states) for status in NodeStatus}
        counts = {name: number for name, number in counts.items() if number}
        yield items.cluster_item(replace(state, head=replace(head, version=1), counts=counts), self.now)
