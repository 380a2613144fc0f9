"""A complete installation on fakes: tests report faults, advance minutes, and read the timeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.decide.normalize.resolve import record_boot
from faultbridge.decide.observe import observe
from faultbridge.model.cases import Case
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import BreakerLimit, Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus
from faultbridge.model.errors import Transient
from faultbridge.model.faults import Clear, Component, Fault, Observation, Snapshot
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Limits, Policy, Rule
from faultbridge.model.records import RawRecord
from faultbridge.model.settings import Settings
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key, Update
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ops.react import status_causes
from faultbridge.serve.ops.sweep import SweepResult
from faultbridge.serve.wiring.installation import Installation, Timing
from faultbridge.serve.wiring.services import (
    wire_breakers,
    wire_case_orders,
    wire_cluster_status,
    wire_controls,
    wire_correlate,
    wire_dispatch,
    wire_incident_changes,
    wire_isolate,
    wire_job_callbacks,
    wire_node_orders,
    wire_step_runner,
)
from tests.builders import CATALOG, DEFAULT_RULE, GPU, NOON, STACK_ID, arrival, fault
from tests.sim import fakes
from tests.sim.fakes.state_machine import FakeStateMachine
from tests.world import SETTINGS, FakePorts

CLUSTER = "train-a"
GROUP = "gpu-workers"
AUTO_SCALING, TEMPLATE = "ec2-auto-scaling", "ec2-launch-template"
REPLACEMENT_AFTER_INTENT = [
    "node draining -> replacing",
    "release_instance released",
    "node replacing -> provisioning",
    "await_successor claimed",
    "node provisioning -> validating",
    "verify begun",
    "verify passed",
    "cleared xid.79",
    "return_to_service not_applicable",
    "node validating -> healthy",
    "case in_progress -> resolved (replaced)",
]
"""The entries of a replacement without an orchestrator, after its intent."""
REACT_ENTRY_TYPES = {"Node Status Change", "Case Status Change", "Cluster Safety Change"}


class ScenarioPorts(FakePorts):
    """The ports of a scenario: a provider with two names, and a state machine that runs repair attempts."""

    workflow: FakeStateMachine  # type: ignore[assignment]

    def __init__(self, *, orchestrated: bool, launch_delay: timedelta) -> None:
        super().__init__()
        clock, seam = self.clock, self.seam
        self.fleet = fakes.FakeFleet(clock, launch_delay=launch_delay)
        self.providers = dict.fromkeys((AUTO_SCALING, TEMPLATE), fakes.FakeProvider(self.fleet, seam=seam))
        self.volumes = dict.fromkeys((AUTO_SCALING, TEMPLATE), fakes.FakeVolumes(self.fleet, seam=seam))
        self.volume_attachments = {"none": fakes.FakeVolumeAttachments(seam=seam)}
        self.launchers = {TEMPLATE: fakes.FakeLauncher(self.fleet, seam=seam)}
        self.restarters = {"ssm": fakes.FakeRestarter(self.fleet, seam=seam)}
        orchestrator = fakes.FakeOrchestrator(clock, applicable=orchestrated, seam=seam, fleet=self.fleet)
        self.orchestrators = {"none": orchestrator}
        verifier = fakes.FakeVerifier(clock, seam=seam, duration=timedelta(minutes=10), alive=self.fleet.is_alive)
        self.verifiers = dict.fromkeys(("ssm-dcgm", "ssm-deep"), verifier)
        self.workflow = FakeStateMachine(clock, seam=seam)
        self.objects = fakes.FakeObjects()
        unordered = fakes.FakeJobCallback(ordered=False, seam=seam)
        signal = fakes.FakeJobCallback(ordered=False, seam=seam)
        webhook = fakes.FakeJobCallback(seam=seam)
        self.job_callbacks = {"webhook": webhook, "slurm-requeue": unordered, "slurm-signal": signal}
        self.checkpoint_callbacks = self.job_callbacks


class World:
    """One cluster with all services that watch and repair it."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        limits: Limits | None = None,
        mode: Mode = Mode.ACT,
        orchestrated: bool = False,
        rules: tuple[Rule, ...] = (),
        breakers: tuple[BreakerLimit, ...] = (),
        domain: Callable[[int], str | None] = lambda _: None,
        launch_delay: timedelta = timedelta(minutes=3),
        nodes_per_shard: int = 800,
        catalog: Catalog = CATALOG,
    ) -> None:
        self.catalog = catalog
        self.policy = Policy("test-policy", (*rules, DEFAULT_RULE), limits or Limits(), breakers)
        self.ports = ports = ScenarioPorts(orchestrated=orchestrated, launch_delay=launch_delay)
        self.clock, self.seam, self.table, self.fleet = ports.clock, ports.seam, ports.table, ports.fleet
        self.provider, self.volumes = ports.providers[TEMPLATE], ports.volumes[TEMPLATE]
        self.volume_attachments, self.launcher = ports.volume_attachments["none"], ports.launchers[TEMPLATE]
        self.collector, self.restarter = ports.collector, ports.restarters["ssm"]
        self.callback = ports.job_callbacks["webhook"]
        self.verifier, self.orchestrator = ports.verifiers["ssm-dcgm"], ports.orchestrators["none"]
        self.workflow, self.objects = ports.workflow, ports.objects
        self.connect(ports)
        self.app = app = Installation(ports, Settings(SETTINGS), Timing(lambda _: None, Random(7)))
        self.reads, self.append = app.table, app.append
        self.rulebook = Rulebook(self.reads, STACK_ID, lambda: self.catalog, lambda: self.policy)
        vars(app)["rulebook"] = self.rulebook  # a test may change the policy and the catalog while it runs
        self.controls, self.guard, self.orders = wire_controls(app), wire_breakers(app), wire_case_orders(app)
        self.node_orders, self.isolate, self.rollup = wire_node_orders(app), wire_isolate(app), wire_cluster_status(app)
        self.dispatch, self.correlate = wire_dispatch(app), wire_correlate(app)
        self.incident_changes, self.deliver_callbacks = wire_incident_changes(app), wire_job_callbacks(app)
        self.react, self.step_runner = wire_react(app), wire_step_runner(app)
        self.workflow.handler = self.step_runner.run_step
        self.published: list[Key] = []
        self.sweep = replace(wire_sweep(app), publish=self._publish, retry_reject=lambda _: True)
        self._streamed = 0
        self._domain = domain
        self._register(nodes, mode, nodes_per_shard)

    def connect(self, ports: ScenarioPorts) -> None:
        """Replace fakes by other ports, before anything uses them."""

    def _register(self, nodes: int, mode: Mode, nodes_per_shard: int) -> None:
        registration = Registration(self.table, self.append, self.clock)
        config = ClusterConfig(
            CLUSTER, repair_owner=RepairOwner.FAULTBRIDGE, mode=mode, nodes_per_shard=nodes_per_shard
        )
        registration.add_cluster(config)
        day_before = NOON - timedelta(days=1)
        for number in range(1, nodes + 1):
            instance = self.fleet.launch(GROUP, f"i-{number:017x}", day_before)
            placement = NewNode(
                f"node-{number}", instance, GROUP, "p5.48xlarge", self._domain(number), since=day_before
            )
            registration.add_node(CLUSTER, placement)
        self.process_entries()

    def _publish(self, waiting: Iterable[Key]) -> None:
        for key in waiting:
            self.published.append(key)
            self.table.write(Update(key, remove=(("gsi4pk",), ("gsi4sk",))))

    # ------------------------------------------------------------------ actions

    def fault(self, node: int = 1, code: str = "xid.79", *, seen: datetime | None = None, **others: Any) -> None:
        """Report a fault of a node now; `seen` is its time of observation, now by default."""
        self._observe(node, fault(code, **others), "r-1", seen)

    def observe_fault(self, node: int, observation: Fault) -> None:
        """Report a fault that a decoder returned, now."""
        self._observe(node, observation, "r-1")

    def claim(self, node: int = 1, code: str = "xid.79", **others: Any) -> None:
        """Report a fault of a node as a listed sender, which is not proven to be the node."""
        self._observe(node, fault(code, **others), "r-claim", claimed=True)

    def fault_and_react(self, node: int = 1, code: str = "xid.79", *, minutes: int = 0, **others: Any) -> None:
        """Report a fault of a node, run `react` until there are no new entries, and advance minutes."""
        self.fault(node, code, **others)
        self.process_entries(minutes)

    def claim_and_react(self, node: int = 1, code: str = "xid.79", *, minutes: int = 0, **others: Any) -> None:
        """Report a claim of a node's fault, run `react` until there are no new entries, and advance minutes."""
        self.claim(node, code, **others)
        self.process_entries(minutes)

    def fault_until(self, status: CaseStatus, node: int = 1, code: str = "xid.79", **others: Any) -> None:
        """Report a fault of a node, and advance minutes until its case has a status."""
        self.fault(node, code, **others)
        self.until_case(status, node)

    def fault_until_resolved(self, **fault: Any) -> None:
        """Report a fault of the first node, and advance minutes until its case is resolved."""
        self.fault_until(CaseStatus.RESOLVED, **fault)

    def clear(
        self, node: int = 1, code: str = "xid.79", source: str = "kernel-log", component: Component = GPU
    ) -> None:
        """Report that a fault has ended, by its source, now."""
        self._observe(node, Clear(source, code, component, "gone"), "r-clear")

    def show_healthy(self, node: int = 1, code: str = "xid.79", component: Component = GPU) -> None:
        """Report a health snapshot of the node itself that checks for a fault and does not find it, now."""
        self._observe(node, Snapshot("nvidia-smi-xml", {code: (component,)}), "r-snapshot")

    def _observe(
        self, node: int, observation: Observation, record: str, at: datetime | None = None, *, claimed: bool = False
    ) -> None:
        seen = [arrival(observation, at=at or self.clock.now(), record_id=record, claimed=claimed)]
        rules = rules_of(self.rulebook, CLUSTER)

        def revise(state: NodeState, now: Any) -> Transition:
            passed = observe(state, seen, rules=rules, catalog=self.catalog, now=now)
            return Transition(passed.state, passed.drafts)

        self.append(self.key(node), revise, actor=Actor.INGEST)

    def report_boot(self, boot_id: str, node: int = 1) -> None:
        """Report a node's boot id through a record of the node."""
        key, now = self.key(node), self.clock.now()
        record = RawRecord("r-boot", "kernel-log", CLUSTER, key.node, b"", now, now, boot_id=boot_id)
        self.append(key, lambda state, _: Transition(record_boot(state, record)), actor=Actor.INGEST)

    def process_entries(self, minutes: int = 0) -> None:
        """Run `react` for new entries until there are none, and advance minutes."""
        self.react_to_entries()
        self.advance_minutes(minutes)

    def react_to_entries(self) -> None:
        """Run `react` for new entries until there are none; the sweep repeats a failed batch."""
        while changed := self._changed():
            try:
                triggers = {(str(one["cluster"]), str(one["node"]) if one["node"] else None) for one in changed}
                self.react.run(triggers, status_causes(changed))
            except Transient:
                return

    def _changed(self) -> list[Item]:
        new, self._streamed = self.table.stream[self._streamed :], len(self.table.stream)
        return [
            record.new
            for record in new
            if record.new
            and record.event == "INSERT"
            and record.key.sk.startswith(keys.ENTRY)
            and record.new["type"] in REACT_ENTRY_TYPES
        ]

    def advance_minutes(self, number: int = 1, *, every: int = 1) -> SweepResult:
        """Advance the clock, with a sweep every minute or every few minutes; returns the last sweep's result."""
        swept = SweepResult()
        for _ in range(number // every):
            self.join_nodes()
            self.clock.advance(timedelta(minutes=every))
            self.workflow.expire_tokens()
            swept = self.sweep.run()
            self.react_to_entries()
        return swept

    def join_nodes(self) -> None:
        """Let the nodes of running instances join the orchestrator, at the start of each minute."""

    def until(self, condition: Callable[[], bool], minutes: int = 600) -> int:
        """Advance minutes until a condition holds; returns how many it took."""
        for number in range(minutes + 1):
            if condition():
                return number
            self.advance_minutes()
        message = f"the condition did not hold within {minutes} minutes"
        raise AssertionError(message)

    def until_case(self, status: CaseStatus, node: int = 1) -> None:
        """Process new entries, and advance minutes until the case of a node has a status."""
        self.process_entries()
        self.until(self.case_is(status, node))

    def pause_repairs(self, *, paused: bool) -> None:
        """Pause or resume repairs in the cluster, as an operator."""
        if paused:
            self.controls.pause(CLUSTER)
        else:
            self.controls.resume(CLUSTER, force=True)

    def launch_from_template(self, *instance_types: str) -> None:
        """Configure the cluster to launch instances from a launch template."""
        self.fleet.templates.add(GROUP)
        self.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
        registration = Registration(self.table, self.append, self.clock)
        registration.set_cluster(CLUSTER, {"provider": "ec2-launch-template", "instance_types": instance_types})

    def live_instances(self) -> list[str]:
        """Return the ids of the instances that are not terminated."""
        return [one.instance_id for one in self.fleet.instances.values() if one.alive]

    def set_mode(self, mode: Mode) -> None:
        """Set the mode of the cluster."""
        config = self.rulebook.config(CLUSTER)
        assert config is not None
        Registration(self.table, self.append, self.clock).set_cluster(CLUSTER, {"mode": mode})

    # ------------------------------------------------------------------ state

    @staticmethod
    def key(node: int = 1) -> NodeKey:
        return NodeKey(CLUSTER, f"node-{node}")

    def node(self, node: int = 1) -> NodeState:
        return self.append.read(self.key(node))

    def instance(self, node: int = 1) -> str:
        """Return the id of the instance that backs a node."""
        backing = self.node(node).incarnation
        assert backing is not None
        assert backing.instance_id is not None
        return backing.instance_id

    def status(self, node: int = 1) -> NodeStatus | None:
        return self.node(node).status

    def case(self, node: int = 1) -> Case:
        found = self.node(node).case
        assert found is not None
        return found

    def case_is(self, status: CaseStatus, node: int = 1) -> Callable[[], bool]:
        return lambda: self.case(node).status is status

    def control(self) -> Control:
        return items.read_control(CLUSTER, self.table.get(keys.cluster_control(CLUSTER)))

    def bodies(self, node: int | None = 1) -> list[dict[str, Any]]:
        """Return the decoded entries of a node, or of the cluster if `node` is None, oldest first."""
        partition = keys.cluster_partition(CLUSTER) if node is None else keys.node_partition(self.key(node))
        return [json.loads(str(item["body"])) for item in self.table.query(partition, prefix=keys.ENTRY).items]

    def record_history(self, node: int | None = 1) -> list[str]:
        """Return the timeline as text, one line per entry."""
        return [entry_text(body["metadata"]["event_type"], body["data"]) for body in self.bodies(node)]

    def released_instances(self) -> list[str]:
        """Return the instances of all replace calls, in order."""
        return [instance for instance, _ in self.provider.replaced]


def entry_text(kind: str, data: dict[str, Any]) -> str:
    """Return an entry as one short line."""
    if kind in {"Node Status Change", "Cluster Status Change"}:
        return f"{kind.split(maxsplit=1)[0].lower()} {data['from']} -> {data['to']}"
    if kind == "Case Status Change":
        end = f" ({data['resolution']})" if data["resolution"] else ""
        return f"case {data['from']} -> {data['to']}{end}"
    if kind == "Node Replacement Step":
        return f"{data['step']} {data['outcome']}"
    if kind == "Node Note Recorded":
        return f"note {data['kind']}" + (f" {data['stage']}" if data.get("stage") else "")
    if kind == "Cluster Safety Change":
        return f"{data['kind']} {data['from']} -> {data['to']}"
    return f"{kind.rsplit(maxsplit=1)[-1].lower()} {data['code']}"


def limits(**others: Any) -> Limits:
    """Return the default limits with some changed."""
    return replace(Limits(), **others)
