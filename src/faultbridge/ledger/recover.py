"""Restore: after the table came back from a backup, every stream begins a new epoch, so that no event id comes twice.

What was recorded after the backup is gone from the table, and customers have seen it: the same numbers must not be
given again. The number of the epoch is taken where no backup reaches: in the vault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import canonical_json, seal
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected
from faultbridge.ledger.append import Append, Stack
from faultbridge.ledger.queries import every, rows_of
from faultbridge.ledger.streams import heads_of
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, Table
from faultbridge.ports.objects import Vault
from faultbridge.storage import items, keys
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.writes import Absent, Equals, Put

ROSTER = "NODE#"
LAST_EPOCH = 9999
TEXT = "restored from a backup: what was recorded after epoch {epoch}, entry {sequence} is in the archive only"


@dataclass(slots=True)
class RecoveredTable:
    """The epoch that began, and how many streams began it; `already` had done so."""

    epoch: int
    streams: int = 0
    already: int = 0
    clusters: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """Raises the epoch of every stream of a restored table, before anything else writes to it."""

    table: Table
    vault: Vault
    clock: Clock
    append: Append
    stack: Stack

    def __call__(self, epoch: int | None = None, *, by: str | None = None) -> RecoveredTable:
        """Begin a new epoch everywhere; with the epoch of one that was interrupted, finish that."""
        clusters = [self._config(str(row["sk"])) for row in every(self.table, keys.CLUSTERS)]
        restored = RecoveredTable(self._claim(clusters) if epoch is None else self._known(epoch))
        for config in clusters:
            restored.clusters.append(config.cluster)
            for begun in self._raise(config, restored.epoch, by):
                restored.streams += begun
                restored.already += not begun
        return restored

    def _claim(self, clusters: list[ClusterConfig]) -> int:
        """Take a number that no stream of this stack ever had, and write it down where the next restore finds it."""
        used = [int(key.removeprefix(layout.EPOCHS)[:4]) for key in self.vault.list(layout.EPOCHS)]
        for config in clusters:
            used += [head.epoch for head in heads_of(self.table, self.stack, config).values()]
        epoch = max(used, default=1) + 1
        if epoch > LAST_EPOCH:
            raise Rejected("no_epoch_left", f"{LAST_EPOCH} epochs were used")
        told = {"epoch": epoch, "stack_id": self.stack.id, "at": to_text(self.clock.now())}
        self.vault.put(_claim_key(epoch), canonical_json(told).encode())
        return epoch

    def _known(self, epoch: int) -> int:
        if self.vault.get(_claim_key(epoch)) is None:
            raise Rejected("unknown_epoch", f"no restore began epoch {epoch}")
        return epoch

    def _raise(self, config: ClusterConfig, epoch: int, by: str | None) -> Iterator[bool]:
        yield self._raise_cluster(config.cluster, epoch, by)
        for row in rows_of(self.table, config, ROSTER):
            yield self._raise_node(NodeKey(config.cluster, str(row["node"])), config, epoch, by)

    def _raise_node(self, key: NodeKey, config: ClusterConfig, epoch: int, by: str | None) -> bool:
        before = self.append.read(key)
        if before.head.epoch >= epoch:
            return False
        now = truncate(self.clock.now())
        text = TEXT.format(epoch=before.head.epoch, sequence=before.head.sequence)
        note = entry_builder.note(kind="operator", text=text, at=now, operator=by)
        begun = replace(before, head=_begin(before.head, epoch))
        prepared = self.append.prepare(begun, Transition(begun, (note,)), actor=Actor.CLI, config=config, now=now)
        self.table.transact(prepared[1])
        return True

    def _raise_cluster(self, cluster: str, epoch: int, by: str | None) -> bool:
        before = items.read_cluster(cluster, self.table.get(keys.cluster_state(cluster)))
        if before.head.epoch >= epoch:
            return False
        now = truncate(self.clock.now())
        text = TEXT.format(epoch=before.head.epoch, sequence=before.head.sequence)
        note = entry_builder.note(kind="operator", text=text, at=now, operator=by)
        head = replace(_begin(before.head, epoch), version=before.head.version + 1)
        stream = self.stack.stream(cluster)
        entries, head = seal(stream, head, (note,), actor=Actor.CLI, severity=None, recorded_at=now)
        unchanged = Equals("version", before.head.version) if before.head.version else Absent()
        item = items.cluster_item(replace(before, head=head), now)
        written = [Put(items.entry_item(one, keys.cluster_partition(cluster), 0), when=Absent()) for one in entries]
        self.table.transact([Put(item, when=unchanged), *written])
        return True

    def _config(self, cluster: str) -> ClusterConfig:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Conflict(f"{cluster} is listed and not registered")
        return items.read_config(found)


def _begin(head: Head, epoch: int) -> Head:
    return replace(head, epoch=epoch, sequence=0, hash="")


def _claim_key(epoch: int) -> str:
    return f"{layout.EPOCHS}{epoch:04d}.json"
