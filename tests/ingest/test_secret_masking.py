"""Secret masking: no secret of a record is stored, in evidence, full records, rejects or large bodies."""

from __future__ import annotations

from random import Random
from uuid import uuid4

from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ingest.send import RawInput, Send
from tests.builders import KEY
from tests.ingest.builders import SECRET, stored_text
from tests.sim.fakes import FakeReceipts
from tests.world import XID_79, World

LINE = f"{XID_79} AWS_SECRET_ACCESS_KEY={SECRET}"


def test_evidence_is_stored_without_secrets() -> None:
    world = World()
    wire_ingest(world.app).ingest([world.message(LINE)])
    stored = stored_text(world)
    assert "GPU has fallen off the bus" in stored
    assert SECRET not in stored


def test_the_full_record_of_a_shortened_excerpt_is_stored_without_secrets() -> None:
    world = World()
    wire_ingest(world.app).ingest([world.message(f"{XID_79} {'x' * 9000} AWS_SECRET_ACCESS_KEY={SECRET}")])
    assert world.ports.objects.stored
    assert SECRET not in stored_text(world)


def test_a_reject_is_stored_without_secrets() -> None:
    world = World()
    wire_ingest(world.app).ingest(
        [world.message(f"not xml password={SECRET}"), world.message(LINE, node="unregistered")]
    )
    wire_ingest(world.app).ingest([Delivery("m-1", f"no message password={SECRET}", world.now)])
    assert len(world.ports.objects.stored) == 3
    assert SECRET not in stored_text(world)


def test_a_body_too_large_for_the_queue_is_stored_without_secrets() -> None:
    world = World()
    ports = world.ports
    send = Send(ports.queue, ports.objects, FakeReceipts(ports.clock), ports.clock, lambda: str(uuid4()), "a test")
    body = f"password={SECRET}\n".encode() + Random(7).randbytes(600_000)
    send([RawInput("nvidia-smi-xml", KEY.cluster, body, node=KEY.node)])
    assert ports.objects.stored
    assert SECRET not in stored_text(world)
