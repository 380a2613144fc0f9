"""Cluster view: in-memory indexes of the nodes of a fleet, in place of the indexes of the table."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime

from faultbridge.decide.breaker import FailingNode, evaluate_breakers, failing_node
from faultbridge.decide.case_moves import SETTLE
from faultbridge.model.cases import Case
from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.entries import Draft
from faultbridge.model.enums import BreakerScope, CaseStatus, EntryType, NodeStatus, WaitingFor
from faultbridge.model.event_data import CaseStatusData, NoteData
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.projections import queued_case
from faultbridge.model.storage.writes import Work
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.repair.isolate import IsolationResult, isolation_urgency
from faultbridge.serve.ops.sweep import numbers_to_read
from tests.lab.jobs import Jobs
from tests.lab.product.fleet_dispatch import next_leave
from tests.lab.product.fleet_services import CLUSTER, FleetServices
from tests.lab.trace import HOUR

TRIGGERS = frozenset({EntryType.NODE_STATUS, EntryType.CASE_STATUS})
_CONTROL = keys.cluster_control(CLUSTER)
PAGED_NOTES = frozenset({"approval"})


class ClusterView:
    """In-memory indexes of the nodes. Each commit updates them, so that no decision reads all nodes."""

    def __init__(self, services: FleetServices, log: Jobs) -> None:
        """Start with empty indexes: all nodes are healthy."""
        self._services, self._log = services, log
        self._timers: list[tuple[datetime, NodeKey]] = []
        self._failing: dict[NodeKey, FailingNode] = {}
        self._waiting: dict[NodeKey, tuple[WaitingFor, float]] = {}
        self._serving: set[NodeKey] = set()
        self._unchecked: set[NodeKey] = set()
        self._held: set[NodeKey] = set()
        self._awaiting: dict[NodeKey, datetime] = {}
        self._seen: Hashable = None
        self._held_at: Hashable = None
        self._held_again: datetime | None = None
        self._dispatch_again: datetime | None = None
        self._breaker_active = self._evaluated = False
        self._moves = 0
        self._breaker_again: datetime | None = None

    def update(self, before: NodeState, after: NodeState, drafts: tuple[Draft, ...], at: float) -> None:
        """Update the indexes after one commit of a node.

        `before` and `after` are the states of the node, `drafts` its new entries, and `at` the time in seconds.
        """
        if after.due_at is not None and after.due_at != before.due_at:
            heapq.heappush(self._timers, (after.due_at, after.key))
        case, old = after.live_case, before.live_case
        if case is not old and not _alike(case, old):
            self._update_queue(after)
            self._update_waiting(after, at)
        elif drafts and case is not None and case.status is CaseStatus.QUEUED:
            self._update_queue(after)  # whether it needs a permit depends on its node
        if before.status is not after.status:
            self._moves += 1
        if drafts:
            self._update_failing(after)
            self._count(drafts)

    def _update_failing(self, state: NodeState) -> None:
        key, case = state.key, state.live_case
        if case is not None and case.awaits_correlation:
            self._awaiting[key] = case.opened_at + SETTLE
        else:
            self._awaiting.pop(key, None)
        failing = None
        if case is not None and state.status not in {None, NodeStatus.HEALTHY, NodeStatus.RETIRED}:
            failing = failing_node(state, case)
        if failing is not None and failing.status is NodeStatus.DEGRADED:
            self._serving.add(key)
            self._unchecked.add(key)
        else:
            self._serving.discard(key)
            self._unchecked.discard(key)
        if failing == self._failing.get(key):
            return
        self._evaluated = False
        if failing is None:
            self._failing.pop(key, None)
        else:
            self._failing[key] = failing

    def _count(self, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            if isinstance(draft.data, CaseStatusData):
                self._log.counts[f"cases_{draft.data.to}"] += 1
                self._log.counts["pages"] += draft.data.to is CaseStatus.ESCALATED
            elif isinstance(draft.data, NoteData) and draft.data.kind in PAGED_NOTES:
                self._log.counts["pages"] += draft.data.stage == "begun"

    @staticmethod
    def triggers(drafts: tuple[Draft, ...]) -> bool:
        """Return whether any of these new entries triggers the product's `react` function."""
        return any(draft.type in TRIGGERS for draft in drafts)

    def to_escalate(self, now: datetime) -> list[NodeKey]:
        """Return the nodes whose case continues without an incident, because its waiting time has ended.

        A case waits for an incident for the time `SETTLE` after it was opened.
        """
        return sorted(key for key, at in self._awaiting.items() if at <= now)

    def next_due(self) -> datetime | None:
        """Return the earliest time at which a sweep has work to do; None if there is no such time."""
        while self._timers and self._services.store.states[self._timers[0][1]].due_at != self._timers[0][0]:
            heapq.heappop(self._timers)
        times = [*self._awaiting.values(), *([self._timers[0][0]] if self._timers else [])]
        now = self._services.store.clock.now()
        if self._services.dispatch.queue:
            times += [self._dispatch_again] if self._dispatch_again is not None else []
            times += [now] if self._seen != self._version() else []
        if self._held:
            times += [self._held_again] if self._held_again is not None else []
            times += [now] if self._budget_may_change() else []
        if self._breaker_again is not None:
            times.append(self._breaker_again)
        return min(times, default=None)

    def due(self, now: datetime) -> list[NodeState]:
        """Return the nodes whose timer is due, in the order of the product's sweep, and remove these timers."""
        found: dict[NodeKey, NodeState] = {}
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            state = self._services.store.states[key]
            if state.due_at == at:
                found[key] = state
        return _in_order(list(found.values()), now)

    def to_isolate(self) -> list[NodeKey]:
        """Return the nodes in service whose isolation must be tried again.

        These are the nodes that have a live case and got a new entry since the last call. If a breaker has changed its
        state since then, they are all nodes in service with a live case. If the use of the isolation budget may have
        changed since then, the nodes that it kept in service are tried again, too.
        """
        found = set(self._unchecked)
        self._unchecked.clear()
        if self._held and self._budget_may_change():
            found |= self._held
            now, table = self._services.store.clock.now(), self._services.table
            self._held_at, self._held_again = self._budget(), next_leave(table, now)
        return self.in_order(found)

    def in_order(self, nodes: Iterable[NodeKey]) -> list[NodeKey]:
        """Return nodes in the order in which the product isolates them."""
        return [one.key for one in sorted(self._services.store.read_many(nodes), key=isolation_urgency)]

    def isolated(self, key: NodeKey, result: IsolationResult) -> None:
        """Record the result of an isolation: a node that is held is tried again."""
        if result is IsolationResult.HELD:
            self._held.add(key)
        else:
            self._held.discard(key)

    def _budget_may_change(self) -> bool:
        now = self._services.store.clock.now()
        timed = self._held_again is not None and self._held_again <= now
        return timed or self._held_at != self._budget()

    def _budget(self) -> Hashable:
        return self._controls_version(), self._services.table.unhealthy.version

    def dispatch_may_change(self, now: datetime) -> bool:
        """Return whether a new run of dispatch may decide differently from the last run.

        The result is False if the queue is empty. Otherwise it is True if the queue or the cluster's controls have
        changed since the last run, or if the time from `FleetDispatch.next_change` has come.
        """
        if not self._services.dispatch.queue:
            return False
        timed = self._dispatch_again is not None and self._dispatch_again <= now
        return timed or self._seen != self._version()

    def begin_dispatch(self) -> None:
        """Record that dispatch runs with the current queue, nodes and controls; its own changes come after this."""
        self._seen = self._version()

    def dispatched(self, now: datetime) -> None:
        """Record that a run of dispatch has ended."""
        services = self._services
        self._dispatch_again = services.dispatch.next_change(services.rules, now)

    def update_breakers(self, now: datetime) -> None:
        """Update the circuit breakers by the product's rule, from the nodes that are failing.

        Nothing is computed in two cases: no failing node has changed and no open breaker is due, or all breakers are
        closed and the number of failing nodes is too small to open a breaker.
        """
        services = self._services
        limits, failing = services.rules.policy.breakers, len(self._failing)
        nodes = services.rules.config.expected
        cluster = [limit for limit in limits if limit.scope is BreakerScope.CLUSTER]
        can_open = any(failing >= one.nodes and failing * 100 >= one.percent * nodes for one in cluster)
        due = self._breaker_again is not None and self._breaker_again <= now
        if (self._evaluated and not due) or (not can_open and not self._breaker_active):
            return
        control = services.control()
        moved = evaluate_breakers(control.breakers, limits, self._failing.values(), {None: nodes}, now)
        self._evaluated = not moved
        self._breaker_again = self._quiet_until(control.breakers, now)
        if moved:
            breakers = {**control.breakers, **{one.name: one.breaker for one in moved}}
            self._write(replace(control, breakers=breakers, version=control.version + 1), now)
            self._log.counts["pages"] += sum(one.breaker.state is BreakerState.OPEN for one in moved)
            self._log.counts["breaker_openings"] += sum(one.breaker.state is BreakerState.OPEN for one in moved)
            self._breaker_active = any(one.state is not BreakerState.CLOSED for one in breakers.values())
            self._breaker_again = now if self._breaker_active else None
            self._unchecked |= self._serving

    def _quiet_until(self, breakers: Mapping[str, Breaker], now: datetime) -> datetime | None:
        """Return the next time at which an open breaker may become half open if no further node fails.

        Returns None if there is no such time.
        """
        newest = max((one.opened_at for one in self._failing.values()), default=now)
        quiet = min(limit.quiet for limit in self._services.rules.policy.breakers)
        times = (max(newest, one.since) + quiet for one in breakers.values() if one.state is BreakerState.OPEN)
        return min((at for at in times if at > now), default=None)

    def end(self, at: float) -> None:
        """Log, by reason, the hours that each waiting case has waited until `at`, the end of the run."""
        for reason, since in self._waiting.values():
            self._log.waited[reason.value] += (at - since) / HOUR

    def _write(self, control: Control, now: datetime) -> None:
        self._services.table.items[_CONTROL] = items.control_item(control, now)

    def _version(self) -> Hashable:
        """Return a value that differs if dispatch may decide differently."""
        services = self._services
        budgeted = any(services.dispatch.queue.budgeted())
        nodes = (
            services.table.unhealthy.version
            if budgeted
            else services.dispatch.controls.with_vacancies(CLUSTER).vacancies
        )
        return services.dispatch.queue.changes, self._controls_version(), nodes, self._log.idled, self._moves

    def _controls_version(self) -> int:
        version = self._services.table.items[_CONTROL].get("version", 0)
        return version if isinstance(version, int) else 0

    def _update_queue(self, state: NodeState) -> None:
        services = self._services
        if (queued := queued_case(state)) is not None:
            services.dispatch.queue.put(queued.placed_by(services.rules.config))
        else:
            services.dispatch.queue.remove(state.key)

    def _update_waiting(self, state: NodeState, at: float) -> None:
        case = state.live_case
        reason = case.waiting_for if case is not None else None
        known = self._waiting.get(state.key)
        if known is not None and known[0] is not reason:
            self._log.waited[known[0].value] += (at - known[1]) / HOUR
            del self._waiting[state.key]
        if reason is not None and state.key not in self._waiting:
            self._waiting[state.key] = reason, at


def _alike(case: Case | None, old: Case | None) -> bool:
    """Return whether `case` and `old` are states of one case with equal status and waiting reason.

    The result is False if a state is None, for states of different cases, and for a queued case, whose entry in the
    queue must be updated.
    """
    if case is None or old is None or case.id != old.id:
        return False
    return case.status is old.status is not CaseStatus.QUEUED and case.waiting_for is old.waiting_for


def _in_order(due: list[NodeState], now: datetime) -> list[NodeState]:
    """Return nodes in the order in which the product's sweep of this minute reads their timers."""
    if len(due) <= 1:
        return due
    partitions = list(Work.TIMER.partitions(numbers_to_read({CLUSTER: max(one.shard for one in due) + 1}, now)))
    return sorted(due, key=lambda one: _timer_order(one, partitions))


def _timer_order(state: NodeState, partitions: Sequence[str]) -> tuple[int, str, str]:
    row = Work.TIMER.row(CLUSTER, state.shard, state.key.stream, to_text(state.due_at) if state.due_at else "")
    return partitions.index(row["gsi4pk"]), row["gsi4sk"], keys.node_state(state.key).pk
