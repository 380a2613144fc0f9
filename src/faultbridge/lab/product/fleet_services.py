"""Fleet services: the product's services with in-memory data, for one cluster under one policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random

from faultbridge.data import load_catalog
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.policy import Policy
from faultbridge.lab.product.fleet_dispatch import FleetControls, FleetDispatch, FleetPermits
from faultbridge.lab.product.host_ports import HostPorts, HostRestarter, HostVerifier
from faultbridge.lab.product.item_table import ItemTable
from faultbridge.lab.product.node_store import Committed, NodeStore
from faultbridge.ledger.append import Stack
from faultbridge.pipeline.decide.case_moves import SETTLE, continue_alone
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import Clock
from faultbridge.repair.attempt.recovery import RecoverAttempts
from faultbridge.repair.attempt.step_runner import StepRunner
from faultbridge.repair.attempt.step_tools import StepTools
from faultbridge.repair.isolate import Isolate
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.rules.rulebook import Rulebook
from faultbridge.simulation.fakes import FakeObjects, FakeOrchestrator
from faultbridge.simulation.fakes.state_machine import FakeStateMachine
from faultbridge.storage import items, keys

CLUSTER = "train-a"
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/lab/11111111-2222-3333-4444-555555555555"


@dataclass(frozen=True, slots=True)
class FixedRulebook(Rulebook):
    """The registration, policy and catalog (the rules) of one cluster, which do not change during a run."""

    fixed: Rules | None = None

    def config(self, cluster: str) -> ClusterConfig | None:  # noqa: ARG002 - the signature of `Rulebook`
        """Return the registration of the simulated cluster; the name in `cluster` is ignored."""
        return self.fixed.config if self.fixed else None

    def rules(self, config: ClusterConfig) -> Rules:  # noqa: ARG002 - as above
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
    recover: RecoverAttempts
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
    policy: Policy, nodes: int, clock: Clock, ports: HostPorts, committed: Committed, stack_id: str = STACK_ID
) -> FleetServices:
    """Build the product's services for a cluster of `nodes` nodes that Faultbridge repairs."""
    catalog, table, stack = load_catalog(), ItemTable(), Stack(stack_id, "faultbridge")
    config = ClusterConfig(CLUSTER, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT, expected=nodes)
    rules = Rules(policy, config, catalog.version, stack_id)
    rulebook = FixedRulebook(table, stack_id, lambda: catalog, lambda: policy, fixed=rules)
    store = NodeStore(table, clock, stack, lambda _: None, Random(7), committed)  # noqa: S311 - never drawn from
    orchestrators = {"none": FakeOrchestrator(clock, applicable=False)}
    controls, workflow = FleetControls(table, clock, stack), FakeStateMachine(clock)
    table.items[keys.cluster_control(CLUSTER)] = items.control_item(Control(CLUSTER, unverified=nodes), clock.now())
    isolate = Isolate(store, rulebook, orchestrators, FleetPermits(table, controls))
    tools = StepTools(
        table, clock, store, workflow, rulebook, FakeObjects(), {config.provider: ports}, {},
        {config.restarter: HostRestarter(ports)}, ports, orchestrators, {config.verifier: HostVerifier(ports)},
    )  # fmt: skip
    runner = StepRunner(tools)
    workflow.handler = runner
    dispatch = FleetDispatch(table, clock, store, isolate, workflow, rulebook, controls=controls)
    orders = NodeOrders(store, rulebook)
    return FleetServices(
        rules, catalog, table, store, dispatch, isolate, RecoverAttempts(runner), orders, workflow, controls
    )
