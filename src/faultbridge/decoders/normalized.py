"""`faultbridge`: faults and clears that are normalized already, as `faultbridge decode --jsonl` writes them.

What this reads is what `schemas/normalized-fault/v1.json` describes. A document that breaks it is rejected whole:
whoever writes them has the schema.

Grammar: JSON objects, one a line or in a list. Times: RFC 3339 with a zone. Units: none. Errors:
`Rejected(wrong_shape)` for what breaks the schema, `Rejected(no_framing)` where nothing of the kind is there. Source:
this package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from faultbridge.decoders.base import Decoder, Hints, cut, evidence, pci_of
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, text
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import Action, Clear, Component, ComponentType, Fault, Observation, Severity
from faultbridge.errors import Rejected

SOURCE = "faultbridge"
MAX_ATTRIBUTES, MAX_COUNT = 64, 1_000_000
_CODE = re.compile(r"(?:xid|sxid|dcgm|smi|agent|net|host|cloud|train)\.[a-z0-9_]{1,64}")
# Tuples: what somebody else wrote there may be a list or an object, which no set can be asked for.
_SILENT_KINDS, _KINDS = ("snapshot", "counter_sample"), ("fault", "clear")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Read each document; health snapshots and readings, which `--all` writes too, stay where they were made."""
    documents = [written for _, written in objects(text_of(body)) if "kind" in written]
    if not documents:
        raise Rejected("no_framing", "no normalized fault or clear in it")
    return tuple(_observation(one) for one in documents if one["kind"] not in _SILENT_KINDS)


def recognize(body: bytes) -> bool:
    """Tell whether the fields that every normalized fault has are there."""
    return b'"kind"' in body and b'"code"' in body and b'"component"' in body and b'"message"' in body


def _observation(written: Mapping[str, Any]) -> Fault | Clear:
    kind, code = written["kind"], written.get("code")
    if kind not in _KINDS:
        raise Rejected("wrong_shape", f"kind is {str(kind)[:32]!r}, not fault or clear")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise Rejected("wrong_shape", f"code is {str(code)[:64]!r}, not such as xid.79")
    message = text(written.get("message"))
    if message is None:
        raise Rejected("wrong_shape", "message is empty")
    component, at = _component(written.get("component")), written.get("observed_at")
    observed_at = instant(at)
    if at is not None and observed_at is None:
        raise Rejected("wrong_shape", f"observed_at is {str(at)[:32]!r}, no RFC 3339 time")
    attributes, node = _attributes(written), text(written.get("node"), 253)
    seen, short = evidence(text(written.get("evidence"), 65536) or ""), cut(message)
    if kind == "clear":
        return Clear(SOURCE, code, component, short, observed_at, seen, attributes, node)
    severity, action = written.get("severity"), written.get("action")
    if severity not in (None, *Severity) or action not in (None, *Action):
        raise Rejected("wrong_shape", "severity or action is none of the known words")
    count = written.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
        raise Rejected("wrong_shape", f"count is not 1 to {MAX_COUNT}")
    return Fault(
        SOURCE,
        code,
        component,
        short,
        observed_at,
        seen,
        attributes,
        Severity(severity) if severity else None,
        Action(action) if action else None,
        node,
        count,
    )


def _component(given: object) -> Component:
    written = members(given)
    kind, pci = written.get("type"), written.get("pci")
    if kind not in set(ComponentType):
        raise Rejected("wrong_shape", f"component.type is {str(kind)[:32]!r}")
    address = pci_of(pci) if isinstance(pci, str) else None
    if pci is not None and address is None:
        raise Rejected("wrong_shape", f"component.pci is {str(pci)[:32]!r}, no PCI address")
    return Component(
        ComponentType(kind),
        pci=address,
        uuid=text(written.get("uuid"), 64),
        index=_small(written, "index"),
        serial=text(written.get("serial"), 64),
        link=_small(written, "link"),
        name=text(written.get("name"), 64),
    )


def _small(written: Mapping[str, Any], name: str) -> int | None:
    value = written.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 16:
        raise Rejected("wrong_shape", f"component.{name} is no small number")
    return value


def _attributes(written: Mapping[str, Any]) -> dict[str, str]:
    given = members(written.get("attributes"))
    if len(given) > MAX_ATTRIBUTES or any(not isinstance(value, str) for value in given.values()):
        raise Rejected("wrong_shape", f"attributes are at most {MAX_ATTRIBUTES} texts")
    kept = {name[:64]: value[:512] for name, value in given.items() if name not in {"time_source", "time_claimed"}}
    # Who saw it first; the reporter is whoever vouches for it here.
    seen_by = text(written.get("source"), 64)
    return kept | ({"seen_by": seen_by} if seen_by and seen_by != SOURCE else {})


DECODER = Decoder(
    name=SOURCE,
    summary="faults and clears normalized already: what `faultbridge decode --jsonl` writes",
    example='{"kind": "fault", "code": "xid.79", "component": {"type": "gpu", "pci": "0000:c1:00"}, "message": '
    '"GPU has fallen off the bus.", "observed_at": "2026-02-03T04:05:06.000Z", "node": "ip-10-0-0-7"}',
    recognize=recognize,
    decode=decode,
)
