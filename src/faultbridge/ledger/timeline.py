"""Timeline: what was recorded of a node, a cluster, a case, a device or a job, in the order in which it was recorded.

Pages follow the order of recording and a token is the place of the last entry read, so nothing is read twice. What
happened earlier than it was recorded comes late, and is marked so. What one page costs depends on its size and never
on how much was recorded before it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Rejected
from faultbridge.ledger.page_tokens import make_token, read_token
from faultbridge.ledger.queries import every
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, jobs, keys, projections
from faultbridge.storage.writes import CASES, DEVICES, TIMELINE, Index, Item, Key

LATE = timedelta(minutes=2)
SKEW = timedelta(minutes=5)
"""Writers' clocks may differ by this much, so that entries of one stream are recorded out of order by it."""

AFTER_ALL = "~"
MAX_READ = 2_000
"""A page of a filter that hardly anything passes ends after so many entries, short and with a token."""

MAX_BYTES = 4 * 1024 * 1024
MIN_CHUNK = 8
LINKS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: of a case, a device, a job, a node, or else of a cluster and all its nodes; the first one given.

    Whatever is given besides filters, and empty filters let all pass. `device` is a serial number or a UUID. `since` is
    inclusive, `until` exclusive; both are about the time of recording.
    """

    cluster: str | None = None
    node: str | None = None
    case: str | None = None
    device: str | None = None
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    types: Sequence[str] = ()
    severities: Sequence[str] = ()
    codes: Sequence[str] = ()

    def covers(self, item: Mapping[str, Any]) -> bool:
        """Tell whether an entry passes the filters."""
        recorded = str(item["recorded_at"])
        return (
            (self.since is None or recorded >= to_text(self.since))
            and (self.until is None or recorded < to_text(self.until))
            and (not self.types or item["type"] in self.types)
            and (not self.severities or item.get("severity") in self.severities)
            and (self.node is None or item.get("node") == self.node)
            and (self.cluster is None or item.get("cluster") == self.cluster)
            and (self.case is None or item.get("case_id") == self.case)
            and (not self.codes or data_of(item).get("code") in self.codes)
            and (self.device is None or projections.is_of_device(data_of(item), self.device))
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One entry as it was recorded: the exact body, its hash, and the place from which reading can go on."""

    body: str
    hash: str
    place: str

    @property
    def event(self) -> dict[str, Any]:
        """Return the body as the customer gets it, without evidence."""
        event: dict[str, Any] = json.loads(self.body)
        return event


@dataclass(frozen=True, slots=True)
class Timeline:
    """Reads entries, on the indexes that exist and without scanning."""

    table: Table

    def entries(self, wanted: Wanted, after: str | None = None) -> Iterator[Line]:
        """Read every entry that is wanted, oldest recorded first; `after` is the place of a line read before."""
        for item, place in self._walk(wanted, after, None):
            if wanted.covers(item):
                yield Line(str(item["body"]), str(item["hash"]), place)

    def page(self, wanted: Wanted, limit: int, token: str | None = None) -> tuple[tuple[Line, ...], str | None]:
        """Read one page and the token of the next; the same token gives the same page, whatever came since.

        A page may be short and have a token: the filters let little pass, or the entries are large.
        """
        lines: list[Line] = []
        read = size = 0
        place = read_token(token) if token else None
        for item, here in self._walk(wanted, place, limit + 1):
            if len(lines) == limit or read == MAX_READ or size >= MAX_BYTES:
                return tuple(lines), make_token(str(place))
            read, place = read + 1, here
            if wanted.covers(item):
                lines.append(Line(str(item["body"]), str(item["hash"]), here))
                size += len(lines[-1].body)
        return tuple(lines), None

    def stream(self, cluster: str, node: str | None, after: tuple[int, int], limit: int) -> tuple[Line, ...]:
        """Read one stream in its own order, after an epoch and sequence; `node` None is the cluster's own."""
        pk = keys.node_partition(NodeKey(cluster, node)) if node else keys.cluster_partition(cluster)
        found = every(self.table, pk, prefix=keys.ENTRY, after=keys.entry(pk, *after).sk, chunk=limit)
        return tuple(Line(str(one["body"]), str(one["hash"]), str(one["sk"])) for one in islice(found, limit))

    def _walk(self, wanted: Wanted, after: str | None, chunk: int | None) -> Iterator[tuple[Item, str]]:
        if wanted.case is not None:
            return self._index(CASES, keys.case(wanted.case).pk, wanted, after, chunk)
        if wanted.device is not None:
            return self._device(wanted.device, wanted, after, chunk)
        if wanted.cluster is None:
            raise Rejected("nothing_asked", "a timeline is one of a cluster, a case or a device")
        if wanted.job is not None:
            return self._job(wanted.cluster, wanted.job, after, chunk)
        if wanted.node is not None:
            return self._node(NodeKey(wanted.cluster, wanted.node), wanted, after, chunk)
        return self._cluster(wanted.cluster, wanted, after, chunk)

    def _cluster(
        self, cluster: str, wanted: Wanted, after: str | None, chunk: int | None
    ) -> Iterator[tuple[Item, str]]:
        shards = self._shards(cluster)
        # Nodes spread evenly over the shards, so each has its part of the page; one that has more is asked again.
        part = max(MIN_CHUNK, -(-chunk // shards)) if chunk else None
        walks = [self._index(TIMELINE, keys.timeline(cluster, shard), wanted, after, part) for shard in range(shards)]
        return heapq.merge(*walks, key=lambda found: found[1])

    def _device(self, device: str, wanted: Wanted, after: str | None, chunk: int | None) -> Iterator[tuple[Item, str]]:
        names = [device]
        known = self.table.get(keys.device_link(device))
        if known is not None:
            names.append(str(known["serial"]))
        walks = [self._index(DEVICES, keys.device(name), wanted, after, chunk) for name in names]
        return heapq.merge(*walks, key=lambda found: found[1])

    def _job(self, cluster: str, job: str, after: str | None, chunk: int | None) -> Iterator[tuple[Item, str]]:
        found = every(self.table, jobs.job_partition(cluster, job), after=after, up_to=jobs.LAST_LINK, chunk=chunk)
        while rows := list(islice(found, chunk or LINKS_AT_ONCE)):
            places = {Key(str(row["entry_pk"]), str(row["entry_sk"])): str(row["sk"]) for row in rows}
            entries = self.table.get_many(places)
            yield from ((entries[key], place) for key, place in places.items() if key in entries)

    def _shards(self, cluster: str) -> int:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        return items.read_config(found).shards

    def _index(
        self, index: Index, pk: str, wanted: Wanted, after: str | None, chunk: int | None
    ) -> Iterator[tuple[Item, str]]:
        since = to_text(wanted.since) if wanted.since else ""
        bound = max(after or "", since) or None
        up_to = to_text(wanted.until) + AFTER_ALL if wanted.until else None
        for item in every(self.table, pk, after=bound, up_to=up_to, index=index, chunk=chunk):
            if "body" in item:
                yield item, str(item[index.sk])

    def _node(self, key: NodeKey, wanted: Wanted, after: str | None, chunk: int | None) -> Iterator[tuple[Item, str]]:
        pk, head = keys.node_partition(key), self._head(key)
        bound = after or (self._first(pk, head, wanted.since - SKEW) if wanted.since else None)
        until = to_text(wanted.until + SKEW) if wanted.until else None
        for item in every(self.table, pk, prefix=keys.ENTRY, after=bound, chunk=chunk):
            if until is not None and str(item["recorded_at"]) >= until:
                return
            yield item, str(item["sk"])

    def _head(self, key: NodeKey) -> Head:
        state = items.read_state(key, self.table.get(keys.node_state(key)))
        if not state.registered:
            raise Rejected("unknown_node", f"{key.stream} is not registered")
        return state.head

    def _first(self, pk: str, head: Head, since: datetime) -> str | None:
        """Find by halves where a stream reaches an instant, so that old entries are not read to be thrown away."""
        low, high, wanted = 0, head.sequence, to_text(since)
        while low < high:
            middle = (low + high + 1) // 2
            found = self.table.get(keys.entry(pk, head.epoch, middle))
            if found is None or str(found["recorded_at"]) < wanted:
                low = middle
            else:
                high = middle - 1
        return keys.entry(pk, head.epoch, low).sk if low else None


def data_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an entry says, without its place."""
    data: Mapping[str, Any] = json.loads(str(item["body"]))["data"]
    return data


def is_late(event: Mapping[str, Any]) -> bool:
    """Tell whether an event was recorded more than two minutes after it happened."""
    metadata = event["metadata"]
    return from_text(metadata["recorded_at"]) - from_text(metadata["occurred_at"]) > LATE


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Sort a window by when things happened; entries of one instant stay in the order of recording."""
    return sorted(lines, key=lambda line: str(line.event["metadata"]["occurred_at"]))


OVERLAP = timedelta(seconds=30)
"""An index shows an entry later than the table has it, so the end of the window is read again each time."""


def follow(timeline: Timeline, wanted: Wanted, clock: Clock, wait: Callable[[], bool]) -> Iterator[Line]:
    """Yield what is there, then what comes; `wait` pauses between looks, and after its no one last look follows."""
    known: set[str] = set()
    going = True
    while True:
        looked_at = clock.now()
        window: set[str] = set()
        for line in timeline.entries(wanted):
            window.add(line.hash)
            if line.hash not in known:
                yield line
        known = window
        start = looked_at - OVERLAP
        wanted = replace(wanted, since=max(start, wanted.since) if wanted.since else start)
        if not going:
            return
        going = wait()
