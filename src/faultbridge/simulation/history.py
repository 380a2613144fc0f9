"""One history: a seed's weather, its plan of acts, the quiet that follows, and what must hold then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random

from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.spares import SpareStatus
from faultbridge.repair.spares.pool import places_of
from faultbridge.simulation.actors import Actors
from faultbridge.simulation.acts import Act, plan
from faultbridge.simulation.chaos import MAX_CALLS_A_STEP, MAX_FOR_A_POOL, Chaos, Endless
from faultbridge.simulation.invariants import check
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.scene import ACTING, SWEEP, Scene
from faultbridge.simulation.view import View
from faultbridge.simulation.weather import weather_of
from faultbridge.storage import keys
from faultbridge.storage.writes import Update

STEPS = 40
MAX_QUIET = timedelta(hours=60)
CALM_ROUNDS = 2
ORDERED_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class History:
    """What one run came to: the broken invariants, with what each says, and how it got there."""

    seed: int
    steps: int
    broken: tuple[str, ...]
    injected: int
    journal: Journal

    @property
    def digest(self) -> str:
        """Return a hash of everything that happened, the same for the same seed and steps."""
        return self.journal.digest()

    @property
    def replay(self) -> str:
        """Return the command that runs exactly this history again."""
        return f"faultbridge simulate --seed {self.seed} --steps {self.steps}"


def run(seed: int, steps: int = STEPS, *, without: frozenset[int] = frozenset()) -> History:
    """Run a seed's history; `without` leaves out injected faults by their number, for shrinking."""
    return play(seed, plan(seed, steps, weather_of(Random(f"weather {seed}")).gap), without=without)


def play(seed: int, acts: tuple[Act, ...], *, without: frozenset[int] = frozenset()) -> History:
    """Run given acts in a seed's weather."""
    scene = scene_of(seed, without=without)
    scene.seam.calls_left += MAX_CALLS_A_STEP * len(acts) + (MAX_FOR_A_POOL if scene.by_template else 0)
    try:
        _happen(scene, acts)
    except Endless as endless:
        scene.journal.problem("a history comes to its end", f"{endless} is called again and again")
        found: tuple[str, ...] = ()
    else:
        found = tuple(check(View(scene)))
    broken = (*dict.fromkeys(scene.journal.problems), *found)
    return History(seed, len(acts), broken, scene.chaos.injected, scene.journal)


def _happen(scene: Scene, acts: tuple[Act, ...]) -> None:
    actors = Actors(scene)
    scene.chaos.calm = False
    scene.sweep_soon()
    for act in acts:
        scene.pass_time(timedelta(seconds=act.gap))
        actors.play(act)
        scene.settle()
    calm_down(scene)


def scene_of(seed: int, *, without: frozenset[int] = frozenset()) -> Scene:
    """Set the scene of a seed: its weather and the size of its clusters."""
    random = Random(f"scene {seed}")
    scene = Scene(seed, weather_of(Random(f"weather {seed}")), chaos=partial(Chaos, without=without))
    nodes, watched = random.randint(1, 3), random.randint(1, 2)
    scheduler = random.random() < 0.7  # noqa: PLR2004 - most clusters have one
    followed = int(random.random() < 0.25)  # noqa: PLR2004 - each cluster costs its share of a seed
    proceeds = random.random() < 0.3  # noqa: PLR2004 - most policies hold
    scene.build(nodes=nodes, watched=1 if followed else watched, scheduler=scheduler, followed=followed)
    provider = Random(f"provider {seed}")
    if provider.random() < 0.4:  # noqa: PLR2004 - and some launch what they need themselves
        scene.launch_from_templates(spares=provider.choice((0, 0, 1, 2)))
    if proceeds:
        scene.proceed_with_the_dead()
    return scene


def calm_down(scene: Scene, *, injecting: bool = False) -> None:
    """Stop breaking things (unless `injecting`) and let time run until nothing moves any more, at most some days."""
    scene.journal.note(Kind.ACT, "from here on nothing new happens")
    scene.chaos.calm = not injecting
    scene.chaos.outages.clear()
    ports = scene.ports
    ports.provider.failures.clear()
    ports.provider.blind = False
    ports.launcher.failures.clear()
    ports.restarter.failures.clear()
    ports.restarter.blind = False
    ports.restarter.results.clear()
    ports.orchestrator.failures.clear()
    ports.orchestrator.busy_until.clear()
    ports.orchestrator.silent_until = None
    ports.verifier.results = {one: scene.graded(one) for one in ports.verifier.results if one in scene.lemons}
    scene.broken_arrivals = 0
    scene.fleet.restock(None)
    # By then whoever ordered a pause and got no answer has ordered it again.
    scene.schedule.after(ORDERED_WITHIN, "operator", lambda: _resume(scene))
    scene.settle()
    scene.queue.wake()
    until, rounds = scene.clock.now() + MAX_QUIET, 0
    scene.idle = 0
    while scene.clock.now() < until and rounds < CALM_ROUNDS:
        before = scene.idle
        scene.schedule.step()
        if scene.idle > before:
            rounds = rounds + 1 if _quiet(scene) else 0
        elif scene.idle < before:
            rounds = 0


def _resume(scene: Scene) -> None:
    place = keys.cluster_control(ACTING)
    if scene.ports.table.get(place) is not None:
        scene.ports.table.write(Update(place, set={("paused",): False}, add={"version": 1}))


def _quiet(scene: Scene) -> bool:
    if scene.ports.queue.messages or set(scene.schedule.waiting()) - {SWEEP}:
        return False
    view = View(scene)
    live = [state.live_case for state in view.nodes if state.live_case is not None]
    now = scene.clock.now()
    due = any(state.due_at is not None and state.due_at <= now for state in view.nodes)
    pool = [spare.status for spare in places_of(scene.ports.table, ACTING)]
    if sum(status in {SpareStatus.READY, SpareStatus.TAKEN} for status in pool) != scene.spares:
        return False
    return not due and all(case.status is CaseStatus.ESCALATED for case in live)
