"""Fleet services: the product's services with in-memory data, for one cluster under one policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random

from faultbridge.decide.case_moves import SETTLE, Rules, continue_alone
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.storage import items, keys
from faultbridge.record.append import Stack
from faultbridge.record.ports.table import Clock
from faultbridge.record.rulebook import Rulebook
from faultbridge.repair.attempt.step_context import StepTools
from faultbridge.repair.attempt.step_runner import StepRunner
from faultbridge.repair.isolate import Isolate
from faultbridge.repair.node_orders import NodeOrders
from tests.lab.product.fleet_dispatch import FleetControls, FleetDispatch, FleetPermits
from tests.lab.product.host_ports import HostPorts, HostRestarter, HostVerifier
from tests.lab.product.item_table import ItemTable
from tests.lab.product.node_store import Committed, NodeStore
from tests.lab.product.orchestrator import FleetOrchestrator
from tests.lab.symptoms import lab_catalog
from tests.sim.fakes import FakeObjects
from tests.sim.fakes.state_machine import FakeStateMachine

CLUSTER = "train-a"
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/lab/11111111-2222-3333-4444-555555555555"


class FixedRulebook(Rulebook, frozen=True):
    """The registration, policy and catalog (the rules) of one cluster, which do not change during a run."""

    fixed: Rules | None = None

    def config(self, cluster: str) -> ClusterConfig | None:
        """Return the registration of the simulated cluster; the name in `cluster` is ignored."""
        return self.fixed.config if self.fixed else None

    def rules(self, config: ClusterConfig) -> Rules:
        """Return the rules of the cluster: its policy, its registration and the catalog version."""
        if self.fixed is None:
            raise AssertionError
        return self.fixed


@dataclass(frozen=True, slots=True)
class FleetServices:
    """The product's services that a simulated fleet calls, and the rules that they share."""

    rules: Rules
    catalog: Catalog
    table: ItemTable
    store: NodeStore
    dispatch: FleetDispatch
    isolate: Isolate
    step_runner: StepRunner
    orders: NodeOrders
    workflow: FakeStateMachine
    controls: FleetControls

    def escalate_alone(self, key: NodeKey) -> None:
        """Let a node's case continue without an incident, if it has waited for the time `SETTLE`.

        The lab has no incidents. The case is escalated to an operator, or is queued to verify the node if no fault is
        left that requires a repair.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            return continue_alone(Transition(state), now, after=SETTLE)

        self.store(key, revise, actor=Actor.CORRELATE)

    def control(self) -> Control:
        """Return the repair slots and circuit breakers of the cluster."""
        return self.controls.read(CLUSTER)


def fleet_services(
    policy: Policy,
    nodes: int,
    clock: Clock,
    ports: HostPorts,
    orchestrator: FleetOrchestrator,
    committed: Committed,
    stack_id: str = STACK_ID,
) -> FleetServices:
    """Build the product's services for a cluster of `nodes` nodes that Faultbridge repairs."""
    catalog, table, stack = lab_catalog(), ItemTable(), Stack(stack_id, "faultbridge")
    config = ClusterConfig(CLUSTER, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT, expected=nodes)
    rules = Rules(policy, config, catalog, stack_id, gpus=gpus_by_instance_type())
    rulebook = FixedRulebook(table, stack_id, lambda: catalog, lambda: policy, fixed=rules)
    store = NodeStore(table, clock, stack, lambda _: None, Random(7), committed)
    orchestrators = {"none": orchestrator}
    controls, workflow = FleetControls(table, clock, stack), FakeStateMachine(clock)
    table.items[keys.cluster_control(CLUSTER)] = items.control_item(Control(CLUSTER, unverified=nodes), clock.now())
    isolate = Isolate(store, rulebook, orchestrators, FleetPermits(table=table, controls=controls))
    tools = StepTools(
        table, clock, store, workflow, rulebook, FakeObjects(), {config.provider: ports}, {},
        {config.restarter: HostRestarter(ports)}, ports, orchestrators, {config.verifier: HostVerifier(ports)},
    )  # fmt: skip
    runner = StepRunner(tools)
    workflow.handler = runner.run_step
    dispatch = FleetDispatch(
        table=table, clock=clock, append=store, isolate=isolate, workflow=workflow, rulebook=rulebook, controls=controls
    )
    orders = NodeOrders(store, rulebook)
    return FleetServices(rules, catalog, table, store, dispatch, isolate, runner, orders, workflow, controls)
