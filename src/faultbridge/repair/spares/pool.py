"""The spare pool: reads and changes spares. A write condition gives each spare to one case only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from faultbridge.decode.frames.instance_type import with_same_gpu_count
from faultbridge.model.cluster.state import Spare, SpareStatus
from faultbridge.model.errors import Conflict
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Condition, Delete, Equals, Put
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Launcher
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all


class SparePool(Struct, frozen=True):
    """Reads and changes spares, the numbered positions of a pool with or without an instance."""

    table: Table
    clock: Clock

    def spares(self, cluster: str) -> tuple[Spare, ...]:
        """Return all spares of a cluster, sorted by number."""
        return tuple(read_spares(self.table, cluster))

    def change(self, spare: Spare, **changes: Any) -> Spare | None:  # noqa: ANN401 - fields of Spare
        """Store changed fields of a spare. Returns None if another writer changed the spare since it was read."""
        now = self.clock.now()
        since = now if changes.get("status", spare.status) is not spare.status else spare.since
        changed = replace(spare, **{"since": since, **changes, "version": spare.version + 1})
        try:
            self.table.write(Put(items.spare_item(changed, now), when=_unchanged(spare)))
        except Conflict as conflict:
            _log_lost_write(spare, conflict)
            return None
        return changed

    def drop(self, spare: Spare) -> None:
        """Delete a spare without an instance, unless another writer changed it."""
        try:
            self.table.write(Delete(keys.spare(spare.cluster, spare.number), when=_unchanged(spare)))
        except Conflict as conflict:
            _log_lost_write(spare, conflict)

    def taken_by(self, cluster: str, case: str, excluded: Collection[str | None]) -> str | None:
        """Return the id of a spare instance that a case has taken, without the excluded ones, or None."""
        for spare in self.spares(cluster):
            if spare.status is SpareStatus.TAKEN and spare.case == case and spare.instance_id not in excluded:
                return spare.instance_id
        return None

    def give_back(self, cluster: str, instance_id: str, launcher: Launcher) -> None:
        """Make a spare that a case has taken available to other cases again, once its tag names the pool again."""
        for spare in self.spares(cluster):
            taken = spare.status is SpareStatus.TAKEN and spare.instance_id == instance_id
            if taken and launcher.assign(instance_id, spare.owner).ok:
                self.change(spare, status=SpareStatus.READY, case=None)

    def take(
        self, cluster: str, group: str, case: str, instance_type: str | None, fits: Callable[[str], bool]
    ) -> str | None:
        """Take a verified spare with as many GPUs that serves the group and fits; None without one."""
        now = self.clock.now()
        for spare in self.spares(cluster):
            same = spare.instance_type is not None and with_same_gpu_count((spare.instance_type,), instance_type)
            if not same or not spare.serves(group, now) or not fits(str(spare.instance_id)):
                continue
            if self.change(spare, status=SpareStatus.TAKEN, case=case):
                return spare.instance_id
        return None


def read_spares(table: Table, cluster: str) -> Iterator[Spare]:
    """Yield all spares of a cluster, sorted by number."""
    for row in query_all(table, keys.cluster_partition(cluster), prefix=keys.SPARE):
        yield items.read_spare(row)


def _unchanged(spare: Spare) -> Condition:
    return Equals("version", spare.version) if spare.version else Absent()


def _log_lost_write(spare: Spare, conflict: Conflict) -> None:
    log_cause("spare_write_lost", reason=str(conflict), cluster=spare.cluster, spare=spare.number)
