"""Isolation: an unexpected error of one record or node does not delay the others of its batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import force_setattr

from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Put, Write
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.ingest import ALONE_FROM_RECEIVES
from faultbridge.serve.ingest.outcomes import process_isolated
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_rejects
from tests.builders import KEY
from tests.ingest.builders import break_decoding
from tests.sim.fakes.seam import Call
from tests.world import XID_31, XID_79, World

NODES = tuple(f"n-{number}" for number in range(100))


def documents(count: int, prefix: str, severity: str = "warning", size: int = 0) -> str:
    """Return normalized faults with different codes, and with attributes of a size."""
    attributes = {f"a{number}": "x" * 512 for number in range(size)}
    return "\n".join(
        json.dumps(
            {
                "kind": "fault",
                "code": f"agent.{prefix}{number}",
                "component": {"type": "gpu", "pci": f"0000:{number:02x}:00"},
                "message": "m",
                "severity": severity,
                "action": "none",
                "attributes": attributes,
            }
        )
        for number in range(count)
    )


def counters(ports: int, first: int = 0) -> str:
    names = ("port_rcv_errors", "link_downed", "symbol_error")
    return "\n".join(
        f"/sys/class/infiniband/mlx5_{port}/ports/1/counters/{name}:12345678"
        for port in range(first, first + ports)
        for name in names
    )


def writes_of(call: Call) -> tuple[Write, ...]:
    if call.name == "table.write":
        return (call.argument,)
    return tuple(call.argument) if call.name == "table.transact" else ()


def break_writes(world: World, node: str, error: Exception) -> None:
    """Raise an error whenever the state of a node is written."""
    key = keys.node_state(KEY._replace(node=node))

    def before(call: Call) -> None:
        if any(write.key == key for write in writes_of(call)):
            raise error

    world.ports.seam.before = before


def break_state(world: World, node: str) -> None:
    """Store a state that cannot be read."""
    key = keys.node_state(KEY._replace(node=node))
    stored = world.ports.table.get(key)
    assert stored is not None
    state = unpack(dict[str, Any], stored["state"]) | {"status": "no-such-status"}
    world.ports.table.write(Put({**stored, "state": pack(state)}))


def break_heartbeats(world: World, node: str) -> None:
    log = wire_ingest(world.app).heartbeats
    key = KEY._replace(node=node)
    record = type(log).record

    class Broken(type(log)):  # type: ignore[misc] # the class of the object
        def record(self, heartbeats: Any) -> None:
            if key in heartbeats:
                raise KeyError("planted")
            record(self, heartbeats)

    force_setattr(wire_ingest(world.app), "heartbeats", Broken(log.table, log.clock, log.rulebook))


def status(world: World, node: str) -> NodeStatus | None:
    return world.node(KEY._replace(node=node)).status


def batch(world: World, hostile: dict[str, Delivery]) -> list[Delivery]:
    return [hostile.get(node) or world.message(XID_79, node=node) for node in NODES]


def test_of_100_records_with_five_that_fail_in_five_ways_95_commit_in_the_first_receive() -> None:
    world = World(nodes=NODES)
    heartbeat = world.message(
        json.dumps({"heartbeat": 1, "at": world.now.isoformat()}), source="heartbeat", node="n-41"
    )
    hostile = {
        "n-1": world.message("crash " + XID_79, node="n-1"),
        "n-22": world.message(XID_79, node="n-22"),
        "n-41": heartbeat,
        "n-63": world.message(XID_79, node="n-63"),
        "n-99": world.message(XID_79, node="n-99"),
    }
    break_decoding(world, b"crash")
    break_state(world, "n-22")
    break_heartbeats(world, "n-41")
    break_writes(world, "n-63", ValueError("planted"))
    lookup = wire_ingest(world.app).node_lookup
    find = type(lookup)._find

    class Broken(type(lookup)):  # type: ignore[misc] # the class of the object
        def _find(self, part: Any, candidates: Any, rows: Any) -> Any:
            if part.record.node == "n-99":
                raise AttributeError("planted")
            return find(self, part, candidates, rows)

    force_setattr(wire_ingest(world.app), "node_lookup", Broken(lookup.item_cache, lookup.rulebook, lookup.trust))
    result = wire_ingest(world.app).ingest(batch(world, hostile))
    reasons = dict.fromkeys(hostile, "unexpected_error") | {"n-22": "misconfigured"}
    assert result.failed == {delivery.id: reasons[node] for node, delivery in hostile.items()}
    assert list(result.outcomes.values()) == [Outcome.RECORDED] * 95
    others = [node for node in NODES if node not in hostile]
    assert {status(world, node) for node in others} == {NodeStatus.DEGRADED}


def test_of_100_records_with_five_hostile_inputs_all_have_an_outcome_in_the_first_receive() -> None:
    world = World(nodes=NODES)
    world.outcomes(world.message(documents(64, "x"), source="faultbridge", node="n-1"))
    world.ports.clock.advance(timedelta(minutes=1))
    hostile = {
        "n-1": world.message(documents(64, "y", "fatal"), source="faultbridge", node="n-1"),
        "n-22": world.message(documents(13, "z", size=48), source="faultbridge", node="n-22"),
        "n-41": world.message(counters(500), source="rdma-counters", node="n-41"),
        "n-63": world.message("\0\1\2", node="n-63"),
        "n-99": world.message(XID_79, node="n-99", sent_at=world.now.replace(year=2038)),
    }
    result = wire_ingest(world.app).ingest(batch(world, hostile))
    assert result.failed == {}
    assert len(result.outcomes) == 100
    assert list(result.outcomes.values()).count(Outcome.RECORDED) == 99
    others = [node for node in NODES if node not in hostile]
    assert {status(world, node) for node in others} == {NodeStatus.DEGRADED}


@pytest.mark.parametrize("error", [ValueError("planted"), Transient("throttled")])
def test_an_error_of_one_write_gives_back_only_the_records_of_its_node(error: Exception) -> None:
    world = World(nodes=("a", "b"))
    break_writes(world, "a", error)
    failing, good = world.message(XID_79, node="a"), world.message(XID_79, node="b")
    result = wire_ingest(world.app).ingest([failing, good])
    assert list(result.failed) == [failing.id]
    assert status(world, "b") is NodeStatus.DEGRADED


def test_a_record_that_fails_does_not_delay_the_other_records_of_its_node() -> None:
    world = World()

    def before(call: Call) -> None:
        if any("xid.31" in str(write) for write in writes_of(call)):
            raise ValueError("planted")

    world.ports.seam.before = before
    failing, good = world.message(XID_31), world.message(XID_79)
    result = wire_ingest(world.app).ingest([failing, good])
    assert result.failed == {failing.id: "unexpected_error"}
    assert result.outcomes == {good_id(good): Outcome.RECORDED}
    assert "gpu.lost@gpu/pci=0000:c1:00" in world.node().conditions


def good_id(delivery: Delivery) -> str:
    return delivery.ids().record_id


def test_a_record_that_fails_alone_is_rejected_and_can_be_retried() -> None:
    world = World()
    break_decoding(world, b"crash")
    message = world.message("crash " + XID_79)
    for receives in range(1, ALONE_FROM_RECEIVES):
        assert wire_ingest(world.app).ingest([replace(message, receives=receives)]).failed
    result = wire_ingest(world.app).ingest([replace(message, receives=ALONE_FROM_RECEIVES)])
    assert (list(result.outcomes.values()), list(result.reasons.values())) == (
        [Outcome.REJECTED],
        ["unexpected_error"],
    )
    assert not result.failed
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    assert reject.reason == "unexpected_error"


def test_a_misconfiguration_rejects_no_message_however_often_it_was_received() -> None:
    world = World()
    break_writes(world, KEY.node, Misconfigured("planted"))
    message = world.message(XID_79)
    for receives in range(ALONE_FROM_RECEIVES, 25):
        result = wire_ingest(world.app).ingest([replace(message, receives=receives)])
        assert (result.failed, result.outcomes) == ({message.id: "misconfigured"}, {})
    world.ports.seam.before = lambda _: None
    assert world.outcomes(replace(message, receives=25)) == [Outcome.RECORDED]


def failing_at(*bad: int) -> Callable[[Any], list[int]]:
    def process(items: Any) -> list[int]:
        if set(items) & set(bad):
            raise ValueError("planted")
        return list(items)

    return process


def test_after_an_unexpected_error_every_item_is_processed_alone() -> None:
    failed: list[tuple[list[int], str]] = []
    done = process_isolated([1, 2, 3], failing_at(2), lambda items, error: failed.append((list(items), str(error))))
    assert (done, failed) == ([1, 3], [([2], "planted")])


def test_after_a_transient_error_no_item_is_tried_alone() -> None:
    calls: list[object] = []

    def process(items: Any) -> list[int]:
        calls.append(items)
        raise Transient("throttled")

    failed: list[Any] = []
    assert process_isolated([1, 2], process, lambda items, _: failed.extend(items)) == []
    assert (failed, len(calls)) == ([1, 2], 1)
