"""Timeline: what was recorded of a node, a cluster or a case, in the order in which it was recorded.

Pages follow the order of recording and a token is the place of the last entry read, so nothing is read twice. What
happened earlier than it was recorded comes late, and is marked so.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import CASES, TIMELINE, Index, Item

LATE = timedelta(minutes=2)
SKEW = timedelta(minutes=5)
"""Writers' clocks may differ by this much, so that entries of one stream are recorded out of order by it."""

AFTER_ALL = "~"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: of a case, else of a node, else of a cluster and all its nodes; empty filters let all pass.

    `since` is inclusive, `until` exclusive; both are about the time of recording.
    """

    cluster: str | None = None
    node: str | None = None
    case: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    types: Sequence[str] = ()
    severities: Sequence[str] = ()

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
        for item, place in self._walk(wanted, after):
            if wanted.covers(item):
                yield Line(str(item["body"]), str(item["hash"]), place)

    def page(self, wanted: Wanted, limit: int, token: str | None = None) -> tuple[tuple[Line, ...], str | None]:
        """Read one page and the token of the next; the same token gives the same page, whatever came since."""
        lines = tuple(islice(self.entries(wanted, read_token(token) if token else None), limit + 1))
        more = make_token(lines[limit - 1].place) if len(lines) > limit else None
        return lines[:limit], more

    def _walk(self, wanted: Wanted, after: str | None) -> Iterator[tuple[Item, str]]:
        if wanted.case is not None:
            return self._index(CASES, keys.case(wanted.case).pk, wanted, after)
        if wanted.cluster is None:
            raise Rejected("nothing_asked", "a timeline is one of a cluster or of a case")
        if wanted.node is not None:
            return self._node(NodeKey(wanted.cluster, wanted.node), wanted, after)
        return self._cluster(wanted.cluster, wanted, after)

    def _cluster(self, cluster: str, wanted: Wanted, after: str | None) -> Iterator[tuple[Item, str]]:
        shards = [
            self._index(TIMELINE, keys.timeline(cluster, shard), wanted, after)
            for shard in range(self._shards(cluster))
        ]
        return heapq.merge(*shards, key=lambda found: found[1])

    def _shards(self, cluster: str) -> int:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        return items.read_config(found).shards

    def _index(self, index: Index, pk: str, wanted: Wanted, after: str | None) -> Iterator[tuple[Item, str]]:
        since = to_text(wanted.since) if wanted.since else ""
        bound = max(after or "", since) or None
        upto = to_text(wanted.until) + AFTER_ALL if wanted.until else None
        for item in self._query(pk, after=bound, upto=upto, index=index):
            if "body" in item:
                yield item, str(item[index.sk])

    def _node(self, key: NodeKey, wanted: Wanted, after: str | None) -> Iterator[tuple[Item, str]]:
        pk, head = keys.node_partition(key), self._head(key)
        first = self._first(pk, head, wanted.since - SKEW) if wanted.since else None
        bound = max(after or "", first or "") or None
        until = to_text(wanted.until + SKEW) if wanted.until else None
        for item in self._query(pk, prefix=keys.ENTRY, after=bound):
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

    def _query(
        self, pk: str, *, prefix: str = "", after: str | None, upto: str | None = None, index: Index | None = None
    ) -> Iterator[Item]:
        start = None
        while True:
            page = self.table.query(pk, prefix=prefix, after=after, upto=upto, index=index, start=start)
            yield from page.items
            start = page.next
            if start is None:
                return


def is_late(event: Mapping[str, Any]) -> bool:
    """Tell whether an event was recorded more than two minutes after it happened."""
    metadata = event["metadata"]
    return from_text(metadata["recorded_at"]) - from_text(metadata["occurred_at"]) > LATE


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Sort a window by when things happened; entries of one instant stay in the order of recording."""
    return sorted(lines, key=lambda line: str(line.event["metadata"]["occurred_at"]))


def make_token(place: str) -> str:
    """Make a token of a place: opaque, and safe in an address."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_token(token: str) -> str:
    """Read a token back; `bad_token` for what never was one."""
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Rejected("bad_token", "this is no token of a page") from None
