"""Backlog: counts the waiting work of an installation, and states whether it has waited too long.

All counts and times come from the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct

from faultbridge.model.storage import items, keys
from faultbridge.model.storage.rejects import COUNTERS
from faultbridge.model.storage.writes import WORK, Key, Put, Work
from faultbridge.model.times import from_text, to_text, truncate
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.serve.ingest.canary import INTERVAL_MINUTES, LAST_RECEIVED, LAST_RECORDED, last_sent_at

LAST_SWEEP = Key("SWEEP", "LAST")
"""The item with the time and result of the latest completed sweep."""

OVERDUE = timedelta(minutes=5)
"""The age from which waiting work is overdue; the stream and the sweep normally do such work much earlier."""

DUE_WORK = (Work.TIMER, Work.RETRY)
"""The kinds of work that wait for a time."""

CANARY_OVERDUE = timedelta(minutes=3 * INTERVAL_MINUTES)
"""If the latest canary that arrived was sent longer ago than this, at least three later canaries are missing."""


class BacklogItem(Struct, frozen=True):
    """One kind of waiting work: how many items wait, since when, and whether that is too long.

    - `what` is the kind. `since` is the time of the oldest waiting item, or None if no item waits.
    - For the kind `sweep`, `since` is the end of the latest sweep. For the kind `canary`, `since` is the sending time
      of the latest canary that arrived. `since` is None before the first sweep or canary.
    - `stuck` is True if `since` is too long ago, or if there was no sweep or canary yet. It is always False for
      rejected records.
    - `note` states what is missing or failed for the kinds `sweep` and `canary`. It is empty for all other kinds.
    """

    what: str
    count: int
    since: datetime | None
    stuck: bool
    note: str = ""


class Backlog(Struct, frozen=True):
    """Counts the waiting work of an installation, and records the end of each sweep."""

    table: Table
    clock: Clock

    def list(self) -> Sequence[BacklogItem]:
        """Return the waiting work of this installation, one item for each kind of work.

        The kinds are entries to publish, due timers with due retries of rejected records, and rejected records. Two
        more items state when the latest sweep ended, and when the latest canary that arrived (a test record that
        Faultbridge sends to itself) was sent.
        """
        return (self._entries(), self._timers(), self._rejects(), self._sweep(), self._canary())

    def record_sweep(self, *, unfinished: bool, failures: int) -> None:
        """Store the current time as the end of the latest sweep, with its number of failures.

        `unfinished` is True if the sweep had too little time for all its work.
        """
        now = truncate(self.clock.now())
        result: dict[str, str | int] = {"unfinished": int(unfinished), "failures": failures}
        self.table.write(Put(items.item(LAST_SWEEP, now, result)))

    def overdue(self) -> int:
        """Return how many timers, and retries of rejected records, have been due for five minutes or longer."""
        return len(list(self._times(DUE_WORK, self.clock.now() - OVERDUE)))

    def _entries(self) -> BacklogItem:
        return self._waiting("unpublished", self._times((Work.UNPUBLISHED,)))

    def _timers(self) -> BacklogItem:
        return self._waiting("timers", self._times(DUE_WORK, self.clock.now()))

    def _rejects(self) -> BacklogItem:
        clusters = [str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)]
        partitions = [keys.reject_partition(cluster) for cluster in (*clusters, keys.NO_CLUSTER)]
        sort_keys = (str(row["sk"]) for each in partitions for row in query_all(self.table, each, up_to=COUNTERS))
        times = sorted(from_text(sort_key.partition("#")[0]) for sort_key in sort_keys)
        return BacklogItem("rejects", len(times), times[0] if times else None, stuck=False)

    def _sweep(self) -> BacklogItem:
        found = self.table.get(LAST_SWEEP)
        if found is None:
            return BacklogItem("sweep", 0, None, stuck=True, note="no sweep has completed yet")
        completed_at = from_text(str(found["updated_at"]))
        problems = {"unfinished": "not enough time for all work", "failures": f"{found['failures']} parts failed"}
        note = ", ".join(text for name, text in problems.items() if found[name])
        return BacklogItem("sweep", 0, completed_at, stuck=self._is_overdue(completed_at), note=note)

    def _canary(self) -> BacklogItem:
        stored, received = last_sent_at(self.table, LAST_RECORDED), last_sent_at(self.table, LAST_RECEIVED)
        stuck = received is None or self.clock.now() - received > CANARY_OVERDUE
        reached_table = stored is not None and (received is None or stored > received)
        note = "reached the table, not the bus" if reached_table else "does not reach the table"
        return BacklogItem("canary", 0, received, stuck=stuck, note=note if stuck else "")

    def _times(self, kinds: Iterable[Work], up_to: datetime | None = None) -> Iterator[datetime]:
        until = to_text(up_to) if up_to else None
        for partition in chain.from_iterable(kind.partitions() for kind in kinds):
            for row in query_all(self.table, partition, up_to=until, index=WORK):
                yield from_text(str(row["gsi4sk"]))

    def _waiting(self, what: str, times: Iterable[datetime]) -> BacklogItem:
        ordered = sorted(times)
        oldest = ordered[0] if ordered else None
        return BacklogItem(what, len(ordered), oldest, stuck=oldest is not None and self._is_overdue(oldest))

    def _is_overdue(self, since: datetime) -> bool:
        return self.clock.now() - since > OVERDUE
