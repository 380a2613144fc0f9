"""`heartbeat`: a sign of life of a node's agent; it also shows whether the node's clock is right.

Grammar: JSON objects with `heartbeat` (a sequence number), `at` and perhaps `node`. Times: when it came in; `at` is
what the node's own clock says. Units: seconds. Errors: `Rejected(no_framing)` where no heartbeat with a time is there.
Source: the agent's own format.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected

SOURCE = "heartbeat"
SILENT, CLOCK = "host.silent", "host.clock"
MAX_SKEW = timedelta(minutes=2)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot the node's silence and its clock; the newest heartbeat of each node counts."""
    newest: dict[str | None, tuple[datetime, Mapping[str, Any]]] = {}
    framed = False
    for _, written in objects(text_of(body)):
        at = instant(written.get("at"))
        if "heartbeat" not in written or at is None:
            continue
        framed = True
        node = text(written.get("node"), 253)
        if node not in newest or at > newest[node][0]:
            newest[node] = (at, written)
    if not framed:
        raise Rejected("no_framing", "no heartbeat with a time in it")
    return tuple(_snapshot(node, at, hints.received_at) for node, (at, _) in newest.items())


def recognize(body: bytes) -> bool:
    """Tell whether a heartbeat's own field is there."""
    return b'"heartbeat"' in body and b'"at"' in body


def _snapshot(node: str | None, at: datetime, received_at: datetime | None) -> Snapshot:
    covers: dict[str, tuple[Component, ...]] = {SILENT: (NODE_COMPONENT,)}
    present: tuple[Fault, ...] = ()
    if received_at is not None:
        covers[CLOCK] = (NODE_COMPONENT,)
        present = (_wrong_clock(node, at, received_at),) if abs(received_at - at) > MAX_SKEW else ()
    # The node's clock may be wrong: when the heartbeat came in is when the node lived.
    return Snapshot(SOURCE, covers, present, received_at or at, node=node)


def _wrong_clock(node: str | None, at: datetime, received_at: datetime) -> Fault:
    off = int((at - received_at).total_seconds())
    return Fault(
        source=SOURCE,
        code=CLOCK,
        component=NODE_COMPONENT,
        message=f"The node's clock is {abs(off)} s {'ahead' if off > 0 else 'behind'}.",
        observed_at=received_at,
        evidence=f"heartbeat at {to_text(at)}, received at {to_text(received_at)}",
        attributes=told(seconds_off=str(off), claimed_at=to_text(at)),
        node=node,
    )


DECODER = Decoder(
    name=SOURCE,
    summary='a sign of life: {"heartbeat": SEQUENCE, "at": TIME, "node": NAME}',
    example='{"heartbeat": 1042, "at": "2026-02-03T04:05:06.789Z", "node": "ip-10-0-0-7"}',
    recognize=recognize,
    decode=decode,
)
