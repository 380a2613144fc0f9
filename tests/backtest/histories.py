"""Recorded histories for the back-test: of one installation in memory, and of simulated runs."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from faultbridge.cli.commands.embedded.demo import demo_records
from faultbridge.decide.backtest.record import Event, Replayed
from faultbridge.decide.backtest.replay import Evidence, replay
from faultbridge.decide.case_moves import Rules
from faultbridge.decode import data
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.policy import Policy
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Table
from faultbridge.record.timeline import Timeline, TimelineQuery
from tests.lab.traces import scenario
from tests.lab.whole_product import WholeProduct
from tests.sim.environment.action_plan import draw_plan
from tests.sim.environment.environment import Environment
from tests.sim.fault_injection import MAX_CALLS_PER_ACTION, draw_fault_profile
from tests.sim.history import build_system, draw_growing, draw_nodes_in_rack
from tests.sim.rest import come_to_rest
from tests.sim.simulated_system import REPAIRED, SimulatedSystem


def recorded(table: Table, cluster: str) -> list[Event]:
    """Return all entries of a cluster."""
    return [line.event for line in Timeline(table).entries(TimelineQuery(cluster))]


def replayed(events: list[Event], policy: Policy, config: ClusterConfig, *known: Policy) -> Replayed:
    """Replay entries under a policy; `known` are the policies that recorded them."""
    catalog = data.load_catalog()
    policies = {one.version: one for one in (*known, policy, default_policy())}
    rules = Rules(policy, config, catalog, "back-test", data.gpus_by_instance_type())
    return replay(events, rules, Evidence(catalog, policies))


@cache
def simulated(seed: int, steps: int) -> tuple[list[Event], Policy, ClusterConfig]:
    """Return the record of the repaired cluster of a simulated run, with its policy and registration."""
    system: SimulatedSystem = build_system(seed)
    gap = draw_fault_profile(seed).mean_gap
    actions = draw_plan(seed, steps, gap, racks=draw_nodes_in_rack(seed) is not None, growing=draw_growing(seed))
    system.seam.calls_left += 2 * MAX_CALLS_PER_ACTION * len(actions) + 100_000
    environment = Environment(system)
    system.sweeps.within_a_minute()
    for action in actions:
        system.pass_time(timedelta(seconds=action.gap))
        environment.perform(action)
        system.deliver_changes()
    come_to_rest(system)
    config = items.read_config(system.ports.table.get(keys.cluster_config(REPAIRED)) or {})
    return recorded(system.ports.table, REPAIRED), system.policy, replace(config, maintenance_until=None)


def simulated_fleet(nodes: int, days: float) -> tuple[list[Event], Policy, ClusterConfig]:
    """Return the record of months of a fleet with generated faults, run by the whole product."""
    packaged = default_policy()
    one = scenario(nodes=nodes, pool=6, days=days, seed=1, false_alarms=4)
    whole = WholeProduct(one, packaged.rules, packaged.limits, packaged.breakers)
    whole.run()
    cluster = whole.key(1).cluster
    config = items.read_config(whole.table.get(keys.cluster_config(cluster)) or {})
    return recorded(whole.table, cluster), whole.policy, config


def demo() -> tuple[list[Event], Policy, ClusterConfig]:
    """Return the record of the demo's ten records, of whose four nodes one is replaced."""
    system = SimulatedSystem(1, draw_fault_profile(1))
    system.build(nodes=4, watched=0, scheduler=False)
    environment = Environment(system)
    system.sweeps.within_a_minute()
    for one in demo_records(REPAIRED, [f"node-{number}" for number in range(1, 5)], system.clock.now()):
        environment._send_until_accepted(one.raw_input, 0.0, 1)
        system.deliver_changes()
        system.pass_time(timedelta(seconds=5))
    come_to_rest(system)
    config = items.read_config(system.ports.table.get(keys.cluster_config(REPAIRED)) or {})
    return recorded(system.ports.table, REPAIRED), system.policy, config
