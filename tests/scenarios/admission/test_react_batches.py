"""Batches of `react`: nodes are read together, and a node is read again before an action."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, ClusterStatus, Isolation, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.repair import dispatch
from faultbridge.repair.isolate import GROUP, IsolationResult, prepare_isolations
from faultbridge.serve.ops.react import MAX_ISOLATING
from tests.races import run_before_write, writes_to
from tests.scenarios.admission.builders import CLUSTER_LIMIT, fail
from tests.scenarios.world import CLUSTER, World, limits
from tests.sim.fakes.seam import Call


def node_names(number: int) -> list[str]:
    return [f"node-{node}" for node in range(1, number + 1)]


def table_calls(number: int) -> Counter[str]:
    """Count the table calls of one `react` batch of nodes that all wait for an open breaker."""
    world = World(nodes=number, breakers=(CLUSTER_LIMIT,))
    fail(world, *range(1, number + 1))
    world.advance_minutes(4)
    before = len(world.seam.calls)
    world.react.run({(CLUSTER, name) for name in node_names(number)})
    assert world.control().breakers
    return Counter(call.name for call in world.seam.calls[before:])


def test_nodes_that_wait_for_an_open_breaker_cost_no_extra_calls():
    few, many = table_calls(20), table_calls(80)
    for name in ("table.get", "table.get_many", "table.query"):
        assert many[name] <= few[name] + 1, name


def test_a_node_that_recovered_after_the_read_is_not_cordoned():
    world = World(nodes=2, orchestrated=True)
    world.fault(1)
    world.fault(2)
    isolating = prepare_isolations(world.isolate, CLUSTER, node_names(2))
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
    isolating = prepare_isolations(world.isolate, CLUSTER, node_names(1))
    world.orchestrator.failures.clear()
    world.clock.advance(5)
    world.clear()
    world.advance_minutes()
    assert world.node().isolation is Isolation.NONE
    world.clock.advance(timedelta(minutes=10))
    assert isolating["node-1"]() == {"node-1": IsolationResult.NOTHING}
    assert world.orchestrator.cordoned == set()


def test_lost_nodes_without_orchestrator_are_isolated_in_groups():
    world = World(nodes=4 * GROUP)
    for node in range(1, GROUP + 1):
        world.fault(node)
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, node_names(GROUP)).values()
    before = len(world.seam.calls)
    assert set(isolate().values()) == {IsolationResult.DONE}
    assert sum(call.name == "table.transact" for call in world.seam.calls[before:]) <= GROUP // 5


def test_the_most_severe_faults_get_the_permits_of_a_batch():
    world = World(nodes=10)
    for node in range(1, 9):
        world.fault(node, "xid.31" if node < 8 else "xid.48")
    isolating = prepare_isolations(world.isolate, CLUSTER, node_names(8))
    assert next(iter(isolating)) == "node-8"


def test_at_most_fifteen_nodes_are_isolated_in_one_transaction():
    world = World(nodes=31)
    for node in range(1, 32):
        world.fault(node)
    steps = prepare_isolations(world.isolate, CLUSTER, node_names(31)).values()
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
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, node_names(5)).values()
    with pytest.raises(Misconfigured, match="too large"):
        isolate()
    degraded = [node for node in range(1, 6) if world.status(node) is NodeStatus.DEGRADED]
    assert degraded == [2]


def test_after_a_conflict_in_a_group_each_node_is_isolated_alone_by_what_it_is_then():
    world = World(nodes=10)
    for node in range(1, 4):
        world.fault(node)
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, node_names(3)).values()
    world.clock.advance(5)
    run_before_write(world.seam, writes_to(keys.node_state(world.key(1))), lambda: world.clear(2))
    assert list(isolate().values()) == [IsolationResult.DONE, IsolationResult.NOTHING, IsolationResult.DONE]


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
        slow.react.run(TRIGGERS)
    assert slow.orchestrator.cordoned == set(node_names(2))
    assert len(slow.control().holders) == 1


def test_the_next_delivery_of_a_batch_isolates_the_nodes_that_are_left(slow: World):
    for isolated in (2, 4):
        with pytest.raises(Transient, match="nodes isolated: 2"):
            slow.react.run(TRIGGERS)
        assert slow.orchestrator.cordoned == set(node_names(isolated))
    slow.react.run(TRIGGERS)
    assert slow.orchestrator.cordoned == set(node_names(5))


def test_the_clusters_of_a_batch_share_its_time(slow: World):
    begun = slow.clock.now()
    with pytest.raises(Transient, match=r"20\.0 seconds; nodes isolated: 1"):
        slow.react.run({*TRIGGERS, ("train-b", None)})
    assert slow.clock.now() - begun == MAX_ISOLATING  # the second half is the one case that is admitted


def test_an_orchestrator_that_does_not_respond_keeps_no_other_entries_waiting(
    slow: World, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "faultbridge")
    slow.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 100)
    begun = slow.clock.now()
    slow.react.run(TRIGGERS)
    assert slow.clock.now() - begun == 1.5 * MAX_ISOLATING  # two calls to isolate nodes, and one to admit a case
    names = [one.message for one in caplog.records]
    assert (names.count("isolation_interrupted"), names.count("admission_interrupted")) == (1, 1)
    assert slow.control().holders == {}
    status = items.read_cluster(CLUSTER, slow.table.get(keys.cluster_state(CLUSTER))).status
    assert status is ClusterStatus.DEGRADED


def test_the_sweep_isolates_the_nodes_that_a_batch_left(slow: World):
    slow.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 5)
    slow.react.run(TRIGGERS)
    assert slow.orchestrator.cordoned == set()
    slow.orchestrator.failures.clear()
    slow.seam.before = lambda _call: None
    slow.advance_minutes(2)
    assert slow.orchestrator.cordoned == set(node_names(5))


def test_one_run_records_refusals_up_to_a_limit_and_the_next_one_the_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "MAX_REFUSALS", 5)
    monkeypatch.setattr(dispatch, "MAX_BEFORE_REPAIRS", 0)
    world = World(nodes=40, limits=limits(concurrent=1))
    for node in range(1, 9):
        world.fault(node)
    world.react.run({(CLUSTER, name) for name in node_names(8)})
    assert len(waiting(world)) == 5
    world.react.run({(CLUSTER, None)})
    assert len(waiting(world)) == 7


def test_few_refusals_are_recorded_before_the_cases_that_may_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "MAX_BEFORE_REPAIRS", 2)
    world = World(nodes=40, limits=limits(concurrent=1))
    for node in range(1, 9):
        world.fault(node)
    before: list[int] = []
    admission = writes_to(keys.cluster_control(CLUSTER))
    run_before_write(world.seam, admission, lambda: before.append(len(waiting(world))))
    world.react.run({(CLUSTER, name) for name in node_names(8)})
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
    isolating = prepare_isolations(world.isolate, CLUSTER, node_names(3))
    assert list(isolating) == ["node-1, node-3", "node-2"]
    done = {name: result for isolate in isolating.values() for name, result in isolate().items()}
    assert done == dict.fromkeys(node_names(3), IsolationResult.DONE)
