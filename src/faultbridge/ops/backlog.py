"""Stuck: what waits to be done, and since when; read from the table alone, by whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.domain.times import from_text, to_text, truncate
from faultbridge.ingest.canary import INTERVAL_MINUTES, LAST_RECEIVED, LAST_RECORDED, last_sent_at
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.rejects import COUNTERS
from faultbridge.storage.writes import WORK, Key, Put

SWEPT = Key("SWEEP", "LAST")
"""Where it stands when a sweep last came to its end."""

OVERDUE = timedelta(minutes=5)
"""What the stream, the sweep and a timer should have done long before."""

CANARY_OVERDUE = timedelta(minutes=3 * INTERVAL_MINUTES)


@dataclass(frozen=True, slots=True)
class Waiting:
    """One kind of thing that waits: how many, the oldest since when, and whether that is too long.

    `since` is None where nothing waits, or nothing was ever seen; `note` says where a thing is lost that should come.
    """

    what: str
    count: int
    since: datetime | None
    stuck: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Looks for what waits; `swept` is told by each sweep at its end."""

    table: Table
    clock: Clock

    def __call__(self) -> Sequence[Waiting]:
        """Look at entries that wait for the bus, timers, rejects, the sweep and the canary."""
        return (self._entries(), self._timers(), self._rejects(), self._sweep(), self._canary())

    def swept(self, *, unfinished: bool, failures: int) -> None:
        """Note that a sweep came to its end."""
        now = truncate(self.clock.now())
        ended: dict[str, str | int] = {"unfinished": int(unfinished), "failures": failures}
        self.table.write(Put(items.item(SWEPT, now, ended)))

    def overdue(self) -> int:
        """Count the timers that should have been looked at long before."""
        return len(list(self._times(keys.TIMERS, self.clock.now() - OVERDUE)))

    def _entries(self) -> Waiting:
        return self._waiting("unpublished", self._times(keys.OUTBOXES))

    def _timers(self) -> Waiting:
        return self._waiting("timers", self._times(keys.TIMERS, self.clock.now()))

    def _rejects(self) -> Waiting:
        clusters = [str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)]
        partitions = [keys.reject_partition(cluster) for cluster in (*clusters, keys.NO_CLUSTER)]
        kept = (str(row["sk"]) for each in partitions for row in query_all(self.table, each, up_to=COUNTERS))
        times = sorted(from_text(place.partition("#")[0]) for place in kept)
        return Waiting("rejects", len(times), times[0] if times else None, stuck=False)

    def _sweep(self) -> Waiting:
        found = self.table.get(SWEPT)
        if found is None:
            return Waiting("sweep", 0, None, stuck=True, note="has never come to its end")
        ended = from_text(str(found["updated_at"]))
        told = {"unfinished": "had too little time", "failures": f"{found['failures']} parts failed"}
        note = ", ".join(text for name, text in told.items() if found[name])
        return Waiting("sweep", 0, ended, stuck=self._is_old(ended), note=note)

    def _canary(self) -> Waiting:
        kept, heard = last_sent_at(self.table, LAST_RECORDED), last_sent_at(self.table, LAST_RECEIVED)
        stuck = heard is None or self.clock.now() - heard > CANARY_OVERDUE
        reached = kept is not None and (heard is None or kept > heard)
        note = "reached the table, not the bus" if reached else "does not reach the table"
        return Waiting("canary", 0, heard, stuck=stuck, note=note if stuck else "")

    def _times(self, shards: Iterable[str], up_to: datetime | None = None) -> Iterator[datetime]:
        until = to_text(up_to) if up_to else None
        for shard in shards:
            for row in query_all(self.table, shard, up_to=until, index=WORK):
                yield from_text(str(row["gsi4sk"]))

    def _waiting(self, what: str, times: Iterable[datetime]) -> Waiting:
        since = sorted(times)
        oldest = since[0] if since else None
        return Waiting(what, len(since), oldest, stuck=oldest is not None and self._is_old(oldest))

    def _is_old(self, since: datetime) -> bool:
        return self.clock.now() - since > OVERDUE
