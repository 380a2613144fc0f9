"""Timeline: the entries of a cluster, node, case, device or job, in the order of recording."""

from __future__ import annotations

import base64
import hashlib
import heapq
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any

from msgspec import Struct

from faultbridge.model.cluster.jobs import RESUME_WITHIN, Job
from faultbridge.model.entries import EntryMetadata, component_of
from faultbridge.model.errors import Rejected
from faultbridge.model.event_data import EventData
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.recorded import RecordedEvent, read_data, read_event
from faultbridge.model.storage import jobs, keys
from faultbridge.model.storage.writes import CASES, DEVICES, TIMELINE, Index, Item, Key
from faultbridge.model.times import from_text, to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import (
    SKEW,
    Found,
    ReadOrder,
    cluster_config,
    end_before,
    find_job,
    last_before,
    newest_in_window,
    node_head,
    query_all,
)

LINKS_PER_BATCH = 100
BEFORE_START = timedelta(minutes=5)
"""Entries of a node that were recorded up to this long before the start of a job are part of its timeline."""


def job_entries(table: Table, cluster: str, job_id: str, order: ReadOrder) -> Found:
    """Return the entries of a job and of the nodes whose faults affected it, with their positions.

    The entries of an affected node are included from five minutes before the start of the job's latest run. While the
    job runs, all later entries of the node are included. After the job ended, they are included until five minutes
    after `Job.resumable_at`, the time at which the job was reported as resumable. Without such a report, they are
    included until a week and five minutes after the end of the job.
    """
    own = own_entries(table, cluster, job_id, order)
    job = find_job(table, cluster, job_id)
    affected = [_of_node(table, job, node, order) for node in sorted(job.affected)] if job else []
    return heapq.merge(own, *affected, key=itemgetter(1), reverse=order.newest_first)


def own_entries(table: Table, cluster: str, job_id: str, order: ReadOrder) -> Found:
    """Return the entries that are about a job itself, each with its position."""
    partition = jobs.job_partition(cluster, job_id)
    size, newest_first, end = order.page_size, order.newest_first, jobs.LAST_LINK
    links = query_all(table, partition, after=order.after, up_to=end, page_size=size, newest_first=newest_first)
    while batch := list(islice(links, order.page_size or LINKS_PER_BATCH)):
        positions = {Key(str(row["entry_pk"]), str(row["entry_sk"])): str(row["sk"]) for row in batch}
        entries = table.get_many(positions)
        yield from ((entries[key], position) for key, position in positions.items() if key in entries)


def _of_node(table: Table, job: Job, node: str, order: ReadOrder) -> Found:
    key = NodeKey(job.cluster, node)
    partition, since = keys.node_partition(key), job.started_at - BEFORE_START
    if order.after is not None:
        since = max(since, from_text(order.after.split("#", 1)[0]))
    until = job.resumable_at or (job.ended_at + RESUME_WITHIN if job.ended_at else None)
    first, last = to_text(since), to_text(until + SKEW) if until else "~"
    head = node_head(table, key)
    bound = last_before(table, partition, head, since - SKEW)
    up_to = end_before(table, partition, head, until + 2 * SKEW) if until else None
    if until and up_to is None:
        return iter(())
    rows = query_all(table, partition, after=bound, up_to=up_to, prefix=keys.ENTRY)
    placed = ((row, str(row[TIMELINE.sk])) for row in rows if first <= str(row["recorded_at"]) <= last)
    after = order.after or ""
    return iter(sorted((one for one in placed if one[1] > after), key=itemgetter(1), reverse=order.newest_first))


TAG_BYTES = 16
MAX_CHARACTERS = 1024


def make_token(position: str) -> str:
    """Return a position in a timeline as an unsigned token."""
    return _encode(position.encode())


def read_token(token: str) -> str:
    """Return the position in an unsigned token; text that cannot be decoded raises Rejected `bad_token`."""
    try:
        return _decode(token).decode()
    except ValueError:
        raise Rejected("bad_token", "the text is not a page token; pass the `next` value of a page") from None


class Tokens(Struct, frozen=True):
    """Signs page tokens and checks their signatures with the key that `secret` returns."""

    secret: Callable[[], bytes]

    def sign(self, scope: str, position: str) -> str:
        """Return a signed token for a position; `read` accepts it only with the same `scope`."""
        body = position.encode()
        return _encode(self._tag(scope, body) + body)

    def read(self, scope: str, token: str) -> str:
        """Return the position in a token; an invalid or too long token, or another scope, raises `bad_token`."""
        try:
            raw = _decode(token)
        except ValueError:
            raw = b""
        tag, body = raw[:TAG_BYTES], raw[TAG_BYTES:]
        if len(token) > MAX_CHARACTERS or not hmac.compare_digest(tag, self._tag(scope, body)):
            raise Rejected("bad_token", "the token does not belong to this request; pass the `next` value of its page")
        return body.decode()

    def _tag(self, scope: str, body: bytes) -> bytes:
        text = len(scope.encode()).to_bytes(4, "big") + scope.encode() + body
        return hmac.new(self.secret(), text, hashlib.sha256).digest()[:TAG_BYTES]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(token: str) -> bytes:
    return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)


_NOTHING_ASKED = "the query selects no timeline; give a cluster, or a case or a device without a job"
LATE = timedelta(minutes=2)
AFTER_ALL = "~"
MAX_READ = 2_000
"""Entries read for one page. If few of them match the filters, the page is short and has a token."""

MAX_BYTES = 4 * 1024 * 1024
MIN_PAGE_SIZE = 8


class TimelineQuery(Struct, frozen=True):
    """Selects the timeline of a case, device, job, node or whole cluster, and filters its entries.

    - The first of `job`, `case`, `device`, `node` and `cluster` that is set, in this order, selects the timeline. A job
      or a node requires its `cluster` too.
    - `clusters` selects the timeline of several clusters, if none of these fields is set.
    - Every other field that is set filters the entries. An empty field filters nothing.
    - `device` is a serial number or a UUID.
    - `since` is inclusive, `until` is exclusive. Both are compared with the recording time.
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
    clusters: Sequence[str] = ()

    def covers(self, item: Item) -> bool:
        """Return whether an entry item matches every filter."""
        recorded = str(item["recorded_at"])
        return (
            (self.since is None or recorded >= to_text(self.since))
            and (self.until is None or recorded < to_text(self.until))
            and (not self.types or item["type"] in self.types)
            and (not self.severities or item.get("severity") in self.severities)
            and (self.node is None or item.get("node") == self.node)
            and (self.cluster is None or item.get("cluster") == self.cluster)
            and (self.case is None or item.get("case_id") == self.case)
            and (not self.codes or self._names_code(entry_data(item)))
            and (self.device is None or self._is_of_device(item, self.device))
        )

    def _is_of_device(self, item: Item, device: str) -> bool:
        """Return whether an entry is indexed under a device and about this serial number or UUID.

        In the timeline of a job or case, an entry that names no UUID is about the device under which it is indexed. The
        index of a device selected its other entries.
        """
        component = component_of(entry_data(item))
        uuid = component.uuid if component else None
        if uuid is None and (self.job or self.case):
            return item.get("device") == device
        # Two GPUs can share the serial number under which the index lists an entry.
        is_same = uuid is None or component is None or device in {uuid, component.serial}
        return item.get("device") is not None and is_same

    def _names_code(self, data: EventData | None) -> bool:
        names = {getattr(data, "code", None), getattr(data, "failure_mode", None), *getattr(data, "codes", ())}
        return not names.isdisjoint(self.codes)


class Line(Struct, frozen=True):
    """One recorded timeline entry: its exact body, its hash, and its position in the timeline."""

    body: str
    hash: str
    position: str

    @property
    def event(self) -> RecordedEvent[EventData | None]:
        """Return the event of the entry, without its evidence."""
        return read_event(json.loads(self.body))


class Timeline(Struct, frozen=True):
    """Reads timelines with queries of the table and its indexes, without a scan."""

    table: Table

    def entries(self, query: TimelineQuery, after: str | None = None) -> Iterator[Line]:
        """Yield the matching entries after a position, in the order of recording."""
        for item, position in self._find(query, ReadOrder(after)):
            if query.covers(item):
                yield Line(str(item["body"]), str(item["hash"]), position)

    def page(self, query: TimelineQuery, limit: int, token: str | None = None) -> tuple[tuple[Line, ...], str | None]:
        """Read one page of entries and the token of the next page, which is None on the last page.

        A token continues after the last entry that was read, even if entries were added since. If few entries match
        the filters or the entries are large, a page with a token can have fewer entries than `limit`. An invalid token
        raises Rejected `bad_token`.
        """
        lines: list[Line] = []
        read = size = 0
        last = read_token(token) if token else None
        for item, position in self._find(query, ReadOrder(last, limit + 1)):
            if len(lines) == limit or read == MAX_READ or size >= MAX_BYTES:
                return tuple(lines), make_token(str(last))
            read, last = read + 1, position
            if query.covers(item):
                lines.append(Line(str(item["body"]), str(item["hash"]), position))
                size += len(lines[-1].body)
        return tuple(lines), None

    def newest(self, query: TimelineQuery, limit: int) -> tuple[tuple[Line, ...], bool]:
        """Return the last `limit` matching entries, oldest first, and whether earlier entries match too."""
        found = self._find(query, ReadOrder(page_size=limit + 1, newest_first=True))
        matching = (
            Line(str(item["body"]), str(item["hash"]), position) for item, position in found if query.covers(item)
        )
        lines = tuple(islice(matching, limit + 1))
        return lines[:limit][::-1], len(lines) > limit

    def stream(self, cluster: str, node: str | None, after: tuple[int, int], limit: int) -> tuple[Line, ...]:
        """Return up to `limit` entries of a node's or, for None, the cluster's own stream after a position."""
        pk = keys.node_partition(NodeKey(cluster, node)) if node else keys.cluster_partition(cluster)
        found = query_all(self.table, pk, prefix=keys.ENTRY, after=keys.entry(pk, *after).sk, page_size=limit)
        return tuple(Line(str(item["body"]), str(item["hash"]), str(item["sk"])) for item in islice(found, limit))

    def of_job(self, cluster: str, job_id: str, limit: int) -> tuple[tuple[Line, ...], bool]:
        """Return the last `limit` entries about a job itself, oldest first, and whether earlier ones exist."""
        found = own_entries(self.table, cluster, job_id, ReadOrder(page_size=limit + 1, newest_first=True))
        newest = [Line(str(item["body"]), str(item["hash"]), at) for item, at in islice(found, limit + 1)]
        return tuple(newest[:limit][::-1]), len(newest) > limit

    def window(
        self, cluster: str, node: str | None, head: Head, span: tuple[datetime | None, datetime | None], limit: int
    ) -> tuple[tuple[Line, ...], bool]:
        """Return the last `limit` entries of a stream in a time window, and whether the window has more."""
        pk = keys.node_partition(NodeKey(cluster, node)) if node else keys.cluster_partition(cluster)
        found, older = newest_in_window(self.table, pk, head, span, limit)
        return tuple(Line(str(item["body"]), str(item["hash"]), str(item["sk"])) for item in found), older

    def _find(self, query: TimelineQuery, order: ReadOrder) -> Found:
        if query.job is None and query.case is not None:
            return self._by_index(CASES, keys.case(query.case).pk, query, order)
        if query.job is None and query.device is not None:
            return self._by_device(query.device, query, order)
        if query.cluster is None:
            if not query.clusters or query.job is not None or query.node is not None:
                raise Rejected("nothing_asked", _NOTHING_ASKED)
            found = [self._by_cluster(one, query, order) for one in query.clusters]
            return heapq.merge(*found, key=itemgetter(1), reverse=order.newest_first)
        if query.job is not None:
            return job_entries(self.table, query.cluster, query.job, order)
        if query.node is not None:
            return self._by_node(NodeKey(query.cluster, query.node), query, order)
        return self._by_cluster(query.cluster, query, order)

    def _by_cluster(self, cluster: str, query: TimelineQuery, order: ReadOrder) -> Found:
        shards = cluster_config(self.table, cluster).shards
        # Nodes are spread evenly over the shards, so each shard is read in parts of the page.
        part = max(MIN_PAGE_SIZE, -(-order.page_size // shards)) if order.page_size else None
        each = replace(order, page_size=part)
        found = [self._by_index(TIMELINE, keys.timeline(cluster, shard), query, each) for shard in range(shards)]
        return heapq.merge(*found, key=lambda one: one[1], reverse=order.newest_first)

    def _by_device(self, device: str, query: TimelineQuery, order: ReadOrder) -> Found:
        names = [device]
        link = self.table.get(keys.device_link(device))
        if link is not None:
            names.append(str(link["serial"]))
        found = [self._by_index(DEVICES, keys.device(name), query, order) for name in names]
        return heapq.merge(*found, key=lambda one: one[1], reverse=order.newest_first)

    def _by_index(self, index: Index, pk: str, query: TimelineQuery, order: ReadOrder) -> Found:
        since = to_text(query.since) if query.since else ""
        bound = max(order.after or "", since) or None
        up_to = to_text(query.until) + AFTER_ALL if query.until else None
        for item in self._rows(pk, order, after=bound, up_to=up_to, index=index):
            if "body" in item:
                yield item, str(item[index.sk])

    def _by_node(self, key: NodeKey, query: TimelineQuery, order: ReadOrder) -> Found:
        pk, head = keys.node_partition(key), node_head(self.table, key)
        bound = order.after or (last_before(self.table, pk, head, query.since - SKEW) if query.since else None)
        until = to_text(query.until + SKEW) if query.until else None
        for item in self._rows(pk, order, after=bound, prefix=keys.ENTRY):
            if until is None or str(item["recorded_at"]) < until:
                yield item, str(item["sk"])
            elif not order.newest_first:
                return

    def _rows(self, pk: str, order: ReadOrder, **bounds: Any) -> Iterator[Item]:  # noqa: ANN401 - those of query_all
        return query_all(self.table, pk, page_size=order.page_size, newest_first=order.newest_first, **bounds)


def entry_data(item: Item) -> EventData | None:
    """Return the data of an entry item's event; None for an unknown type."""
    return read_data(json.loads(str(item["body"])))


def is_late(metadata: EntryMetadata) -> bool:
    """Return whether an event was recorded more than two minutes after it happened."""
    return metadata.recorded_at - metadata.occurred_at > LATE


def sort_by_occurrence(lines: Sequence[Line]) -> list[Line]:
    """Sort entries by the time at which they happened; equal times keep the order of recording."""
    return sorted(lines, key=lambda line: line.event.metadata.occurred_at)


OVERLAP = timedelta(seconds=30)
"""Length of the window that `follow` reads again, because an index shows an entry later than the table."""


def follow(timeline: Timeline, query: TimelineQuery, clock: Clock, wait: Callable[[], bool]) -> Iterator[Line]:
    """Yield the entries that match `query`, then new ones, until `wait` returns False and one more read."""
    yielded: set[str] = set()
    more = True
    while True:
        read_at = clock.now()
        window: set[str] = set()
        for line in timeline.entries(query):
            window.add(line.hash)
            if line.hash not in yielded:
                yield line
        yielded = window
        start = read_at - OVERLAP
        query = replace(query, since=max(start, query.since) if query.since else start)
        if not more:
            return
        more = wait()
