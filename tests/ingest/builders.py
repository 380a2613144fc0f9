"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from typing import Any

from msgspec.structs import force_setattr

from faultbridge.serve.entrypoints.ingest import wire_ingest
from tests.world import World

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1"


def stored_text(world: World) -> str:
    items = "\n".join(map(str, world.ports.table.items()))
    return items + "\n".join(body.decode(errors="replace") for body in world.ports.objects.stored.values())


SWEEP = "AROASWEEP:faultbridge-sweep"

SENDER_PROOF = {
    "FAULTBRIDGE_SENDER_PROOF": "required",
    "FAULTBRIDGE_OWN_SENDERS": "AROASWEEP",
    "FAULTBRIDGE_EVENTS_QUEUE": "arn:events",
}


def break_decoding(world: World, text: bytes) -> None:
    reader = wire_ingest(world.app).reader
    decode = reader.decode

    def broken(source: str, body: bytes, hints: Any) -> Any:
        if text in body:
            raise RecursionError("planted")
        return decode(source, body, hints)

    force_setattr(reader, "decode", broken)
