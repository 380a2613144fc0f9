"""Schedule: the hourly run, which anchors every cluster and seals the last complete day."""

from __future__ import annotations

import logging
from dataclasses import field
from datetime import timedelta

from faultbridge.archive.anchor import Anchor, RecordAnchor
from faultbridge.archive.seal import Seal
from faultbridge.dataclass import dataclass
from faultbridge.errors import FaultbridgeError, Transient
from faultbridge.ledger.queries import query_all
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put

SEAL_DELAY = timedelta(hours=2)
"""Time between the end of a day and its seal. It lets the delivery to the archive finish."""


@dataclass(slots=True)
class RunResult:
    """The result of one run for all clusters.

    - `roots`: the Merkle root of each anchor that this run recorded, by cluster
    - `sealed`: the number of entries in the days that this run sealed
    - `completed`: the number of these entries that this run added to the archive
    - `breaks`: one text for each break of a hash chain
    - `late`: one text for each cluster whose run failed with a temporary error
    - `failures`: one text for each cluster whose run failed with any other error
    """

    roots: dict[str, str] = field(default_factory=dict)
    sealed: int = 0
    completed: int = 0
    breaks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ArchiveSchedule:
    """Anchors every cluster once an hour, and seals the last day that ended at least two hours ago.

    A recorded anchor and a sealed day are not repeated. A `FaultbridgeError` of one cluster does not stop the run for
    the other clusters.
    """

    table: Table
    clock: Clock
    anchor: Anchor
    record_anchor: RecordAnchor
    seal: Seal

    def __call__(self) -> RunResult:
        """Anchor every registered cluster, and seal the last day (UTC) that ended at least two hours ago.

        A `FaultbridgeError` of a cluster is part of the result, and is not raised.
        """
        result = RunResult()
        for row in query_all(self.table, keys.CLUSTERS):
            cluster = str(row["sk"])
            try:
                self._run(cluster, result)
            except Transient as error:
                log_cause("archive_run_postponed", reason=str(error), level=logging.WARNING, cluster=cluster)
                result.late.append(f"{cluster}: {error}")
            except FaultbridgeError as error:
                log_cause("archive_run_failed", reason=str(error), level=logging.ERROR, cluster=cluster)
                result.failures.append(f"{cluster}: {error}")
        return result

    def _run(self, cluster: str, result: RunResult) -> None:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            log_cause("cluster_not_archived", reason="the cluster is listed but not registered", cluster=cluster)
            return
        config = items.read_config(found)
        anchor = self.anchor(config)
        if self.record_anchor(anchor):
            result.roots[cluster] = anchor.root
        day = (self.clock.now() - SEAL_DELAY - timedelta(days=1)).date().isoformat()
        if self._last_sealed_day(cluster) >= day:
            return
        sealed = self.seal(config, day)
        self.table.write(Put(items.item(keys.cluster_sealed(cluster), self.clock.now(), {"day": day})))
        result.sealed += sealed.entries
        result.completed += sealed.completed
        result.breaks += [f"{one.stream} {one.epoch}/{one.sequence}: {one.detail}" for one in sealed.breaks]

    def _last_sealed_day(self, cluster: str) -> str:
        found = self.table.get(keys.cluster_sealed(cluster))
        return "" if found is None else str(found["day"])
