"""Shared messages: records that share a message have the same effects as messages of their own, and fail one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import encode_message, join_records, raw_key
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import ingest, wire_ingest
from faultbridge.serve.ingest.ingest import ALONE_FROM_RECEIVES, MAX_ATTEMPTS
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_rejects
from tests.builders import KEY
from tests.ingest.builders import break_decoding
from tests.sim.fakes import raise_once
from tests.world import XID_31, XID_79, World

pytestmark = pytest.mark.slow

XID_63 = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, name=python, Row Remapper: New row marked for remapping"
HEALTHY = '{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'
KINDS = {
    "xid 79": ("kernel-log", XID_79),
    "xid 31": ("kernel-log", XID_31),
    "xid 63": ("kernel-log", XID_63),
    "healthy": ("dcgm-health", HEALTHY),
    "heartbeat": ("heartbeat", "{at}"),
    "no record": ("kernel-log", "no line of a kernel"),
    "unknown node": ("kernel-log", XID_79),
}


def record(world: World, kind: str, number: int, **others: object) -> Delivery:
    """Return a delivery of one record of the node, sent `number` seconds before now."""
    source, text = KINDS[kind]
    sent = world.now - timedelta(seconds=number)
    if source == "heartbeat":
        text = json.dumps({"heartbeat": number, "at": sent.isoformat()})
    node = "unregistered" if kind == "unknown node" else KEY.node
    return world.message(text, source=source, sent_at=sent, record_id=f"r-{number}", **{"node": node} | others)


def shared(*records: Delivery, name: str = "m-shared") -> Delivery:
    """Return one message that contains the records of some deliveries."""
    return replace(records[0], id=name, text=join_records([one.text for one in records]))


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=10), st.booleans())
def test_a_shared_message_has_the_same_outcomes_and_effects_as_its_records_in_one_batch(
    kinds: Sequence[str], twice: bool
) -> None:
    together, alone = World(), World()
    records = {world: [record(world, kind, number) for number, kind in enumerate(kinds)] for world in (together, alone)}
    for _ in range(1 + twice):
        together_result = wire_ingest(together.app).ingest([shared(*records[together])])
        single = wire_ingest(alone.app).ingest(records[alone])
        assert (together_result.outcomes, together_result.reasons, together_result.unparsed) == (
            single.outcomes,
            single.reasons,
            single.unparsed,
        )
        assert (together_result.failed, single.failed) == ({}, {})
    assert _table(together) == _table(alone)
    assert _heartbeats(together) == ({KEY.node} if "heartbeat" in kinds else set())


@given(st.lists(st.sampled_from(["xid 79", "xid 31", "xid 63", "healthy"]), min_size=2, max_size=10))
def test_a_shared_message_ends_in_the_same_conditions_as_its_records_delivered_one_by_one(kinds: Sequence[str]) -> None:
    together, alone = World(), World()
    wire_ingest(together.app).ingest([shared(*(record(together, kind, 9 - n) for n, kind in enumerate(kinds)))])
    for number, kind in enumerate(kinds):
        assert not wire_ingest(alone.app).ingest([record(alone, kind, 9 - number)]).failed
    found = [  # a stored count is a lower bound: it may be that of an earlier record
        {key: (one.active, sorted(one.reporters)) for key, one in world.node().conditions.items()}
        for world in (together, alone)
    ]
    assert found[0] == found[1]
    assert together.node().status == alone.node().status


def _table(world: World) -> dict[tuple[object, object], dict[str, object]]:
    """Return every item of the table by its key: no item contains the id of a message."""
    return {(item["pk"], item["sk"]): dict(item) for item in world.ports.table.items()}


def _heartbeats(world: World) -> set[str]:
    """Return the nodes whose heartbeats are stored."""
    return set(wire_ingest(world.app).heartbeats.read(world.config).last)


def test_one_record_that_fails_does_not_stop_the_others_of_its_message() -> None:
    world = World()
    break_decoding(world, b"crash")
    hostile = world.message("crash " + XID_79, record_id="hostile")
    message = shared(record(world, "xid 79", 2), hostile, record(world, "xid 31", 1))
    result = wire_ingest(world.app).ingest([message])
    assert result.failed == {"m-shared": "unexpected_error"}
    assert result.outcomes == {"r-2": Outcome.RECORDED, "r-1": Outcome.RECORDED}
    stored = list(world.ports.table.items())
    again = wire_ingest(world.app).ingest([replace(message, receives=2)])
    assert (again.failed, again.outcomes["r-2"]) == ({"m-shared": "unexpected_error"}, Outcome.DUPLICATE)
    assert list(world.ports.table.items()) == stored, "the effects of the others apply once"
    last = wire_ingest(world.app).ingest([replace(message, receives=ALONE_FROM_RECEIVES)])
    assert (last.failed, last.reasons) == ({}, {"hostile": "unexpected_error"})
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    assert reject.record_id == "hostile"


def test_a_record_that_stops_its_worker_is_rejected_alone() -> None:
    world = World()
    message = replace(shared(record(world, "xid 79", 2), record(world, "xid 31", 1)), receives=ALONE_FROM_RECEIVES)
    hostile = message.records()[1]
    for _ in range(MAX_ATTEMPTS):  # the worker stopped in each attempt
        assert wire_ingest(world.app).poison_messages.start_attempt(hostile.id)
    result = wire_ingest(world.app).ingest([message])
    assert (result.failed, result.reasons) == ({}, {"r-1": "kills_worker"})
    assert result.outcomes["r-2"] is Outcome.RECORDED


def test_a_shared_message_that_is_not_valid_is_rejected_with_what_is_allowed() -> None:
    world = World()
    pointer = replace(decode_message(world.message().text), body=None, pointer=raw_key(KEY.cluster, world.now, b"much"))
    message = shared(record(world, "xid 79", 1), replace(world.message(), text=encode_message(pointer)))
    result = wire_ingest(world.app).ingest([message])
    assert set(result.reasons.values()) == {"bad_shared_message"}
    (reject,) = wire_rejects(world.app).list(NO_CLUSTER)
    assert "1 to 10 `records`" in reject.detail


def test_an_outage_gives_the_whole_message_back_once() -> None:
    world = World()
    world.ports.seam.before = raise_once(("table.transact", Transient("throttled")))
    records = [record(world, "xid 79", 2), record(world, "xid 63", 1)]
    given_back = wire_ingest(world.app).ingest([shared(*records)])
    assert (given_back.failed, given_back.outcomes) == ({"m-shared": "state_unavailable"}, {})
    assert set(wire_ingest(world.app).ingest([shared(*records)]).outcomes.values()) == {Outcome.RECORDED}


def test_the_sender_of_a_message_is_checked_for_each_record() -> None:
    world = World(nodes=(KEY.node, "neighbor"), settings={"FAULTBRIDGE_SENDER_PROOF": "on"})
    incarnation = world.node().incarnation
    assert incarnation is not None
    own = record(world, "xid 79", 1)
    forged = record(world, "xid 79", 2, node="neighbor")
    message = replace(shared(own, forged), sender=f"AROANODE:{incarnation.instance_id}")
    result = wire_ingest(world.app).ingest([message])
    assert result.outcomes == {"r-1": Outcome.RECORDED, "r-2": Outcome.REJECTED}
    assert result.reasons == {"r-2": "untrusted"}
    assert not world.node(KEY._replace(node="neighbor")).conditions


def test_a_rejected_record_is_retried_as_a_message_of_its_own() -> None:
    world = World()
    wire_ingest(world.app).ingest([shared(record(world, "unknown node", 1), record(world, "xid 79", 2))])
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    wire_rejects(world.app).retry(reject)
    (sent,) = world.ports.queue.receive()
    assert decode_message(sent.body).record_id == "r-1"


def test_many_full_messages_of_one_batch_are_all_processed() -> None:
    world = World()
    messages = [
        shared(*(record(world, "xid 31", 10 * message + place) for place in range(10)), name=f"m-{message}")
        for message in range(30)
    ]
    assert len(wire_ingest(world.app).ingest(messages).outcomes) == 300


def test_the_function_returns_the_id_of_the_message_and_the_outcome_of_each_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    break_decoding(world, b"crash")
    message = shared(record(world, "xid 79", 1), world.message("crash", record_id="hostile"))
    event = {"messageId": "m-1", "body": message.text, "attributes": {"SentTimestamp": "1770120000000"}}
    assert ingest({"Records": [event]}, world.app)["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (receipt,) = [line for line in lines if "records" in line]
    assert receipt["records"] == {"recorded": "r-1"}


def test_each_record_of_a_message_has_its_own_place() -> None:
    world = World()
    message = shared(record(world, "xid 79", 1), record(world, "xid 31", 2))
    assert [one.id for one in message.records()] == ["m-shared/0", "m-shared/1"]
    assert {one.message_id for one in message.records()} == {"m-shared"}
    assert len(split_records(message.text)) == 2
