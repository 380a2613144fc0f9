"""No secret of a record is kept: not as evidence, not whole, not as a reject, not when it is put aside."""

from __future__ import annotations

from random import Random
from uuid import uuid4

from faultbridge.ingest.record_reader import Delivery
from faultbridge.ingest.send import Parcel, Send
from faultbridge.simulation.fakes import FakeReceipts
from tests.builders import KEY
from tests.world import XID_79, World

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1"
LINE = f"{XID_79} AWS_SECRET_ACCESS_KEY={SECRET}"


def everything(world: World) -> str:
    items = "\n".join(map(str, world.ports.table.items()))
    return items + "\n".join(body.decode(errors="replace") for body in world.ports.objects.stored.values())


def test_evidence_is_kept_without_the_secret_in_it() -> None:
    world = World()
    world.app.ingestion.ingest([world.message(LINE)])
    kept = everything(world)
    assert "GPU has fallen off the bus" in kept
    assert SECRET not in kept


def test_the_whole_record_behind_a_cut_excerpt_is_kept_without_its_secrets() -> None:
    world = World()
    world.app.ingestion.ingest([world.message(f"{XID_79} {'x' * 9000} AWS_SECRET_ACCESS_KEY={SECRET}")])
    assert world.ports.objects.stored
    assert SECRET not in everything(world)


def test_a_reject_is_kept_without_its_secrets() -> None:
    world = World()
    world.app.ingestion.ingest([world.message(f"no format password={SECRET}"), world.message(LINE, node="nobody")])
    world.app.ingestion.ingest([Delivery("m-1", f"no message password={SECRET}", world.now)])
    assert len(world.ports.objects.stored) == 3
    assert SECRET not in everything(world)


def test_what_is_too_large_for_the_queue_is_put_aside_without_its_secrets() -> None:
    world = World()
    ports = world.ports
    send = Send(ports.queue, ports.objects, FakeReceipts(ports.clock), ports.clock, lambda: str(uuid4()), "a test")
    body = f"password={SECRET}\n".encode() + Random(7).randbytes(600_000)
    send([Parcel("nvidia-smi-xml", KEY.cluster, body, node=KEY.node)])
    assert ports.objects.stored
    assert SECRET not in everything(world)
