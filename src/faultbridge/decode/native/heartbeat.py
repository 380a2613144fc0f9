"""Decodes `heartbeat`: the heartbeat of the node agent, with a check of the node's clock.

Grammar: JSON objects with `heartbeat` (a sequence number), `at` (the time of the node's clock) and, optionally, `node`.
Times: the time of receipt. Units: seconds. Errors: `Rejected(no_framing)` without a heartbeat that has a time. Source:
the agent's own format.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, attributes_of, text
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.model.times import to_text

SOURCE = "heartbeat"
SILENT, CLOCK = "host.silent", "host.clock"
MAX_SKEW = timedelta(minutes=2)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of each node, from its heartbeat with the latest time in the body.

    The snapshot clears the fault of a missing heartbeat. If the time of receipt is known, the snapshot also checks the
    clock of the node: it contains the fault of a wrong clock, or clears this fault.
    """
    newest: dict[str | None, tuple[datetime, Mapping[str, Any]]] = {}
    framed = False
    for _, document in objects(text_of(body)):
        at = instant(document.get("at"))
        if "heartbeat" not in document or at is None:
            continue
        framed = True
        node = text(document.get("node"), 253)
        if node not in newest or at > newest[node][0]:
            newest[node] = (at, document)
    if not framed:
        raise Rejected("no_framing", "no heartbeat with a time")
    return tuple(_snapshot(node, at, hints.received_at) for node, (at, _) in newest.items())


def _snapshot(node: str | None, at: datetime, received_at: datetime | None) -> Snapshot:
    covers: dict[str, tuple[Component, ...]] = {SILENT: (NODE_COMPONENT,)}
    present: tuple[Fault, ...] = ()
    if received_at is not None:
        covers[CLOCK] = (NODE_COMPONENT,)
        present = (_wrong_clock(node, at, received_at),) if abs(received_at - at) > MAX_SKEW else ()
    # The node's clock may be wrong, so the time of receipt is the time of the snapshot.
    return Snapshot(SOURCE, covers, present, received_at or at, node=node)


def _wrong_clock(node: str | None, at: datetime, received_at: datetime) -> Fault:
    skew = int((at - received_at).total_seconds())
    return Fault(
        source=SOURCE,
        code=CLOCK,
        component=NODE_COMPONENT,
        message=f"The node's clock is {abs(skew)} s {'ahead' if skew > 0 else 'behind'}.",
        observed_at=received_at,
        evidence=f"heartbeat at {to_text(at)}, received at {to_text(received_at)}",
        attributes=attributes_of(seconds_off=str(skew), claimed_at=to_text(at)),
        node=node,
    )
