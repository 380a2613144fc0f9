"""Batch reads: the nodes of a batch and their counters are read with one call; a partial answer delays few nodes."""

from __future__ import annotations

import pytest

from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Key
from faultbridge.record.ports.table import UnprocessedKeys
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.sim.fakes.seam import Call
from tests.world import World

SOURCE = "dcgm-metrics"
NODES = ("a", "b", "c")


def gauge(world: World, node: str, xid: int) -> Delivery:
    """Return a sample of the last-Xid gauge of one GPU."""
    labels = 'gpu="0",UUID="GPU-1",pci_bus_id="00000000:c1:00.0"'
    return world.message(f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} {xid}\n", source=SOURCE, node=node)


def gauges(world: World, xid: int) -> list[Delivery]:
    return [gauge(world, node, xid) for node in NODES]


def samples_key(node: str) -> Key:
    return keys.counter_samples(KEY._replace(node=node), SOURCE)


def state_key(node: str) -> Key:
    return keys.node_state(KEY._replace(node=node))


@pytest.fixture
def world() -> World:
    """Return a world with stored counters of each node, six minutes old."""
    world = World(nodes=NODES)
    world.outcomes(*gauges(world, 0))
    world.ports.clock.advance(360)
    return world


def leave_unread(world: World, *unread: Key, until_alone: bool = False) -> None:
    """Let each read leave keys out; with `until_alone`, a read of fewer than three keys returns them."""
    table, seam = world.ports.table, world.ports.seam

    def before(call: Call) -> None:
        if call.name != "table.get_many" or not set(unread).intersection(call.argument):
            return
        if until_alone and len(call.argument) < len(NODES):
            return
        seam.before = lambda _: None
        read = set(call.argument).difference(unread)
        found = table.get_many(read)
        seam.before = before
        raise UnprocessedKeys("throttled", found, set(unread).intersection(call.argument))

    seam.before = before


def statuses(world: World) -> dict[str, bool]:
    """Return by node whether it has a fault."""
    return {node: bool(world.node(KEY._replace(node=node)).conditions) for node in NODES}


def test_the_nodes_of_a_batch_and_their_counters_are_read_with_one_call(world: World) -> None:
    deliveries, before = gauges(world, 0), len(world.ports.seam.named("table.get_many"))
    assert world.outcomes(*deliveries) == [Outcome.CLEAN] * len(NODES)
    reads = world.ports.seam.named("table.get_many")[before:]
    wanted = {key(node) for node in NODES for key in (state_key, samples_key)}
    assert [wanted.issubset(call.argument) for call in reads if wanted.intersection(call.argument)] == [True]


def test_a_counter_fault_of_a_batch_is_recorded(world: World) -> None:
    world.outcomes(gauge(world, "a", 0), gauge(world, "b", 79), gauge(world, "c", 0))
    assert statuses(world) == {"a": False, "b": True, "c": False}


def test_only_the_records_of_a_node_that_was_not_read_are_given_back(world: World) -> None:
    deliveries = gauges(world, 79)
    leave_unread(world, state_key("b"))
    result = wire_ingest(world.app).ingest(deliveries)
    assert result.failed == {deliveries[1].message_id: "state_unavailable"}
    world.ports.seam.before = lambda _: None
    assert statuses(world) == {"a": True, "b": False, "c": True}


def test_counters_that_were_not_read_with_the_nodes_are_read_again(world: World) -> None:
    deliveries = gauges(world, 79)
    leave_unread(world, samples_key("b"), until_alone=True)
    assert world.outcomes(*deliveries) == [Outcome.RECORDED] * len(NODES)


def test_only_the_records_of_a_node_whose_counters_cannot_be_read_are_given_back(world: World) -> None:
    deliveries = gauges(world, 79)
    leave_unread(world, samples_key("b"))
    result = wire_ingest(world.app).ingest(deliveries)
    assert result.failed == {deliveries[1].message_id: "state_unavailable"}
    world.ports.seam.before = lambda _: None
    assert statuses(world) == {"a": True, "b": False, "c": True}
