"""Fleet dispatch: the product's dispatch and isolation budget, which read a fleet's data in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec import field

from faultbridge.decide.admit import HOUR
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.isolation_budget import LEAVES_AFTER, IsolationUse
from faultbridge.model.cluster.state import Control
from faultbridge.model.cluster.vacancies import MAX_OWED
from faultbridge.model.enums import Actor
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import QueuedCase, UnhealthyNode, read_vacancies
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text, truncate
from faultbridge.model.values import replace
from faultbridge.repair.controls import Controls
from faultbridge.repair.dispatch import Dispatch, ReadyCase, admit_case, take_slots
from faultbridge.repair.isolation_permits import IsolationPermits
from tests.lab.product.item_table import ItemTable
from tests.lab.product.node_store import NodeStore
from tests.lab.product.repair_queue import RepairQueue

MINUTE = timedelta(minutes=1)


class FleetControls(Controls, frozen=True):
    """Reads the repair limits of a cluster: repair slots in use, breakers, holds of incidents, and vacancies.

    A stored item is decoded again only after it has changed.
    """

    table: ItemTable
    known: dict[str, tuple[Item, Control]] = field(default_factory=dict)
    complete: dict[str, tuple[Control, int, Control]] = field(default_factory=dict)

    def read(self, cluster: str) -> Control:
        """Return the repair limits of the cluster."""
        item = self.table.get(keys.cluster_control(cluster))
        found = self.known.get(cluster)
        if item is None or found is None or found[0] is not item:
            found = self.known[cluster] = (item or {}, items.read_control(cluster, item))
        return found[1]

    def with_vacancies(self, cluster: str) -> Control:
        """Return the repair limits of the cluster with its vacancies: the same object if none changed."""
        stored, version = self.read(cluster), self.table.unhealthy.version
        before = self.complete.get(cluster)
        if before is not None and before[:2] == (stored, version) and before[0] is stored:
            return before[2]
        vacancies = read_vacancies(items.stored_value(UnhealthyNode, row) for row in self.table.unhealthy.rows())
        if before is not None and before[0] is stored and before[2].vacancies == vacancies:
            complete = before[2]
        else:
            complete = replace(stored, vacancies=vacancies) if vacancies else stored
        self.complete[cluster] = stored, version, complete
        return complete


class FleetPermits(IsolationPermits, frozen=True, kw_only=True):
    """The product's isolation budget; it is measured again only after the nodes, the controls or the time changed."""

    table: ItemTable
    controls: FleetControls
    measured: dict[tuple[int, int, datetime, bool, bool], IsolationUse] = field(default_factory=dict)

    def use(self, rules: Rules, control: Control, now: datetime, *, placed: bool, evicts: bool = True) -> IsolationUse:
        """Return the use of the cluster's isolation budget."""
        key = (control.version, self.table.unhealthy.version, now, placed, evicts)
        if key not in self.measured:
            self.measured.clear()
            self.measured[key] = IsolationPermits.use(self, rules, control, now, placed=placed, evicts=evicts)
        return self.measured[key]

    def _control(self, cluster: str) -> Control:
        return self.controls.read(cluster)


class FleetDispatch(Dispatch, frozen=True, kw_only=True):
    """The product's dispatch of repairs, with the queue in memory instead of in the table."""

    table: ItemTable
    queue: RepairQueue = field(default_factory=RepairQueue)
    controls: FleetControls

    @property
    def _permits(self) -> IsolationPermits:
        return self.isolate.permits

    def _queued(self, rules: Rules, excluded: Collection[str] = ()) -> list[QueuedCase]:
        now = truncate(self.clock.now())
        control = self._control(rules.config.cluster)
        return self.queue.shown_to(control, rules.policy, now, excluded, self._queue_use(rules, control, now))

    def _queue_use(self, rules: Rules, control: Control, now: datetime) -> IsolationUse | None:
        return self._use(rules, control, self.queue.budgeted(), now)

    def _commit(self, control: Control, ready: Sequence[ReadyCase], now: datetime) -> list[NodeState]:
        self.table.write(take_slots(control, ready, now))
        store = self.append
        if not isinstance(store, NodeStore):
            raise TypeError
        return [store.store(one.state, admit_case(one, now), Actor.DISPATCH) for one in ready]

    def _control(self, cluster: str) -> Control:
        return self.controls.with_vacancies(cluster)

    def next_change(self, rules: Rules, now: datetime) -> datetime | None:
        """Return the next time after `now` at which dispatch may decide differently without a new entry.

        Returns None if time alone cannot change its decision.
        """
        control, policy = self._control(rules.config.cluster), rules.policy
        delayed = self.queue.next_delayed(now)
        times = [start + HOUR for start in control.starts] + ([delayed] if delayed else [])
        times += list(control.no_capacity_until.values())
        times += [vacancy.since + MAX_OWED for vacancy in control.vacancies]
        use = self._queue_use(rules, control, now)
        if use is not None and (leaves := next_leave(self.table, now)) is not None:
            times.append(leaves)
        if any(rule.windows for rule in policy.rules) or self.queue.unrecorded(control, policy, now, use):
            times.append(now + MINUTE)
        return min((at for at in times if at > now), default=None)


def next_leave(table: ItemTable, now: datetime) -> datetime | None:
    """Return the next time after `now` at which a node that is left to an operator is no longer expected to serve."""
    left = (from_text(str(row["left_at"])) for row in table.unhealthy.rows() if row.get("left_at"))
    leaves = (at + LEAVES_AFTER + timedelta(milliseconds=1) for at in left)
    return min((at for at in leaves if at > now), default=None)
