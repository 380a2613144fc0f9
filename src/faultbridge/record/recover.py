"""Recover: starts a new epoch in every stream after the table was restored from a backup.

Entries that were recorded after the backup are missing in the table, but consumers may have received them. In a new
epoch, new entries do not get the sequence numbers and event ids of missing entries. A recovery claims an epoch number
by an object in the vault (a locked S3 bucket), because a restored backup does not change the vault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, Isolation, NodeStatus, NoteKind
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Stack
from faultbridge.record.cluster_stream import cluster_writes, heads_of
from faultbridge.record.ports.objects import Vault
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import node_names, query_all

MAX_EPOCH = 9999
TEXT = "restored from a backup: entries after epoch {epoch}, entry {sequence} are in the archive only"


@dataclass(slots=True)
class RecoveredTable:
    """The result of a recovery: the new epoch, and the names of the clusters in the table.

    `streams` is the number of streams in which this run started the epoch. `already` is the number of streams in which
    an interrupted run had started it before.
    """

    epoch: int
    streams: int = 0
    already: int = 0
    clusters: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """Starts a new epoch in every stream of a restored table. Run it before any other writer starts."""

    table: Table
    vault: Vault
    clock: Clock
    append: Append
    stack: Stack

    def recover(self, epoch: int | None = None, *, by: str | None = None) -> RecoveredTable:
        """Claim a new epoch number and start the epoch in every stream.

        With `epoch`, the call finishes an interrupted run that claimed this number. `by` is the operator that the
        entries name. Raises Rejected `unknown_epoch` if the vault (a locked S3 bucket) has no claim of `epoch`, and
        `no_epoch_left` if the highest number is used. Raises Conflict if another writer changes a stream or claims the
        number at the same time, or if a listed cluster has no registration.
        """
        clusters = [self._config(str(row["sk"])) for row in query_all(self.table, keys.CLUSTERS)]
        recovered = RecoveredTable(self._claim(clusters) if epoch is None else self._claimed(epoch))
        for config in clusters:
            recovered.clusters.append(config.cluster)
            for began in self._begin_in_cluster(config, recovered.epoch, by):
                recovered.streams += began
                recovered.already += not began
        return recovered

    def _claim(self, clusters: list[ClusterConfig]) -> int:
        """Claim an epoch number: record it in the vault, a locked S3 bucket, and return it.

        The number is greater than every number claimed in the vault and every epoch in the streams of `clusters`.
        """
        used = [int(key.removeprefix(layout.EPOCHS)[:4]) for key in self.vault.list(layout.EPOCHS)]
        for config in clusters:
            used += [head.epoch for head in heads_of(self.table, self.stack, config).values()]
        epoch = max(used, default=1) + 1
        if epoch > MAX_EPOCH:
            raise Rejected("no_epoch_left", f"every epoch up to {MAX_EPOCH} is used; deploy a new stack")
        claim = {"epoch": epoch, "stack_id": self.stack.id, "at": to_text(self.clock.now())}
        self.vault.put(_claim_key(epoch), canonical_json(claim).encode())
        return epoch

    def _claimed(self, epoch: int) -> int:
        if self.vault.get(_claim_key(epoch)) is None:
            raise Rejected("unknown_epoch", f"the vault has no claim of epoch {epoch}; omit --epoch to claim a new one")
        return epoch

    def _begin_in_cluster(self, config: ClusterConfig, epoch: int, by: str | None) -> Iterator[bool]:
        """Start the epoch in each stream of a cluster.

        Yields True for each started stream, and False for a stream that has this or a later epoch already.
        """
        yield self._begin_cluster_stream(config.cluster, epoch, by)
        for name in node_names(self.table, config):
            yield self._begin_node_stream(NodeKey(config.cluster, name), epoch, by)

    def _begin_node_stream(self, key: NodeKey, epoch: int, by: str | None) -> bool:
        before = self.append.read(key)
        if before.head.epoch >= epoch:
            return False
        now = truncate(self.clock.now())
        begun = replace(before, head=_first_head(before.head, epoch))
        state = begun
        if begun.isolation is Isolation.CONFIRMED and begun.status is not NodeStatus.RETIRED:
            # The cordon may have been withdrawn after the backup.
            state = replace(begun, isolation=Isolation.REQUESTED, isolation_since=now)
        transition = Transition(state, (_note(before.head, now, by),))
        _, writes = self.append.prepare(begun, transition, actor=Actor.CLI, now=now)
        self.table.transact(writes)
        return True

    def _begin_cluster_stream(self, cluster: str, epoch: int, by: str | None) -> bool:
        before = items.read_cluster(cluster, self.table.get(keys.cluster_state(cluster)))
        if before.head.epoch >= epoch:
            return False
        now = truncate(self.clock.now())
        begun, note = replace(before, head=_first_head(before.head, epoch)), _note(before.head, now, by)
        _, writes = cluster_writes(self.stack, begun, begun, (note,), actor=Actor.CLI, severity=None, now=now)
        self.table.transact(writes)
        return True

    def _config(self, cluster: str) -> ClusterConfig:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Conflict(f"cluster {cluster} is listed and not registered; run the command again")
        return items.read_config(found)


def _first_head(head: Head, epoch: int) -> Head:
    return replace(head, epoch=epoch, sequence=0, hash="")


def _note(last: Head, now: datetime, operator: str | None) -> Draft:
    text = TEXT.format(epoch=last.epoch, sequence=last.sequence)
    return entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=now, operator=operator)


def _claim_key(epoch: int) -> str:
    return f"{layout.EPOCHS}{epoch:04d}.json"
