"""Batches of `react`: nodes are read together, and a node is read again before an action."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.cluster.breakers import BreakerLimit
from faultbridge.domain.cluster.state import ClusterStatus
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import Isolation
from faultbridge.domain.policy import Rule
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ops.react import MAX_ISOLATING
from faultbridge.ports import ProviderFailure
from faultbridge.repair import queued_cases
from faultbridge.repair.isolate import IsolationResult
from faultbridge.repair.isolate_many import GROUP
from faultbridge.simulation.fakes.seam import Call
from faultbridge.storage import items, keys
from tests.races import run_before_write, writes_to
from tests.scenarios.admission.test_breaker import CLUSTER_LIMIT, fail
from tests.scenarios.world import CLUSTER, World, limits


def node_names(number: int) -> list[str]:
    return [f"node-{node}" for node in range(1, number + 1)]


def table_calls(number: int) -> Counter[str]:
    """Count the table calls of one `react` batch of nodes that all wait for an open breaker."""
    world = World(nodes=number, breakers=(CLUSTER_LIMIT,))
    fail(world, *range(1, number + 1))
    world.advance_minutes(4)
    before = len(world.seam.calls)
    world.react({(CLUSTER, name) for name in node_names(number)})
    assert world.control().breakers
    return Counter(call.name for call in world.seam.calls[before:])


def test_nodes_kept_in_service_by_an_open_breaker_cost_no_extra_calls():
    few, many = table_calls(20), table_calls(80)
    for name in ("table.get", "table.get_many", "table.query"):
        assert many[name] <= few[name] + 1, name


def test_a_node_that_recovered_after_the_read_is_not_cordoned():
    world = World(nodes=2, orchestrated=True)
    world.fault(1)
    world.fault(2)
    isolating = world.isolate_many(CLUSTER, node_names(2))
    world.clock.advance(5)
    world.clear(2)
    assert isolating["node-1"]() == {"node-1": IsolationResult.DONE}
    assert isolating["node-2"]() == {"node-2": IsolationResult.NOTHING}
    assert world.orchestrator.cordoned == {"node-1"}
    assert (world.node(2).isolation, world.status(2)) == (Isolation.NONE, NodeStatus.HEALTHY)


def test_a_node_is_read_again_before_the_orchestrator_is_called_again():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.fault_and_react()
    isolating = world.isolate_many(CLUSTER, node_names(1))
    world.orchestrator.failures.clear()
    world.clock.advance(5)
    world.clear()
    world.advance_minutes()
    assert world.node().isolation is Isolation.NONE
    world.clock.advance(timedelta(minutes=10))
    assert isolating["node-1"]() == {"node-1": IsolationResult.NOTHING}
    assert world.orchestrator.cordoned == set()


def test_a_breaker_that_opened_after_the_read_keeps_the_other_nodes_in_service():
    world = World(nodes=10, breakers=(CLUSTER_LIMIT,))
    world.fault(1)
    isolating = world.isolate_many(CLUSTER, node_names(1), world.control())
    fail(world, *range(2, 10))
    assert world.control().breakers
    assert isolating["node-1"]() == {"node-1": IsolationResult.HELD}
    assert {world.status(node) for node in range(1, 10)} == {NodeStatus.DEGRADED}


def test_nodes_without_orchestrator_are_isolated_in_groups_until_a_breaker_opens():
    world = World(nodes=4 * GROUP, breakers=(BreakerLimit(nodes=2 * GROUP, percent=20),))
    for node in range(1, 2 * GROUP):
        world.fault(node)
    world.guard(CLUSTER)
    first, second = world.isolate_many(CLUSTER, node_names(2 * GROUP - 1), world.control()).values()
    before = len(world.seam.calls)
    assert set(first().values()) == {IsolationResult.DONE}
    assert sum(call.name == "table.transact" for call in world.seam.calls[before:]) <= GROUP // 5
    world.fault(2 * GROUP)
    world.guard(CLUSTER)
    assert set(second().values()) == {IsolationResult.HELD}
    in_service = [node for node in range(1, 2 * GROUP + 1) if world.status(node) is NodeStatus.DEGRADED]
    assert in_service == list(range(GROUP + 1, 2 * GROUP + 1))


def test_at_most_fifteen_nodes_are_isolated_between_two_reads_of_the_breakers():
    world = World(nodes=31)
    for node in range(1, 32):
        world.fault(node)
    steps = world.isolate_many(CLUSTER, node_names(31)).values()
    assert [list(isolate().values()) for isolate in steps] == [[IsolationResult.DONE] * size for size in (15, 15, 1)]


def test_a_node_that_cannot_be_isolated_keeps_no_other_of_its_group_in_service(monkeypatch):
    world = World(nodes=5)
    for node in range(1, 6):
        world.fault(node)
    transact = type(world.table).transact

    def refuse(table, writes, token=None):
        if any(write.key.pk.endswith("node-2") for write in writes):
            message = "the item is too large"
            raise Misconfigured(message)
        transact(table, writes, token)

    monkeypatch.setattr(type(world.table), "transact", refuse)
    (isolate,) = world.isolate_many(CLUSTER, node_names(5)).values()
    with pytest.raises(Misconfigured, match="too large"):
        isolate()
    degraded = [node for node in range(1, 6) if world.status(node) is NodeStatus.DEGRADED]
    assert degraded == [2]


def test_after_a_conflict_in_a_group_the_breaker_is_read_again():
    world = World(nodes=10, breakers=(CLUSTER_LIMIT,))
    for node in range(1, 5):
        world.fault(node)
    (isolate,) = world.isolate_many(CLUSTER, node_names(4), world.control()).values()

    def fail_another() -> None:
        world.fault(2, "xid.48")
        fail(world, *range(5, 9))

    run_before_write(world.seam, writes_to(keys.node_state(world.key(1))), fail_another)
    assert set(isolate().values()) == {IsolationResult.HELD}
    assert world.control().breakers
    assert {world.status(node) for node in range(1, 9)} == {NodeStatus.DEGRADED}


@pytest.fixture
def slow() -> World:
    """Return a cluster whose orchestrator takes half of the time in which a batch isolates nodes for each node."""
    world = World(nodes=12, limits=limits(concurrent=1), orchestrated=True)
    for node in range(1, 6):
        world.fault(node)

    def delay(call: Call) -> None:
        if call.name == "orchestrator.cordon":
            world.clock.advance(MAX_ISOLATING / 2)

    world.seam.before = delay
    return world


TRIGGERS = {(CLUSTER, name) for name in node_names(5)}


def test_a_slow_orchestrator_does_not_keep_the_repairs_of_a_batch_waiting(slow: World):
    with pytest.raises(Transient, match="nodes isolated: 2"):
        slow.react(TRIGGERS)
    assert slow.orchestrator.cordoned == set(node_names(2))
    assert len(slow.control().holders) == 1


def test_the_next_delivery_of_a_batch_isolates_the_nodes_that_are_left(slow: World):
    for isolated in (2, 4):
        with pytest.raises(Transient, match="nodes isolated: 2"):
            slow.react(TRIGGERS)
        assert slow.orchestrator.cordoned == set(node_names(isolated))
    slow.react(TRIGGERS)
    assert slow.orchestrator.cordoned == set(node_names(5))


def test_the_clusters_of_a_batch_share_its_time(slow: World):
    begun = slow.clock.now()
    with pytest.raises(Transient, match=r"20\.0 seconds; nodes isolated: 1"):
        slow.react({*TRIGGERS, ("train-b", None)})
    assert slow.clock.now() - begun == MAX_ISOLATING  # the second half is the one case that is admitted


def test_an_orchestrator_that_does_not_respond_keeps_no_other_entries_waiting(
    slow: World, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "faultbridge")
    slow.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 100)
    begun = slow.clock.now()
    slow.react(TRIGGERS)
    assert slow.clock.now() - begun == 1.5 * MAX_ISOLATING  # two calls to isolate nodes, and one to admit a case
    names = [one.message for one in caplog.records]
    assert (names.count("isolation_interrupted"), names.count("admission_interrupted")) == (1, 1)
    assert slow.control().holders == {}
    status = items.read_cluster(CLUSTER, slow.table.get(keys.cluster_state(CLUSTER))).status
    assert status is ClusterStatus.DEGRADED


def test_the_sweep_isolates_the_nodes_that_a_batch_left(slow: World):
    slow.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 5)
    slow.react(TRIGGERS)
    assert slow.orchestrator.cordoned == set()
    slow.orchestrator.failures.clear()
    slow.seam.before = lambda _call: None
    slow.advance_minutes(2)
    assert slow.orchestrator.cordoned == set(node_names(5))


def test_one_run_records_refusals_up_to_a_limit_and_the_next_one_the_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queued_cases, "MAX_REFUSALS", 5)
    monkeypatch.setattr(queued_cases, "MAX_BEFORE_REPAIRS", 0)
    world = World(nodes=40, limits=limits(concurrent=1))
    for node in range(1, 9):
        world.fault(node)
    world.react({(CLUSTER, name) for name in node_names(8)})
    assert len(waiting(world)) == 5
    world.react({(CLUSTER, None)})
    assert len(waiting(world)) == 7


def test_few_refusals_are_recorded_before_the_cases_that_may_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queued_cases, "MAX_BEFORE_REPAIRS", 2)
    world = World(nodes=40, limits=limits(concurrent=1))
    for node in range(1, 9):
        world.fault(node)
    before: list[int] = []
    admission = writes_to(keys.cluster_control(CLUSTER))
    run_before_write(world.seam, admission, lambda: before.append(len(waiting(world))))
    world.react({(CLUSTER, name) for name in node_names(8)})
    assert before == [2]
    assert len(waiting(world)) == 7


def waiting(world: World) -> list[int]:
    """Return the nodes for whose cases it is recorded what they wait for."""
    return [node for node in range(1, 9) if world.case(node).waiting_for is WaitingFor.BUDGET]


def test_a_node_whose_isolation_was_requested_before_is_isolated_apart_from_the_group():
    world = World(nodes=3)
    for node in (1, 2, 3):
        world.fault(node)

    def requested(state, _now):
        return Transition(replace(state, isolation=Isolation.REQUESTED))

    world.append(world.key(2), requested, actor=Actor.ISOLATE)
    isolating = world.isolate_many(CLUSTER, node_names(3))
    assert list(isolating) == ["node-1, node-3", "node-2"]
    done = {name: result for isolate in isolating.values() for name, result in isolate().items()}
    assert done == dict.fromkeys(node_names(3), IsolationResult.DONE)


def test_a_breaker_does_not_hold_a_node_that_its_rule_keeps_in_service():
    world = World(nodes=4, breakers=(BreakerLimit(nodes=2, percent=20),), rules=(Rule("gentle", isolate=False),))
    for node in (1, 2):
        world.fault(node)
    control = world.guard(CLUSTER)
    assert control is not None
    assert control.breakers
    (isolate,) = world.isolate_many(CLUSTER, node_names(2), control).values()
    assert set(isolate().values()) == {IsolationResult.NOTHING}
