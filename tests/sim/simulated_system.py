"""The simulated system: one installation with up to three clusters, its ports, workers and deliveries.

Faultbridge repairs the first cluster (`REPAIRED`). It only observes the second cluster (`WATCHED`). In the third
(`FOLLOWED`), the provider repairs the nodes, and Faultbridge records these repairs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import NodeStatus
from faultbridge.model.storage import items, keys
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.record.recover import RecoverTable
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.successor.sources import CHECK_AHEAD
from faultbridge.serve.wiring.services import wire_registration
from tests.sim.deliveries import REACT_ENTRY_TYPES, BusRule, DeliveryContext, QueueMapping, StreamMapping
from tests.sim.environment.inventory_runs import InventoryRuns
from tests.sim.environment.provider_repair import ProviderRepair
from tests.sim.fakes import START, FakeFleet, ManualClock
from tests.sim.fakes.table import TableBackup
from tests.sim.fault_injection import (
    MAX_CALLS_PER_BUSY_DAY,
    MAX_CALLS_PER_DAY,
    Crash,
    FaultInjectingSeam,
    FaultInjector,
    FaultProfile,
)
from tests.sim.group_owner import GroupOwner
from tests.sim.instance_health import InstanceHealth
from tests.sim.invariants.commit_checks import CommitChecks
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal, Kind
from tests.sim.laws.all_laws import Laws
from tests.sim.node_clocks import NodeClocks
from tests.sim.schedule import Schedule
from tests.sim.simulated_ports import (
    HEAD_NODE,
    LAUNCH_TEMPLATE,
    NO_SCHEDULER,
    PROVIDER,
    PROVIDER_REPAIR,
    SCHEDULER,
    SimulatedPorts,
)
from tests.sim.situations.truth import Truth
from tests.sim.sweep_schedule import MAX_PAUSE, SweepSchedule
from tests.sim.workers import COLLECTOR_ROLE, NODE_ROLE, PROVING, Workers

REPAIRED, WATCHED, FOLLOWED = "train-a", "watch-b", "follow-c"
"""The clusters: repaired by Faultbridge, only watched, repaired by the provider."""

GROUPS = {REPAIRED: "gpu-workers", WATCHED: "gpu-watched", FOLLOWED: "gpu-followed"}
NODE_PREFIXES = {REPAIRED: "node", WATCHED: "worker", FOLLOWED: "host"}
SLURM_REST = "https://slurm.example.com"
"""The scheduler of the followed cluster, whose controller runs no commands of AWS Systems Manager."""

INCIDENT_CHECK = timedelta(minutes=1)
"""The interval of sweeps while an incident is unfinished. It is the real interval, so that maximum ages are exact."""

MakeInjector = Callable[[FaultProfile, Random, Schedule, Journal], FaultInjector]


class SimulatedSystem:
    """All parts of one run. Faultbridge is built by its real composition code, on fake ports.

    `node_names` maps instances to their node names. `stopped_agents` contains the instances whose node agent is
    stopped. `externally_terminated` contains the instances that were terminated, but not by Faultbridge. `racks` maps
    each rack to the names of its nodes. `restored` is True after a restore, and `policy_changed` after the rules of the
    policy changed. `lasting_shortage` is True if capacity comes back only at the end of the run. `only_laws` is True if
    the mode of the cluster changed, so that faults may have no case. No sweep runs before `stopped_until`.
    """

    def __init__(self, seed: int, profile: FaultProfile, *, make_injector: MakeInjector = FaultInjector) -> None:
        self.clock = ManualClock(START)
        self.journal = Journal(self.clock, START)
        self.schedule = Schedule(
            self.clock, after_each=self.deliver_changes, on_call=lambda name: self.journal.add(Kind.STEP, name)
        )
        # The texts of the seeds are fixed: another text gives another history for the same seed.
        self.injector = make_injector(profile, Random(f"chaos {seed}"), self.schedule, self.journal)
        self.seam = FaultInjectingSeam(self.injector)
        self.ports = SimulatedPorts(self.clock, self.seam, self.schedule, profile)
        self.fleet: FakeFleet = self.ports.fleet
        self.workers = Workers(self.ports, self.injector, self.journal, Random(f"jitter {seed}"))
        self.ports.workflow.handler = self.workers.step
        self.health = InstanceHealth(self.ports)
        self.clocks = NodeClocks(seed)
        context = DeliveryContext(self.ports, self.schedule, Random(f"carrier {seed}"), profile, self.journal)
        self.queue = QueueMapping(context, self.workers.ingest)
        self.streams = (
            StreamMapping(context, "publish", self.workers.publish),
            StreamMapping(context, "react", self.workers.react, REACT_ENTRY_TYPES),
        )
        self.rule = BusRule(context, self.workers.page)
        self.checks = CommitChecks(self.ports, self.journal)
        self.seam.observers.append(self.checks.before_call)
        self.ports.verifier.cut_off = self.checks.domain_faults.is_cut_off
        self.truth = Truth(self.fleet, self.ports.orchestrator)
        self.health.on_restart = self._restarted
        self.ports.collector.outputs = self.truth.host_output
        self.laws = Laws(self)
        self.seam.observers.append(self.laws.before_call)
        self.restored = self.lasting_shortage = self.only_laws = self.sweep_failed = self.policy_changed = False
        self.replaces_only = False  # whether a policy permitted no repair but a replacement
        self.stopped_until = self.clock.now()
        self.node_names: dict[str, str] = {}
        self.stopped_agents: set[str] = set()
        self.externally_terminated: set[str] = set()
        self.policy = default_policy()
        self.provider_repair: ProviderRepair | None = None
        self.owner = GroupOwner(self.ports.repaired_inventory, GROUPS[REPAIRED])
        self.inventory_runs = InventoryRuns(self.fleet, self.workers.sync_inventory, self._reported, self._was_read)
        self.racks: dict[str, set[str]] = {}
        self.sweeps = SweepSchedule(self.clock, self.schedule, self._sweep, self._next_timer)
        self.by_template, self.spares, self.growing = False, 0, False
        self._streamed = 0

    def build(
        self, *, nodes: int, watched: int, scheduler: bool, followed: int = 0, nodes_in_rack: int | None = None
    ) -> None:
        """Register `REPAIRED`, `WATCHED` and `FOLLOWED` with `nodes`, `watched` and `followed` nodes.

        `nodes_in_rack` divides `REPAIRED` into racks. With `scheduler`, all but `WATCHED` have an orchestrator.
        """
        orchestrator = SCHEDULER if scheduler else NO_SCHEDULER
        trusted: dict[str, Any] = {"node_roles": (NODE_ROLE,), "trusted_senders": (f"{COLLECTOR_ROLE}:*",)}
        proving = trusted if self.workers.settings is PROVING else {}
        repaired = ClusterConfig(
            REPAIRED,
            repair_owner=RepairOwner.FAULTBRIDGE,
            mode=Mode.ACT,
            orchestrator=orchestrator,
            slurm_head_node=HEAD_NODE,
            **proving,
        )
        follow = ClusterConfig(
            FOLLOWED,
            repair_owner=RepairOwner.PROVIDER,
            mode=Mode.ACT,
            orchestrator=orchestrator,
            provider=PROVIDER_REPAIR,
            verifier=PROVIDER_REPAIR,
            restarter=PROVIDER_REPAIR,
            slurm_rest=SLURM_REST,
            **proving,
        )
        for config, number in ((repaired, nodes), (ClusterConfig(WATCHED, **proving), watched), (follow, followed)):
            if number:
                wire_registration(self.workers.application()).add_cluster(config)
            for place in range(1, number + 1):
                in_rack = nodes_in_rack if config is repaired else None
                rack = None if in_rack is None else f"rack-{(place - 1) // in_rack + 1}"
                self._add_node(config.cluster, f"{NODE_PREFIXES[config.cluster]}-{place}", rack)
        if followed:
            group = GROUPS[FOLLOWED]
            self.inventory_runs.groups.append(group)
            names = (f"{NODE_PREFIXES[FOLLOWED]}-{one + 1}" for one in range(followed))
            self.checks.followed = frozenset({group, *names})
            self.provider_repair = ProviderRepair(self.fleet, self.schedule, self.journal, self.externally_terminated)
        self.checks.has_scheduler = scheduler
        self.deliver_changes()

    def let_group_grow(self) -> None:
        """Turn on the inventory sync of the `REPAIRED` cluster, and run the sync once before the group grows."""
        self.growing = True
        # The replay of the watched cluster knows only records, not what an inventory adds.
        self.ports.repaired_inventory.omitted_groups.add(GROUPS[WATCHED])
        self.ports.inventories[PROVIDER] = self.ports.repaired_inventory
        self.inventory_runs.groups.append(GROUPS[REPAIRED])
        self.inventory_runs.run_if_changed()
        self.deliver_changes()

    def launch_from_templates(self, spares: int) -> None:
        """Configure the `REPAIRED` cluster with a launch template and a number of spares."""
        self.by_template, self.spares = True, spares
        self.fleet.templates.add(GROUPS[REPAIRED])
        self.ports.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
        wire_registration(self.workers.application()).set_cluster(
            REPAIRED, {"provider": LAUNCH_TEMPLATE, "spares": spares, "spare_group": GROUPS[REPAIRED]}
        )
        self.deliver_changes()

    def _restarted(self, instance: str) -> None:
        self.truth.end_work(instance)
        self.truth.shown.pop(instance, None)

    def fail_diagnostics_beside_work(self) -> None:
        """Let diagnostics fail on an instance whose GPUs running work uses."""
        is_cut_off, truth = self.checks.domain_faults.is_cut_off, self.truth
        self.ports.verifier.cut_off = lambda one: is_cut_off(one) or truth.work_until(one) is not None
        self.ports.verifier.occupied = lambda one: truth.work_until(one) is not None

    def restore(self, backup: TableBackup) -> None:
        """Restore the table from a backup, and recover it, while no function runs."""
        self.workers.stop()
        for name in self.ports.workflow.running():
            self.ports.workflow.abort(name)
        for mapping in self.streams:
            mapping.pending.clear()
        self.deliver_changes()
        self.ports.table.restore(backup)
        self.restored = True
        self.checks.incidents.last.clear()  # the table may not know them any more
        self.laws.restored()
        self.checks.domain_faults.restored()
        app, ports = self.workers.application("recovery"), self.ports
        RecoverTable(ports.table, ports.vault, self.clock, app.append, app.stack).recover(by="operator")
        self.workers.stop()
        self.deliver_changes()

    def _add_node(self, cluster: str, name: str, rack: str | None) -> None:
        yesterday = self.clock.now() - timedelta(days=1)
        instance = self.fleet.launch(GROUPS[cluster], at=yesterday)
        self.node_names[instance] = name
        domains = {} if rack is None else {"rack": rack, "network_node_2": "switch-1"}
        if rack is not None:
            self.racks.setdefault(rack, set()).add(name)
        wire_registration(self.workers.application()).add_node(
            cluster, NewNode(name, instance, GROUPS[cluster], since=yesterday, domains=domains)
        )

    def _sweep(self) -> bool:
        """Run the scheduled functions: inventory, sweep and page reminders; return whether anything changed.

        A sweep that did not do all its work is repeated within a quarter of an hour (`_next_timer`).
        """
        before, started, self.sweep_failed = self.checks.activity, self.clock.now(), False
        self.ports.workflow.expire()
        if self.clock.now() < self.stopped_until:
            return True
        self.inventory_runs.run_if_changed()
        for function in (self.workers.sweep, self.workers.remind):
            try:
                function()
            except (Crash, Exception) as error:  # noqa: BLE001 - the next sweep repeats the work
                self.journal.add(Kind.STEP, f"{function.__name__} ended: {type(error).__name__}")
                self.sweep_failed = True
        self.sweep_failed |= self.workers.swept_at is None or self.workers.swept_at < started
        self.checks.domain_faults.swept(self.workers.swept_at)
        self.laws.swept()
        if self.ports.queue.messages:
            self.queue.poll_soon()
        return self.checks.activity != before

    def _reported(self) -> tuple[object, ...]:
        stored = next(iter(self.ports.table.items_at(*keys.cluster_config(REPAIRED))), None)
        overdue = [at <= self.clock.now() for at in self._vacancy_times()]
        return items.read_config(stored).expected if stored else 0, overdue, *self.owner.reported(self.clock.now())

    def _vacancy_times(self) -> list[datetime]:
        """Return the times at which an inventory run retires or escalates a node that has no instance and no case."""
        limits = self.policy.limits
        found = []
        for state in SystemView(self).nodes if self.growing else ():
            since = state.incarnation.gone_since if state.incarnation else None
            waits = state.status is NodeStatus.PROVISIONING and state.live_case is None
            if state.key.cluster == REPAIRED and since is not None and waits:
                found += [since + limits.update_grace, since + limits.launch_deadline]
        return found

    def vacant_until(self) -> datetime | None:
        """Return when an inventory run will retire or escalate a node without an instance at the latest, or None."""
        return max((at for at in self._vacancy_times() if at > self.clock.now()), default=None)

    def _was_read(self) -> None:
        self.owner.was_read(self.clock.now(), next(self.ports.table.items_at(*keys.cluster_state(REPAIRED))))

    def _next_timer(self) -> datetime | None:
        """Return the time of the earliest future timer, or None if there is no timer.

        Besides the timers of nodes and `_vacancy_times`, two times count. If a launched instance backs no node, the
        next full hour counts, because unused instances are terminated then. If an incident is unfinished, a minute from
        now counts.
        """
        now, nodes = self.clock.now(), SystemView(self).nodes
        due = [state.due_at for state in nodes if state.due_at is not None and state.due_at > now]
        backing = {state.incarnation.instance_id for state in nodes if state.incarnation}
        launched = (one for one in self.fleet.instances.values() if one.case is not None and one.alive)
        if any(one.instance_id not in backing for one in launched):
            due.append(now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1))
        if self.checks.incidents.unfinished:
            due.append(now + INCIDENT_CHECK)
        due += [at for at in self._vacancy_times() if at > now]
        control = items.read_control(
            REPAIRED, next(iter(self.ports.table.items_at(*keys.cluster_control(REPAIRED))), None)
        )
        due += [at for until in control.no_capacity_until.values() if (at := until - CHECK_AHEAD) > now]
        if self.sweep_failed:
            due.append(now + timedelta(minutes=15))
        return min(due, default=None)

    @property
    def repeats_repairs(self) -> bool:
        """Return whether repairs or spares are tried again and again: without capacity, or with a bad image."""
        return self.lasting_shortage or self.health.bad_arrivals > 1

    def allow_calls(self, span: timedelta) -> None:
        """Raise the limit of calls by what an installation makes within a time span."""
        is_busy = self.repeats_repairs or bool(self.checks.incidents.unfinished)  # a sweep a minute
        calls_per_day = MAX_CALLS_PER_BUSY_DAY if is_busy else MAX_CALLS_PER_DAY
        self.seam.calls_left += round(calls_per_day * (span / timedelta(days=1)))

    def pass_time(self, span: timedelta) -> None:
        """Run every call that is scheduled within a time span, and advance the clock by this span."""
        self.allow_calls(span)
        self.sweeps.max_pause = 6 * 3600.0
        self.schedule.run_until(self.clock.now() + span)
        self.sweeps.max_pause = MAX_PAUSE

    def deliver_changes(self) -> None:
        """Check new table changes, and schedule the delivery of new changes and events to Lambda functions.

        Also make new instances bad if external actions have ordered this.
        """
        stream = self.ports.table.stream
        before = self.checks.activity
        while self._streamed < len(stream):
            record = stream[self._streamed]
            self._streamed += 1
            self.checks.item_changed(record)
            self.laws.item_changed(record)
            for mapping in self.streams:
                mapping.accept(record)
        if self.checks.activity != before:
            self.sweeps.within_a_minute()
        self.rule.deliver_new_events()
        self.health.mark_bad_arrivals(self.node_names)
        self.laws.after_call()
