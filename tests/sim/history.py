"""One simulated run of a seed: draws faults and actions, runs them, and checks the invariants."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random

from faultbridge.model.enums import RepairAction
from tests.sim.environment.action_plan import ExternalAction, draw_plan
from tests.sim.environment.environment import Environment
from tests.sim.environment.volumes import give_volumes
from tests.sim.fault_injection import (
    MAX_CALLS_FOR_LARGE,
    MAX_CALLS_FOR_RACKS,
    MAX_CALLS_FOR_SPARES,
    MAX_CALLS_PER_ACTION,
    CallLimitExceeded,
    FaultInjector,
    draw_fault_profile,
)
from tests.sim.invariants.catalog import check
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal
from tests.sim.policies import proceed_without_orchestrator, require_approval
from tests.sim.rest import come_to_rest, end_cases
from tests.sim.simulated_system import SimulatedSystem
from tests.sim.situations.draw import (
    BY_TEMPLATE,
    GROUPED,
    MORE_NODES,
    OWN_PORTS,
    RACKED,
    Situation,
    draw_large,
    draw_situations,
    with_situations,
)
from tests.sim.workers import PROVING

STEPS = 40
RACKS, NODES_IN_LARGE_RACK = 2, 8
APPROVALS = tuple(tuple(RepairAction)[first:] for first in (1, 2, 3))
"""Sets of repair actions that can require approval; a run uses one of these sets."""

ASKING_CODES: tuple[tuple[str, ...], ...] = ((), ("xid.79",), ("xid.48", "gpu.*"), ("xid.79", "gpu.*"))
"""Sets of fault codes whose repairs can require approval; a run uses one of them. The empty set means all codes."""


@dataclass(frozen=True, slots=True)
class History:
    """The result of one run: a line of text for each violation (`broken`), and the journal.

    `injected` is the number of injected faults.
    """

    seed: int
    steps: int
    broken: tuple[str, ...]
    injected: int
    journal: Journal

    @property
    def digest(self) -> str:
        """Return a hash of the journal; a repetition of the same run has the same digest."""
        return self.journal.digest()

    @property
    def replay(self) -> str:
        """Return the command that runs the same seed and number of steps again, without skipping a fault."""
        return f"make seed SEED={self.seed} STEPS={self.steps}"


def collect_less() -> None:
    """Collect garbage of long runs only, and never in modules; this saves a tenth of a run's time or more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000_000, 1, 1)


def run(seed: int, steps: int = STEPS, *, without: frozenset[int] = frozenset()) -> History:
    """Run the simulation of a seed with `steps` external actions, and return the result.

    `without` contains the numbers of injected faults to skip, to find a smaller failing run.
    """
    return play(seed, draw_actions(seed, steps), without=without)


def draw_actions(seed: int, steps: int = STEPS) -> tuple[ExternalAction, ...]:
    """Draw `steps` external actions for a seed."""
    gap, racks = draw_fault_profile(seed).mean_gap, draw_nodes_in_rack(seed) is not None
    growing, volumes, reserving = draw_growing(seed), draw_volumes(seed), draw_reserving(seed)
    plan = draw_plan(
        seed, steps, gap, racks=racks, growing=growing, owned=growing, reserving=reserving, volumes=volumes
    )
    return with_situations(seed, plan)


def play(seed: int, actions: tuple[ExternalAction, ...], *, without: frozenset[int] = frozenset()) -> History:
    """Run the given actions on the simulated system of a seed, and return the result.

    `without` contains the numbers of injected faults to skip.
    """
    return play_on(build_system(seed, without=without), seed, actions)


def play_on(system: SimulatedSystem, seed: int, actions: tuple[ExternalAction, ...]) -> History:
    """Run the given actions on the system of a seed, check the invariants, and return the result.

    At the end of the run, operators end the open cases.
    """
    system.seam.calls_left += MAX_CALLS_PER_ACTION * len(actions) + (MAX_CALLS_FOR_SPARES if system.by_template else 0)
    system.seam.calls_left += MAX_CALLS_FOR_RACKS if system.racks or system.growing else 0
    system.seam.calls_left += MAX_CALLS_FOR_LARGE if draw_large(seed) else 0
    found: tuple[str, ...] = ()
    try:
        _perform(system, actions)
        found = tuple(check(SystemView(system)))
        found += tuple(end_cases(system))
    except CallLimitExceeded as error:
        system.journal.add_violation("a run comes to rest", f"{error} is called again and again")
    broken = (*dict.fromkeys(system.journal.violations), *found)
    return History(seed, len(actions), broken, system.injector.injected, system.journal)


def _perform(system: SimulatedSystem, actions: tuple[ExternalAction, ...]) -> None:
    environment = Environment(system)
    system.injector.enabled = True
    system.sweeps.within_a_minute()
    for action in actions:
        system.pass_time(timedelta(seconds=action.gap))
        environment.perform(action)
        system.deliver_changes()
    come_to_rest(system)


def draw_nodes_in_rack(seed: int) -> int | None:
    """Draw from the seed the number of nodes in each of the two racks; None if there are no racks.

    Four seeds in five have a small cluster without racks. A large cluster has racks of eight nodes.
    """
    situations = draw_situations(seed)
    if draw_large(seed) is not None:
        return NODES_IN_LARGE_RACK
    if situations & RACKED:
        return 4
    if situations & GROUPED:
        return None
    random = Random(f"racks {seed}")
    return random.randint(4, 5) if random.random() < 0.2 else None


def draw_racks(seed: int) -> int:
    """Draw from the seed the number of racks of a cluster with racks."""
    large = draw_large(seed)
    if large is not None:
        return large // NODES_IN_LARGE_RACK
    return 4 if Situation.STORM in draw_situations(seed) else RACKS


def draw_growing(seed: int) -> bool:
    """Draw from the seed whether the group of the `REPAIRED` cluster grows during the run.

    Only an inventory notices that a group shrinks, so the group of `SCALE_IN` grows as well. Another cluster with racks
    or with a launch template never grows.
    """
    if Situation.SCALE_IN in draw_situations(seed):
        return True
    if draw_nodes_in_rack(seed) is not None or draw_spares(seed) is not None:
        return False
    return Random(f"growing {seed}").random() < 0.25


def draw_reserving(seed: int) -> bool:
    """Draw from the seed whether the run has actions that limit a reservation or use up the spares.

    The probability is higher if the cluster has spares.
    """
    return Random(f"capacity {seed}").random() < (0.5 if draw_spares(seed) else 0.15)


def draw_volumes(seed: int) -> bool:
    """Draw from the seed whether the nodes of the `REPAIRED` cluster have volumes."""
    return Random(f"volumes {seed}").random() < 0.25


def draw_wrong_clocks(seed: int) -> bool:
    """Draw from the seed whether each instance of the `REPAIRED` cluster has a constant clock error.

    In a cluster with racks, no instance has a constant clock error.
    """
    return draw_nodes_in_rack(seed) is None and Random(f"clocks {seed}").random() < 0.4


def draw_spares(seed: int) -> int | None:
    """Draw from the seed the number of spares of the `REPAIRED` cluster.

    The result is None if the cluster has no launch template, and therefore no spares.
    """
    situations = draw_situations(seed)
    if situations & BY_TEMPLATE:
        return int(Situation.RESTORE in situations)
    if situations & GROUPED:
        return None
    provider = Random(f"provider {seed}")
    launches = provider.random() < 0.4
    return provider.choice((0, 0, 1, 2)) if launches else None


def draw_release_delay(seed: int) -> timedelta:
    """Draw from the seed how long the provider drains an instance before it terminates it, as Karpenter does."""
    delayed = draw_spares(seed) is None and Random(f"release {seed}").random() < 0.15
    return timedelta(minutes=12) if delayed else timedelta(0)


def build_system(seed: int, *, without: frozenset[int] = frozenset()) -> SimulatedSystem:
    """Build the simulated system of a seed: its fault profile, clusters, policies and volumes.

    `without` contains the numbers of injected faults to skip.
    """
    random = Random(f"scene {seed}")  # another text gives other histories for the same seeds
    make_injector = partial(FaultInjector, without=without)
    system = SimulatedSystem(seed, draw_fault_profile(seed), make_injector=make_injector)
    system.ports.provider.release_delay = draw_release_delay(seed)
    situations = draw_situations(seed)
    if Situation.CLAIMS in situations:
        system.workers.settings = PROVING
        system.fail_diagnostics_beside_work()
    system.workers.own_ports = bool(situations & OWN_PORTS)
    nodes, watched = random.randint(1, 3), random.randint(1, 2)
    # Claims are about work, which a scheduler knows; without one, the processes on the GPUs show it.
    scheduler = random.random() < 0.7
    if Situation.CLAIMS in situations:
        scheduler = Random(f"scheduler {seed}").random() < 0.7
    nodes = nodes if not situations & MORE_NODES else nodes + 3
    followed = int(random.random() < 0.25)
    proceeds = random.random() < 0.3
    in_rack = draw_nodes_in_rack(seed)
    system.build(
        nodes=nodes if in_rack is None else draw_racks(seed) * in_rack,
        watched=1 if followed else watched,
        scheduler=scheduler,
        followed=followed,
        nodes_in_rack=in_rack,
    )
    spares = draw_spares(seed)
    if spares is not None:
        system.launch_from_templates(spares)
    if proceeds:
        proceed_without_orchestrator(system)
    operators = Random(f"operators {seed}")
    if operators.random() < 0.5:
        actions, deadline = operators.choice(APPROVALS), timedelta(hours=operators.choice((1, 6, 24)))
        require_approval(system, actions, deadline, Random(f"asking codes {seed}").choice(ASKING_CODES))
    if draw_growing(seed):
        system.let_group_grow()
    if draw_volumes(seed):
        give_volumes(system)
    system.clocks.wrong = draw_wrong_clocks(seed)
    return system
