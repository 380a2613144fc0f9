"""One simulated run of a seed: draw faults and actions, run them, come to rest, check invariants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random

from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.spares import SpareStatus
from faultbridge.repair.spares.pool import read_spares
from faultbridge.simulation.environment.action_plan import ExternalAction, draw_plan
from faultbridge.simulation.environment.sources_and_operators import Environment
from faultbridge.simulation.fault_injection import (
    MAX_CALLS_FOR_SPARES,
    MAX_CALLS_PER_ACTION,
    CallLimitExceeded,
    FaultInjector,
    draw_fault_profile,
)
from faultbridge.simulation.invariants.catalog import check
from faultbridge.simulation.invariants.view import SystemView
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.simulated_system import REPAIRED, SWEEP, SimulatedSystem
from faultbridge.storage import keys
from faultbridge.storage.writes import Update

STEPS = 40
MAX_REST = timedelta(hours=60)
IDLE_SWEEPS_AT_REST = 2
RESUME_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class History:
    """The result of one run: the violated invariants with details, and the journal."""

    seed: int
    steps: int
    broken: tuple[str, ...]
    injected: int
    journal: Journal

    @property
    def digest(self) -> str:
        """Return a hash of the journal; the same seed and steps give the same digest."""
        return self.journal.digest()

    @property
    def replay(self) -> str:
        """Return the command that repeats this run."""
        return f"faultbridge simulate --seed {self.seed} --steps {self.steps}"


def run(seed: int, steps: int = STEPS, *, without: frozenset[int] = frozenset()) -> History:
    """Run a seed; `without` skips injected faults by number, which shrinking uses."""
    return play(seed, draw_plan(seed, steps, draw_fault_profile(seed).mean_gap), without=without)


def play(seed: int, actions: tuple[ExternalAction, ...], *, without: frozenset[int] = frozenset()) -> History:
    """Run the given actions with the fault profile of a seed."""
    system = build_system(seed, without=without)
    system.seam.calls_left += MAX_CALLS_PER_ACTION * len(actions) + (MAX_CALLS_FOR_SPARES if system.by_template else 0)
    try:
        _perform(system, actions)
    except CallLimitExceeded as error:
        system.journal.add_violation("a run comes to rest", f"{error} is called again and again")
        found: tuple[str, ...] = ()
    else:
        found = tuple(check(SystemView(system)))
    broken = (*dict.fromkeys(system.journal.violations), *found)
    return History(seed, len(actions), broken, system.injector.injected, system.journal)


def _perform(system: SimulatedSystem, actions: tuple[ExternalAction, ...]) -> None:
    """Perform the actions one after the other, then let the system come to rest."""
    environment = Environment(system)
    system.injector.enabled = True
    system.sweep_within_a_minute()
    for action in actions:
        system.pass_time(timedelta(seconds=action.gap))
        environment.perform(action)
        system.deliver_changes()
    come_to_rest(system)


def build_system(seed: int, *, without: frozenset[int] = frozenset()) -> SimulatedSystem:
    """Build the simulated system of a seed: fault profile, size and configuration of its clusters."""
    random = Random(f"scene {seed}")  # another text gives other histories for the same seeds
    make_injector = partial(FaultInjector, without=without)
    system = SimulatedSystem(seed, draw_fault_profile(seed), make_injector=make_injector)
    nodes, watched = random.randint(1, 3), random.randint(1, 2)
    scheduler = random.random() < 0.7  # noqa: PLR2004 - the share of clusters with a scheduler
    followed = int(random.random() < 0.25)  # noqa: PLR2004 - few, because each cluster adds run time
    proceeds = random.random() < 0.3  # noqa: PLR2004 - the share of policies that proceed
    system.build(nodes=nodes, watched=1 if followed else watched, scheduler=scheduler, followed=followed)
    provider = Random(f"provider {seed}")
    if provider.random() < 0.4:  # noqa: PLR2004 - the share of clusters with a launch template
        system.launch_from_templates(spares=provider.choice((0, 0, 1, 2)))
    if proceeds:
        system.proceed_without_orchestrator()
    return system


def come_to_rest(system: SimulatedSystem, *, injecting: bool = False) -> None:
    """End all faults (unless `injecting`) and run until nothing changes any more, for at most 60 hours."""
    system.journal.add(Kind.ACTION, "from here on nothing new happens")
    system.injector.enabled = injecting
    _end_failures(system)
    # An operator without an answer repeats a pause; the last repetition lies before this resume.
    system.schedule.after(RESUME_AFTER_SECONDS, "operator", lambda: _resume(system))
    system.deliver_changes()
    system.queue.poll_soon()
    until, rounds = system.clock.now() + MAX_REST, 0
    system.idle_sweeps = 0
    while system.clock.now() < until and rounds < IDLE_SWEEPS_AT_REST:
        before = system.idle_sweeps
        system.schedule.step()
        if system.idle_sweeps > before:
            rounds = rounds + 1 if _is_at_rest(system) else 0
        elif system.idle_sweeps < before:
            rounds = 0


def _end_failures(system: SimulatedSystem) -> None:
    """Remove scripted failures, outages and shortages; verifications return the true results."""
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
    results = ports.verifier.results
    ports.verifier.results = {one: system.true_verification(one) for one in results if one in system.bad_instances}
    system.bad_arrivals = 0
    system.fleet.set_capacity(None)


def _resume(system: SimulatedSystem) -> None:
    """Resume the repairs of the repaired cluster."""
    key = keys.cluster_control(REPAIRED)
    if system.ports.table.get(key) is not None:
        system.ports.table.write(Update(key, set={("paused",): False}, add={"version": 1}))


def _is_at_rest(system: SimulatedSystem) -> bool:
    """Return whether nothing is queued, scheduled or due, and every live case is escalated."""
    if system.ports.queue.messages or set(system.schedule.pending_names()) - {SWEEP}:
        return False
    view = SystemView(system)
    live = [state.live_case for state in view.nodes if state.live_case is not None]
    now = system.clock.now()
    due = any(state.due_at is not None and state.due_at <= now for state in view.nodes)
    pool = [spare.status for spare in read_spares(system.ports.table, REPAIRED)]
    if sum(status in {SpareStatus.READY, SpareStatus.TAKEN} for status in pool) != system.spares:
        return False
    return not due and all(case.status is CaseStatus.ESCALATED for case in live)
