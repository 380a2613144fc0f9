"""Decodes `faultbridge` and `heartbeat`: Faultbridge's own formats.

`faultbridge` are JSON objects of one fault or clear each, as `faultbridge decode --jsonl` writes them. `heartbeat` are
JSON objects with `heartbeat` (a sequence number), `at` (the time of the node's clock) and, optionally, `node`; the
clock of the node is checked with them. Errors: `Rejected` without such an object, or for a wrong value. Units: seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, Judged, evidence, fault_of, snapshot_of, truncate
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import members, pci_of, text
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, CounterSample, Fault, Observation
from faultbridge.model.times import to_text

NORMALIZED = "faultbridge"
MAX_ATTRIBUTES, MAX_COUNT = 64, 1_000_000
_CODE = re.compile(r"(?:xid|sxid|dcgm|smi|agent|net|host|cloud|train)\.[a-z0-9_]{1,64}")
# Tuples, because an untrusted value may be a list or an object, which a set lookup cannot handle.
_SKIPPED_KINDS, _KINDS = ("snapshot", "counter_sample"), ("fault", "clear")
_TYPES = tuple(ComponentType)


def _decode_normalized(body: bytes) -> tuple[Observation, ...]:
    """Return the fault or clear in each document. Health snapshots and counter samples are skipped."""
    documents = [document for _, document in objects(text_of(body)) if "kind" in document]
    if not documents:
        raise Rejected("no_framing", "no normalized fault or clear")
    return tuple(_observation(document) for document in documents if document["kind"] not in _SKIPPED_KINDS)


def _observation(document: Mapping[str, Any]) -> Fault | Clear:
    kind, code = document["kind"], document.get("code")
    if kind not in _KINDS:
        raise Rejected("wrong_shape", f"wrong kind: {str(kind)[:32]!r}; allowed are fault, clear")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise Rejected("wrong_shape", f"wrong code: {str(code)[:64]!r}; expected one such as xid.79")
    message = text(document.get("message"))
    if message is None:
        raise Rejected("wrong_shape", "message is empty")
    component, at = _component(document.get("component")), document.get("observed_at")
    observed_at = instant(at)
    if at is not None and observed_at is None:
        raise Rejected("wrong_shape", f"wrong observed_at: {str(at)[:32]!r}; expected an RFC 3339 time")
    attributes, node = _attributes(document), text(document.get("node"), 253)
    raw, summary = evidence(text(document.get("evidence"), 65536) or ""), truncate(message)
    if kind == "clear":
        return Clear(NORMALIZED, code, component, summary, observed_at, raw, attributes, node)
    severity, action = document.get("severity"), document.get("action")
    if severity not in (None, *Severity) or action not in (None, *Action):
        raise Rejected("wrong_shape", "unknown severity or action; the schema lists the allowed values")
    count = document.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
        raise Rejected("wrong_shape", f"wrong count: {str(count)[:32]!r}; allowed are 1 to {MAX_COUNT}")
    verdict = Severity(severity) if severity else None, Action(action) if action else None
    return Fault(NORMALIZED, code, component, summary, observed_at, raw, attributes, *verdict, node, count)


def _component(value: object) -> Component:
    document = members(value)
    kind, pci = document.get("type"), document.get("pci")
    if kind not in _TYPES:
        raise Rejected(
            "wrong_shape", f"unknown component.type: {str(kind)[:32]!r}; the schema lists the allowed values"
        )
    address = pci_of(pci) if isinstance(pci, str) else None
    if pci is not None and address is None:
        raise Rejected("wrong_shape", f"wrong component.pci: {str(pci)[:32]!r}; expected a PCI address")
    return Component(
        ComponentType(kind),
        pci=address,
        uuid=text(document.get("uuid"), 64),
        index=_small(document, "index"),
        serial=text(document.get("serial"), 64),
        link=_small(document, "link"),
        name=text(document.get("name"), 64),
    )


def _small(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 16:
        raise Rejected("wrong_shape", f"wrong component.{name}: {str(value)[:32]!r}; allowed are 0 to 65535")
    return value


def _attributes(document: Mapping[str, Any]) -> dict[str, str]:
    value = members(document.get("attributes"))
    if len(value) > MAX_ATTRIBUTES or any(not isinstance(value, str) for value in value.values()):
        raise Rejected("wrong_shape", f"wrong attributes; allowed are at most {MAX_ATTRIBUTES} strings")
    kept = {name[:64]: value[:512] for name, value in value.items() if name not in {"time_source", "time_claimed"}}
    # The original source; the sender of this record is the reporter.
    seen_by = text(document.get("source"), 64)
    return kept | ({"seen_by": seen_by} if seen_by and seen_by != NORMALIZED else {})


HEARTBEAT = "heartbeat"
SILENT, CLOCK = "host.silent", "host.clock"
MAX_SKEW = timedelta(minutes=2)
RATES = frozenset({"sent_bytes", "lost_packets", "pcie_megabytes", "nvlink_bytes", "clock_mhz"})
MAX_DEVICES, _MAX_RATE = 256, 1 << 50


def _decode_heartbeat(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of each node, from its heartbeat with the latest time in the body.

    The snapshot clears the fault of a missing heartbeat. If the time of receipt is known, the snapshot also checks the
    clock of the node: it contains the fault of a wrong clock, or clears this fault. A heartbeat of a node that trains
    has a counter sample of each device, too.
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
    found: list[Observation] = []
    for node, (at, heartbeat) in newest.items():
        # The node's clock may be wrong, so the time of receipt is the time of the snapshot.
        judged = _judged(node, at, hints.received_at)
        found.append(snapshot_of(HEARTBEAT, judged, hints.received_at or at, node))
        found += _rates(node, hints.received_at or at, heartbeat)
    return tuple(found)


def _rates(node: str | None, at: datetime, document: Mapping[str, Any]) -> Iterator[CounterSample]:
    """Yield what the devices of a node did while a job trained, as its agent states it."""
    rates = document.get("rates")
    for one in rates[:MAX_DEVICES] if isinstance(rates, list) else ():
        stated = members(members(one).get("values"))
        numbers = {name: value for name, value in stated.items() if name in RATES and type(value) is int}
        near: Mapping[str, str] = {"gpus": stated["gpus"][:32]} if isinstance(stated.get("gpus"), str) else {}
        if numbers and all(0 <= value < _MAX_RATE for value in numbers.values()):
            with suppress(Rejected):  # the heartbeat counts without them
                component = _component(members(one).get("component"))
                yield CounterSample(HEARTBEAT, component, {**numbers, **near}, at, node)


def _judged(node: str | None, at: datetime, received_at: datetime | None) -> Iterator[Judged]:
    yield SILENT, NODE_COMPONENT, None
    if received_at is None:
        return
    if abs(received_at - at) <= MAX_SKEW:
        yield CLOCK, NODE_COMPONENT, None
        return
    skew = int((at - received_at).total_seconds())
    text = f"The node's clock is {abs(skew)} s {'ahead' if skew > 0 else 'behind'}."
    raw, stated = f"heartbeat at {to_text(at)}, received at {to_text(received_at)}", {"seconds_off": str(skew)}
    stated["claimed_at"] = to_text(at)
    yield CLOCK, NODE_COMPONENT, fault_of(HEARTBEAT, CLOCK, NODE_COMPONENT, text, raw, received_at, node, **stated)


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the observations in normalized faults, or in heartbeats."""
    return _decode_heartbeat(body, hints) if source == HEARTBEAT else _decode_normalized(body)
