"""The scene of a history: one installation with up to three clusters.

One is repaired, one only watched, and one left to the provider's own repair, which is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.data.policies import default_policy
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import OrchestratorUnreachable
from faultbridge.ports import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.registry.registration import NewNode
from faultbridge.rules.policies import Policies
from faultbridge.simulation.chaos import Chaos, ChaosSeam, Crash
from faultbridge.simulation.deliveries import RINGS, Carrier, QueueMapping, Rule, StreamMapping
from faultbridge.simulation.fakes import START, FakeFleet, ManualClock
from faultbridge.simulation.fakes.verifier import PASSED
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.own_repair import OwnRepair
from faultbridge.simulation.ports import NO_SCHEDULER, OWN_REPAIR, SCHEDULER, TEMPLATES, SimulatedPorts
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.watch import Watch
from faultbridge.simulation.weather import Weather
from faultbridge.simulation.workers import Workers
from faultbridge.storage.codec import dump
from faultbridge.storage.writes import Item

ACTING, WATCHED, FOLLOWED = "train-a", "watch-b", "follow-c"
GROUPS = {ACTING: "gpu-workers", WATCHED: "gpu-watched", FOLLOWED: "gpu-followed"}
SEATS = {ACTING: "node", WATCHED: "placement", FOLLOWED: "host"}
MINUTE = 60.0
MAX_PAUSE = 900.0
SWEEP = "sweep"
CURES = (RepairAction.REBOOT_NODE, RepairAction.RESET_GPU, RepairAction.REPLACE_NODE)
"""What mends the broken machines, in turn."""

BROKEN = Verification(Verdict.FAILED, ("memory: a test of this machine fails",))


MakeChaos = Callable[[Weather, Random, Schedule, Journal], Chaos]


class Scene:
    """Everything that one history needs, put together; the product's part is its own composition."""

    def __init__(self, seed: int, weather: Weather, *, chaos: MakeChaos = Chaos) -> None:
        self.clock = ManualClock(START)
        self.journal = Journal(self.clock, START)
        self.schedule = Schedule(self.clock, settle=self.settle, heard=lambda name: self.journal.note(Kind.TURN, name))
        self.chaos = chaos(weather, Random(f"chaos {seed}"), self.schedule, self.journal)
        self.seam = ChaosSeam(self.chaos)
        self.ports = SimulatedPorts(self.clock, self.seam, self.schedule, weather)
        self.fleet: FakeFleet = self.ports.fleet
        self.workers = Workers(self.ports, self.chaos, self.journal, Random(f"jitter {seed}"))
        self.ports.workflow.handler = self.workers.step
        self.ports.restarter.on_restart = self._restarted
        carrier = Carrier(self.ports, self.schedule, Random(f"carrier {seed}"), weather, self.journal)
        self.queue = QueueMapping(carrier, self.workers.ingest)
        self.streams = (
            StreamMapping(carrier, "publish", self.workers.publish),
            StreamMapping(carrier, "react", self.workers.react, RINGS),
        )
        self.rule = Rule(carrier, self.workers.page)
        self.watch = Watch(self.ports, self.journal)
        self.seam.watchers.append(self.watch.before)
        self.hosts: dict[str, str] = {}
        self.lemons: set[str] = set()
        self.states: dict[str, tuple[Item, NodeState]] = {}
        self.taken: set[str] = set()
        self.dead = self.watch.dead
        self.policy = default_policy()
        self.own_repair: OwnRepair | None = None
        self.broken_arrivals = 0
        self._streamed = 0
        self._graded = 0
        self.idle = 0
        self.by_template, self.spares = False, 0
        self.longest = MAX_PAUSE
        self._round = 0
        self._pause = MINUTE
        self._sweep_at: datetime | None = None

    def build(self, *, nodes: int, watched: int, scheduler: bool, followed: int = 0) -> None:
        """Register the clusters and their nodes, with a machine in each node."""
        orchestrator = SCHEDULER if scheduler else NO_SCHEDULER
        act = ClusterConfig(ACTING, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT, orchestrator=orchestrator)
        follow = ClusterConfig(
            FOLLOWED,
            repair_owner=RepairOwner.PROVIDER,
            mode=Mode.ACT,
            orchestrator=orchestrator,
            provider=OWN_REPAIR,
        )
        for config, number in ((act, nodes), (ClusterConfig(WATCHED), watched), (follow, followed)):
            if number:
                self.workers.application().registration.add_cluster(config)
            for place in range(1, number + 1):
                self._seat(config.cluster, f"{SEATS[config.cluster]}-{place}")
        if followed:
            group, look = GROUPS[FOLLOWED], self.workers.look
            self.watch.followed = frozenset({group, *(f"{SEATS[FOLLOWED]}-{one + 1}" for one in range(followed))})
            self.own_repair = OwnRepair(group, self.fleet, self.schedule, self.journal, self.taken, look)
        self.watch.scheduled = scheduler
        self.settle()

    def launch_from_templates(self, spares: int) -> None:
        """Let the machines of the cluster that is repaired come from a launch template, and not from a group."""
        self.by_template, self.spares = True, spares
        self.fleet.templates.add(GROUPS[ACTING])
        self.ports.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
        self.workers.application().registration.set_cluster(
            ACTING, {"provider": TEMPLATES, "spares": spares, "spare_group": GROUPS[ACTING]}
        )
        self.settle()

    def proceed_with_the_dead(self) -> None:
        """Let repairs go on without an orchestrator that does not answer, where the machine is proven dead."""
        rules = tuple(
            replace(rule, orchestrator_unreachable=OrchestratorUnreachable.PROCEED) for rule in self.policy.rules
        )
        self.policy = replace(self.policy, version="proceeding", rules=rules)
        document: Any = dump(self.policy)
        self.workers.operate(lambda app: Policies(app.ports.table, app.ports.clock).put(document))

    def _seat(self, cluster: str, name: str) -> None:
        instance = self.fleet.launch(GROUPS[cluster], at=self.clock.now() - timedelta(days=1))
        self.hosts[instance] = name
        placement = NewNode(name, instance, GROUPS[cluster], since=self.clock.now() - timedelta(days=1))
        self.workers.application().registration.add_node(cluster, placement)

    def sweep_soon(self) -> None:
        """Let the sweep run within a minute, as it always does while anything happens."""
        soon = self.clock.now() + timedelta(seconds=MINUTE)
        if self._sweep_at is None or self._sweep_at > soon:
            self._sweep_in(MINUTE)

    def _sweep_in(self, seconds: float) -> None:
        self._round += 1
        this = self._round
        self._pause = seconds
        self._sweep_at = self.clock.now() + timedelta(seconds=seconds)
        self.schedule.after(seconds, SWEEP, lambda: self._sweep(this))

    def _sweep(self, this: int) -> None:
        if this != self._round:
            return  # a sooner one took its place
        self._sweep_at = None
        before = self.watch.activity
        self.ports.workflow.end_old()
        if self.own_repair is not None:
            self.own_repair.sync()
        for part in (self.workers.sweep, self.workers.remind):
            try:
                part()
            except (Crash, Exception) as gone:  # noqa: BLE001 - the next minute does it again
                self.journal.note(Kind.TURN, f"{part.__name__} ended: {type(gone).__name__}")
        if self.ports.queue.messages:
            self.queue.wake()
        self.idle = self.idle + 1 if self.watch.activity == before else 0
        # Rounds in which nothing happens are left out, and more of them the longer nothing does.
        self._sweep_in(min(self._pause * 2, self.longest) if self.idle else MINUTE)

    def pass_time(self, span: timedelta) -> None:
        """Let days pass: everything that is due happens, without anything new from outside."""
        self.longest = 6 * 3600.0
        self.schedule.run_until(self.clock.now() + span)
        self.longest = MAX_PAUSE

    def grade(self, instance: str) -> None:
        """Let verifications find out what is true of a machine."""
        self.ports.verifier.results[instance] = self.graded(instance)

    def _restarted(self, repair_action: RepairAction, instance: str) -> None:
        """Let some of the broken machines be mended by a repair action, as it is with real ones."""
        number = list(self.fleet.instances).index(instance)
        if instance in self.lemons and CURES[number % len(CURES)] is repair_action:
            self.lemons.discard(instance)
            self.grade(instance)

    def graded(self, instance: str) -> Verification:
        """Return what a verification of a machine comes to if nothing disturbs it."""
        return BROKEN if instance in self.lemons else PASSED

    def settle(self) -> None:
        """Hand on what was written, published and launched since the last time."""
        stream = self.ports.table.stream
        before = self.watch.activity
        while self._streamed < len(stream):
            record = stream[self._streamed]
            self._streamed += 1
            self.watch.changed(record)
            for mapping in self.streams:
                mapping.take(record)
        if self.watch.activity != before:
            self.sweep_soon()
        self.rule.listen()
        self._grade_arrivals()

    def _grade_arrivals(self) -> None:
        machines = list(self.fleet.instances)
        for instance in machines[self._graded :]:
            if self.broken_arrivals and instance not in self.hosts:
                self.broken_arrivals -= 1
                self.lemons.add(instance)
                self.grade(instance)
        self._graded = len(machines)
