"""Bodies that unpack to much more than a message, or lie in the object store: how much of them ingest decodes."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from msgspec.structs import force_setattr

from faultbridge.decode.frames import body as frames
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.records import Outcome
from faultbridge.model.storage.wire.message import (
    MAX_BODY_BYTES,
    MAX_UNPACKED_BYTES,
    Message,
    encode_message,
    join_records,
    raw_key,
)
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.ingest import ALONE_FROM_RECEIVES
from faultbridge.serve.ingest.record_reader import Delivery
from tests.bench.hostile_messages import pack
from tests.builders import KEY
from tests.ingest.builders import SECRET, stored_text
from tests.sim.fakes.seam import Call
from tests.world import XID_79, World

XID_LINE = f"{XID_79}\n".encode()


def counted(world: World) -> list[int]:
    """Return the sizes of the bodies that the reader of a world decodes from now on."""
    sizes: list[int] = []
    reader = wire_ingest(world.app).reader
    decode = reader.decode

    def counting(source: str, body: bytes, hints: Hints) -> Decoded:
        sizes.append(len(body))
        return decode(source, body, hints)

    force_setattr(reader, "decode", counting)
    return sizes


def stored_body(world: World, body: bytes) -> Delivery:
    """Store a body as a node may, and return the message that points to it."""
    key = raw_key(KEY.cluster, world.now, body)
    world.ports.objects.put(key, body)
    return world.pointing(key)


@pytest.mark.parametrize("line", [f"{XID_79} --token={SECRET}", f"--token={SECRET}"], ids=["recorded", "rejected"])
def test_the_secrets_of_a_packed_record_are_masked(line: str) -> None:
    world = World()
    wire_ingest(world.app).ingest([world.message(pack(line, 400))])
    stored = stored_text(world)
    packed_again = [one for one in world.ports.objects.stored.values() if b"awslogs" in one]
    assert (SECRET in stored, packed_again) == (False, [])


def test_a_packed_record_in_a_message_unpacks_to_as_much_as_a_body() -> None:
    world = World()
    sizes = counted(world)
    small, large = pack(XID_79, MAX_UNPACKED_BYTES), pack(XID_79, 2 * MAX_UNPACKED_BYTES)
    assert world.outcomes(world.message(small)) == [Outcome.RECORDED]
    assert world.outcomes(world.message(large)) == [Outcome.REJECTED]
    assert [size <= MAX_UNPACKED_BYTES for size in sizes] == [True]


def test_the_packed_records_of_one_message_share_its_limit() -> None:
    world = World()
    sizes = counted(world)
    bodies = [pack(XID_79, MAX_UNPACKED_BYTES // 2)] * 3 + [pack(XID_79, MAX_UNPACKED_BYTES // 6)] * 3
    records = [
        encode_message(Message(f"r-{place}", "kernel-log", KEY.cluster, world.now, node=KEY.node, body=body))
        for place, body in enumerate(bodies)
    ]
    result = wire_ingest(world.app).ingest([Delivery("m-1", join_records(records), world.now)])
    assert set(result.reasons.values()) == {"too_large"}
    assert len(result.reasons) == len(sizes) == 3
    assert sum(sizes) <= MAX_UNPACKED_BYTES


def test_a_record_that_is_packed_twice_is_rejected() -> None:
    inner = pack(XID_79, 400)
    data = base64.b64encode(gzip.compress(inner)).decode()
    with pytest.raises(Rejected) as rejected:
        frames.unpacked(json.dumps({"awslogs": {"data": data}}).encode())
    assert rejected.value.reason == "malformed_envelope"


@pytest.mark.parametrize("source", ["kernel-log", "dcgm-health", "hyperpod-agent-log"])
def test_a_packed_record_within_a_wrapped_line_is_not_unpacked(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"log": pack(XID_79, 100_000).decode() + "\n", "stream": "stdout"})
    unpacked: list[int] = []
    monkeypatch.setattr(frames, "_record_of", lambda *_: unpacked.append(1))
    world = World()
    wire_ingest(world.app).ingest([world.message("\n".join([line] * 5), source=source)])
    assert unpacked == []


def test_bodies_in_the_object_store_are_decoded_after_all_other_records_are_committed() -> None:
    nodes = tuple(f"n-{number}" for number in range(20))
    world = World(nodes=nodes)
    pointing = [stored_body(world, XID_LINE * 1000)]
    calls: list[str] = []

    def note(call: Call) -> None:
        calls.append(call.name)

    world.ports.seam.before = note
    others = [world.message(node=node) for node in nodes]
    result = wire_ingest(world.app).ingest([*pointing, *others])
    assert result.failed == {}
    states = [place for place, name in enumerate(calls) if name.startswith("table.transact")]
    assert len(states) > 1
    assert calls.index("objects.get") > states[-2]
    assert set(result.outcomes.values()) == {Outcome.RECORDED, Outcome.REJECTED}


@pytest.mark.parametrize("receives", [1, ALONE_FROM_RECEIVES])
def test_one_invocation_decodes_a_limited_number_of_bytes_from_the_object_store(receives: int) -> None:
    world = World()
    sizes = counted(world)
    body = b"x" * (MAX_BODY_BYTES // 2 + 1)
    bodies = [stored_body(world, body + str(number).encode()) for number in range(4)]
    waiting = [replace(one, receives=receives) for one in bodies]
    rounds = []
    while waiting:
        result = wire_ingest(world.app).ingest(waiting)
        assert set(result.failed.values()) <= {"bodies_postponed"}
        rounds.append((len(waiting) - len(result.failed), sum(sizes)))
        waiting = [one for one in waiting if one.id in result.failed]
        sizes.clear()
    assert [done for done, _ in rounds] == [2, 2]
    assert max(size for _, size in rounds) <= 2 * MAX_BODY_BYTES


def test_a_postponed_body_is_decoded_before_newer_ones() -> None:
    world = World()
    body = b"x" * (MAX_BODY_BYTES // 2 + 1)
    first, second, postponed = (stored_body(world, body + str(number).encode()) for number in range(3))
    result = wire_ingest(world.app).ingest([first, second, replace(postponed, receives=2)])
    assert result.failed == {second.id: "bodies_postponed"}


def test_a_body_larger_than_one_invocation_decodes_is_rejected_and_not_decoded() -> None:
    world = World()
    sizes = counted(world)
    result = wire_ingest(world.app).ingest([stored_body(world, b"x" * (MAX_BODY_BYTES + 1))])
    assert (list(result.reasons.values()), sizes) == (["too_large"], [])


def test_replaced_bodies_count_against_the_bytes_of_one_invocation() -> None:
    world = World()
    replaced = [raw_key(KEY.cluster, world.now, str(number).encode()) for number in range(4)]
    for key in replaced:
        world.ports.objects.put(key, b"x" * (MAX_BODY_BYTES // 2 + 1))
    result = wire_ingest(world.app).ingest([world.pointing(key) for key in replaced])
    assert list(result.failed.values()) == ["bodies_postponed"] * 2
    assert list(result.reasons.values()) == ["body_changed"] * 2
