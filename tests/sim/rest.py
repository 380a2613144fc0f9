"""The end of a run: injected faults end, the system becomes idle, and operators end the open cases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.spares.pool import read_spares
from faultbridge.serve.pager.open_pages import OpenPages
from faultbridge.serve.wiring.installation import Installation
from faultbridge.serve.wiring.services import wire_controls, wire_node_orders, wire_retirement
from tests.sim.invariants.cases import is_settled
from tests.sim.invariants.repairs import unused_launches
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Kind
from tests.sim.policies import LOST, hashed
from tests.sim.simulated_system import REPAIRED, SimulatedSystem
from tests.sim.sweep_schedule import SWEEP

MAX_REST = timedelta(days=10)
IDLE_SWEEPS_AT_REST = 2
INVENTORY_RUNS = timedelta(minutes=5)
"""Time after the grace period of an update within which an inventory run reads that the update is over."""

RESUME_AFTER_SECONDS = 60.0
NO_HEARTBEATS = timedelta(days=30)
ORDER = OperatorOrder("arn:aws:iam::111122223333:role/operator", "at the end of the run")


def come_to_rest(system: SimulatedSystem, *, injecting: bool = False) -> None:
    """End the failures that external actions caused, and run until the system is idle.

    If the system does not become idle, the run stops after ten simulated days. If `injecting` is True, faults of
    calls are still injected.
    """
    system.journal.add(Kind.ACTION, "from here on nothing new happens")
    system.injector.enabled = injecting
    _end_failures(system)
    # An operator without an answer repeats a pause; the last repetition lies before this resume.
    system.schedule.after(RESUME_AFTER_SECONDS, "operator", lambda: _resume(system))
    _run_to_rest(system)


def _run_to_rest(system: SimulatedSystem) -> None:
    system.deliver_changes()
    system.queue.poll_soon()
    until, rounds = system.clock.now() + MAX_REST, 0
    system.allow_calls(MAX_REST)
    system.sweeps.idle = 0
    while system.clock.now() < until and rounds < IDLE_SWEEPS_AT_REST:
        before = system.sweeps.idle
        system.schedule.step()
        if system.sweeps.idle > before:
            rounds = rounds + 1 if _is_at_rest(system) else 0
            _close_latched_breakers(system)
        elif system.sweeps.idle < before:
            rounds = 0


def _end_failures(system: SimulatedSystem) -> None:
    system.injector.outages.clear()
    ports = system.ports
    ports.provider.failures.clear()
    ports.provider.probe_unknown = False
    ports.launcher.failures.clear()
    ports.restarter.failures.clear()
    ports.restarter.status_unknown = False
    ports.restarter.results.clear()
    ports.orchestrator.failures.clear()
    ports.orchestrator.busy_until.clear()
    ports.orchestrator.unreachable_until = None
    system.health.end_injected_results()
    ports.volume_mover.failures.clear()
    ports.volume_mover.stuck.clear()
    ports.provider.reserved = False
    system.fleet.set_capacity(None)
    system.lasting_shortage = False
    system.stopped_until = system.clock.now()
    system.workers.clock_errors.clear()
    system.truth.work.clear()
    ports.launcher.hidden_until = None


def _resume(system: SimulatedSystem) -> None:
    app = system.workers.application()
    if (system.ports.table.get(keys.CURRENT_POLICY) or {}).get("version") == LOST:
        system.schedule.after(3600.0, "operator", lambda: _resume(system))  # no order is possible before
        return
    if system.ports.table.get(keys.cluster_control(REPAIRED)) is not None:
        wire_controls(app).resume(REPAIRED, force=True)
    for state in SystemView(system).nodes:
        if state.ignored is not None:
            wire_node_orders(app).end_ignore(state.key, ORDER)


def _close_latched_breakers(system: SimulatedSystem) -> None:
    control = items.read_control(REPAIRED, system.ports.table.get(keys.cluster_control(REPAIRED)))
    if any(breaker.stays_open for breaker in control.breakers.values()):
        system.journal.add(Kind.ACTION, "an operator closes the breakers that stay open")
        wire_controls(system.workers.application()).close_breakers(REPAIRED)


def _is_at_rest(system: SimulatedSystem) -> bool:
    """Return whether the system is idle: nothing can change without a new external action.

    In an idle system, the spare pool is full, all live cases are settled, no launched instance is unused, no work is
    queued or due, no page waits for a summary, and no incident or update is unfinished. No node waits for the end of
    its exclusion, or for the next try of its isolation. After a restore, an instance may stay that the table does not
    know. No node without an instance waits for the inventory run that retires or escalates it.
    """
    if system.ports.queue.messages or set(system.schedule.pending_names()) - {SWEEP}:
        return False
    if system.checks.incidents.unfinished:
        return False
    view = SystemView(system)
    if (any(unused_launches(view)) and not system.restored) or system.owner.is_updating:
        return False
    live = [state.live_case for state in view.nodes if state.live_case is not None]
    now, quiet_until = system.clock.now(), system.owner.quiet_until()
    if quiet_until is not None and now < quiet_until + INVENTORY_RUNS:
        return False
    due = system.vacant_until() is not None or any(
        state.due_at is not None and state.due_at <= now for state in view.nodes
    )
    waits = any(_is_waiting(state, now) for state in view.nodes)
    pool = [spare.status for spare in read_spares(system.ports.table, REPAIRED)]
    if sum(status in {SpareStatus.READY, SpareStatus.TAKEN} for status in pool) != system.spares:
        return False
    return not (due or waits or _waits_for_summary(system)) and all(is_settled(case, live) for case in live)


def _waits_for_summary(system: SimulatedSystem) -> bool:
    """Return whether a page above the hourly limit is in no summary yet: summaries are five minutes apart."""
    open_pages = OpenPages(system.ports.table, system.clock, max_per_hour=0)
    return any(
        page.last_sent_at is None
        for cluster in {state.key.cluster for state in SystemView(system).nodes}
        for urgency in PageUrgency
        for page in open_pages.read_all(cluster, urgency)[0]
        if not (page.individual or page.postponed or page.silenced)
    )


def _is_waiting(state: NodeState, now: datetime) -> bool:
    """Return whether a node waits for the end of its exclusion, or for the next try of its isolation.

    An exclusion keeps the node from repairs. The node's timer (`due_at`) includes neither of the two times.
    """
    waits = state.ignored.until if state.ignored else None, state.isolation_again_at
    return any(until is not None and until > now for until in waits)


def end_cases(system: SimulatedSystem) -> Iterator[str]:
    """Fix the nodes with a live case, and end their cases by orders, as operators do.

    Operators first return all these nodes to service, then replace the nodes whose case is still live, and finally
    retire the rest. Yields a line of text for each case or incident that is open after this.
    """
    orders = (_return, _replace, _retire)
    for number, order in enumerate(orders):
        escalated = [state for state in SystemView(system).nodes if state.live_case is not None]
        if not escalated:
            break
        app = system.workers.application()
        if number == 0:
            system.journal.add(Kind.ACTION, "operators end the cases that need them")
            PolicyStore(app.ports.table, app.ports.clock).put(_last_policy())
        for state in escalated:
            system.health.fix(state)
            try:
                order(app, state.key)
            except Rejected as refusal:
                system.journal.add(Kind.NOTE, f"{state.key.stream}: {refusal}")
        _run_to_rest(system)
    yield from (f"incidents end: {name}" for name in system.checks.incidents.unfinished)
    yield from (
        f"an operator can end every case: {one.key.stream} is {one.status}, its case {one.live_case.status}"
        for one in SystemView(system).nodes
        if one.live_case is not None
    )


def _last_policy() -> Any:
    """Return the last policy of a run: the default policy with a heartbeat timeout of 30 days.

    The agents of a run stop before its end. With this policy, the missing heartbeats have no effect.
    """
    limits = replace(default_policy().limits, heartbeat_timeout=NO_HEARTBEATS)
    return hashed(replace(default_policy(), limits=limits))


def _return(app: Installation, node: NodeKey) -> None:
    wire_node_orders(app).return_node(node, ORDER)


def _replace(app: Installation, node: NodeKey) -> None:
    wire_node_orders(app).replace(node, ORDER)


def _retire(app: Installation, node: NodeKey) -> None:
    wire_retirement(app).retire(node, ORDER)
