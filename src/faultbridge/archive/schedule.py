"""Keeping the record: an anchor each hour, a seal each day. One cluster's trouble does not stop another's."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from faultbridge.archive.anchor import Anchor, PutOnChain
from faultbridge.archive.seal import Seal
from faultbridge.errors import FaultbridgeError, Transient
from faultbridge.ledger.queries import every
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put

SETTLED_AFTER = timedelta(hours=2)
"""A day is sealed when what carries lines to the archive has had so long since its end."""


@dataclass(slots=True)
class Kept:
    """What one round did; `roots` is the Merkle root of each cluster anchored, `late` what another round will mend."""

    roots: dict[str, str] = field(default_factory=dict)
    sealed: int = 0
    completed: int = 0
    breaks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """Runs each hour; what is done already is not done again."""

    table: Table
    clock: Clock
    anchor: Anchor
    put_on_chain: PutOnChain
    seal: Seal

    def __call__(self) -> Kept:
        """Anchor every cluster, seal its last settled day; what went wrong is in the answer, nothing is raised."""
        kept = Kept()
        for row in every(self.table, keys.CLUSTERS):
            cluster = str(row["sk"])
            try:
                self._cluster(cluster, kept)
            except Transient as error:
                kept.late.append(f"{cluster}: {error}")
            except FaultbridgeError as error:
                kept.failures.append(f"{cluster}: {error}")
        return kept

    def _cluster(self, cluster: str, kept: Kept) -> None:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            return
        config = items.read_config(found)
        anchored = self.anchor(config)
        if self.put_on_chain(anchored):
            kept.roots[cluster] = anchored.root
        day = (self.clock.now() - SETTLED_AFTER - timedelta(days=1)).date().isoformat()
        if self._sealed(cluster) >= day:
            return
        sealed = self.seal(config, day)
        self.table.write(Put(items.item(keys.cluster_sealed(cluster), self.clock.now(), {"day": day})))
        kept.sealed += sealed.entries
        kept.completed += sealed.completed
        kept.breaks += [f"{one.stream} {one.epoch}/{one.sequence}: {one.detail}" for one in sealed.breaks]

    def _sealed(self, cluster: str) -> str:
        found = self.table.get(keys.cluster_sealed(cluster))
        return "" if found is None else str(found["day"])
