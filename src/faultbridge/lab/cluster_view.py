"""Cluster view: what the product's indexes hold, kept in memory: due timers, queued cases and failing nodes."""

from __future__ import annotations

import heapq
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.cluster.breakers import BreakerScope, BreakerState
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.lab.fleet_log import FleetLog
from faultbridge.lab.fleet_services import CLUSTER, FleetServices
from faultbridge.lab.trace import HOUR
from faultbridge.pipeline.decide.breaker import FailingNode, evaluate_breakers
from faultbridge.storage import items, keys
from faultbridge.storage.projections import QUEUE, derived_rows, read_queued

TRIGGERS = frozenset({EntryType.NODE_STATUS, EntryType.CASE_STATUS})
_CONTROL = keys.cluster_control(CLUSTER)
PAGED_NOTES = frozenset({"approval"})


class ClusterView:
    """Follows every commit, so that no decision needs a scan of the nodes."""

    def __init__(self, services: FleetServices, log: FleetLog) -> None:
        """Start with healthy nodes only."""
        self._services, self._log = services, log
        self._timers: list[tuple[datetime, NodeKey]] = []
        self._failing: dict[NodeKey, FailingNode] = {}
        self._waiting: dict[NodeKey, tuple[WaitingFor, float]] = {}
        self._queue_changes, self._seen = 0, (-1, -1)
        self._dispatch_again: datetime | None = None
        self._breaker_active = False

    def update(self, before: NodeState, after: NodeState, drafts: tuple[Draft, ...], at: float) -> None:
        """Follow one commit of a node."""
        key, case = after.key, after.live_case
        if after.due_at is not None and after.due_at != before.due_at:
            heapq.heappush(self._timers, (after.due_at, key))
        if case is not before.live_case:
            self._update_queue(after)
            self._update_waiting(after, at)
        if case is None or after.status in {None, NodeStatus.HEALTHY, NodeStatus.RETIRED}:
            self._failing.pop(key, None)
        elif after.status is not None:
            self._failing[key] = FailingNode(after.status, after.placement.domain, case.opened_at)
        for draft in drafts:
            if draft.type is EntryType.CASE_STATUS:
                self._log.counts[f"cases_{draft.data['to']}"] += 1
                self._log.counts["pages"] += draft.data["to"] == "escalated"
            elif draft.type is EntryType.NOTE and draft.data.get("kind") in PAGED_NOTES:
                self._log.counts["pages"] += draft.data.get("stage") == "begun"

    @staticmethod
    def triggers(drafts: tuple[Draft, ...]) -> bool:
        """Return whether the product reacts to entries."""
        return any(draft.type in TRIGGERS for draft in drafts)

    def next_due(self, now: datetime) -> datetime | None:
        """Return when the next sweep has something to do, or None."""
        while self._timers and self._services.store.states[self._timers[0][1]].due_at != self._timers[0][0]:
            heapq.heappop(self._timers)
        times = [self._timers[0][0]] if self._timers else []
        if self._services.dispatch.queue and self._dispatch_again is not None:
            times.append(self._dispatch_again)
        if self._breaker_active:
            times.append(now)
        return min(times, default=None)

    def due(self, now: datetime) -> list[NodeState]:
        """Return the nodes whose timer is due, and forget their timers."""
        found: dict[NodeKey, NodeState] = {}
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            state = self._services.store.states[key]
            if state.due_at == at:
                found[key] = state
        return list(found.values())

    def serving_with_case(self) -> list[NodeKey]:
        """Return the nodes in service that have a live case, which a breaker may have kept from isolation."""
        return sorted(key for key, one in self._failing.items() if one.status is NodeStatus.DEGRADED)

    def dispatch_may_change(self, now: datetime) -> bool:
        """Return whether admission may decide otherwise than at its last run: its inputs or the time changed."""
        if not self._services.dispatch.queue:
            return False
        timed = self._dispatch_again is not None and self._dispatch_again <= now
        return timed or self._seen != self._version()

    def dispatched(self, now: datetime) -> None:
        """Note that admission has run to its end on the current inputs."""
        self._seen = self._version()
        services = self._services
        self._dispatch_again = services.dispatch.next_change(services.control(), services.rules.policy, now)

    def update_breakers(self, now: datetime) -> None:
        """Apply the breaker rule, unless no breaker is open and none can open with this number of failing nodes."""
        services = self._services
        limits, failing = services.rules.policy.breakers, len(self._failing)
        nodes = services.rules.config.expected
        cluster = [limit for limit in limits if limit.scope is BreakerScope.CLUSTER]
        can_open = any(failing >= one.nodes and failing * 100 >= one.percent * nodes for one in cluster)
        if not can_open and not self._breaker_active:
            return
        control = services.control()
        moved = evaluate_breakers(control.breakers, limits, self._failing.values(), {None: nodes}, now)
        if moved:
            breakers = {**control.breakers, **{one.name: one.breaker for one in moved}}
            self._write(replace(control, breakers=breakers, version=control.version + 1), now)
            self._log.counts["pages"] += sum(one.breaker.state is BreakerState.OPEN for one in moved)
            self._log.counts["breaker_openings"] += sum(one.breaker.state is BreakerState.OPEN for one in moved)
            self._breaker_active = any(one.state is not BreakerState.CLOSED for one in breakers.values())

    def end(self, at: float) -> None:
        """Count the waits that still last at the end of a run."""
        for reason, since in self._waiting.values():
            self._log.waited[reason.value] += (at - since) / HOUR

    def _write(self, control: Control, now: datetime) -> None:
        self._services.table.items[_CONTROL] = items.control_item(control, now)

    def _version(self) -> tuple[int, int]:
        item = self._services.table.items[_CONTROL]
        version = item.get("version", 0)
        return self._queue_changes, version if isinstance(version, int) else 0

    def _update_queue(self, state: NodeState) -> None:
        services, case = self._services, state.live_case
        if case is not None and case.status is CaseStatus.QUEUED:
            rows = derived_rows(state, services.rules.config, services.store.clock.now())
            row = next(one for one in rows if str(one["sk"]).startswith(QUEUE))
            services.dispatch.queue[state.key] = read_queued(services.rules.config, row)
        elif services.dispatch.queue.pop(state.key, None) is None:
            return
        self._queue_changes += 1

    def _update_waiting(self, state: NodeState, at: float) -> None:
        case = state.live_case
        reason = case.waiting_for if case is not None else None
        known = self._waiting.get(state.key)
        if known is not None and known[0] is not reason:
            self._log.waited[known[0].value] += (at - known[1]) / HOUR
            del self._waiting[state.key]
        if reason is not None and state.key not in self._waiting:
            self._waiting[state.key] = reason, at
