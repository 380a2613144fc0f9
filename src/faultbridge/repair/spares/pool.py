"""Pool: who is in which place. A place changes hands by a write on its version, so that no two cases get one spare."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from faultbridge.decoders.common.gpu_count import with_same_gpu_count
from faultbridge.domain.spares import Spare, SpareStatus
from faultbridge.errors import Conflict
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Condition, Delete, Equals, Put


@dataclass(frozen=True, slots=True)
class Pool:
    """Reads and writes the places of pools."""

    table: Table
    clock: Clock

    def places(self, cluster: str) -> tuple[Spare, ...]:
        """Return every place of a cluster's pool, in its order."""
        return tuple(places_of(self.table, cluster))

    def change(self, spare: Spare, **changes: Any) -> Spare | None:  # noqa: ANN401 - fields of Spare
        """Change a place as it was read; None where somebody else was first."""
        now = self.clock.now()
        since = now if changes.get("status", spare.status) is not spare.status else spare.since
        changed = replace(spare, **{"since": since, **changes, "version": spare.version + 1})
        try:
            self.table.write(Put(items.spare_item(changed, now), when=_unchanged(spare)))
        except Conflict:
            return None
        return changed

    def drop(self, spare: Spare) -> None:
        """Give up an empty place."""
        try:
            self.table.write(Delete(keys.spare(spare.cluster, spare.number), when=_unchanged(spare)))
        except Conflict:
            return  # the next look decides again

    def taken_by(self, cluster: str, case: str, but: Collection[str | None]) -> str | None:
        """Return the machine that a case took, other than those that had the node already; None where it took none."""
        for spare in self.places(cluster):
            if spare.status is SpareStatus.TAKEN and spare.case == case and spare.instance_id not in but:
                return spare.instance_id
        return None

    def take(self, cluster: str, group: str, case: str, instance_type: str | None) -> str | None:
        """Give a case a verified machine with as many GPUs as a type has; None where there is none."""
        now = self.clock.now()
        for spare in self.places(cluster):
            fits = spare.instance_type is not None and with_same_gpu_count((spare.instance_type,), instance_type)
            if fits and spare.serves(group, now) and self.change(spare, status=SpareStatus.TAKEN, case=case):
                return spare.instance_id
        return None


def places_of(table: Table, cluster: str) -> Iterator[Spare]:
    """Read every place of a cluster's pool, in its order."""
    for row in query_all(table, keys.cluster_partition(cluster), prefix=keys.SPARE):
        yield items.read_spare(row)


def _unchanged(spare: Spare) -> Condition:
    return Equals("version", spare.version) if spare.version else Absent()
