"""`nvsentinel`: its health events, as JSON lines of its logs, as CloudEvents, and as a node condition's message.

The code of an Xid or DCGM error is judged by the catalogue: NVSentinel calls fatal what the driver does not. What it
recommends goes along as an attribute, and is followed only where the error itself is unknown to us.

Grammar: an event alone, in a list, in a log line's `events` or in a CloudEvent's `data`; fields that are false or zero
are left out. Times: `generatedTimestamp`, seconds and nanoseconds since 1970 or RFC 3339. Units: none. Errors:
`Rejected(no_framing)` where no health event is there. Source: NVSentinel's protocol and logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.families import expanded
from faultbridge.decoders.fields import text, told
from faultbridge.decoders.instants import instant
from faultbridge.decoders.nvsentinel_event import HealthEvent, health_events
from faultbridge.decoders.nvsentinel_words import code_of, code_without_error, condition_events, diagnostic_code
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Observation, Severity, Snapshot
from faultbridge.errors import Rejected

SOURCE = "nvsentinel"
_PREFLIGHT = "preflight-dcgm-diag"
_Recoveries = defaultdict[tuple[str | None, datetime | None, str], dict[str, dict[Component, None]]]


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Report unhealthy events, each once however often it was logged, and let recoveries health snapshot what they end."""
    known, written = mapping("nvsentinel", hints.mappings), text_of(body)
    documents = [one for _, one in objects(written)]
    events = [event for one in documents for event in health_events(one)]
    tests = [one for one in documents if one.get("module") == _PREFLIGHT or "error_code" in one]
    if not events and not tests and "ErrorCode:" not in written:
        raise Rejected("no_framing", "no health event of NVSentinel in it")
    if not documents:
        events = list(condition_events(written))
    return (
        *_faults(dict.fromkeys(event for event in events if not event.healthy), known),
        *_snapshots((event for event in events if event.healthy), known),
        *(fault for one in tests for fault in _diagnostic(one)),
    )


def recognize(body: bytes) -> bool:
    """Tell whether a check of its monitors is named, or a condition message of its own form."""
    events = b'"checkName"' in body and (b'"entitiesImpacted"' in body or b'"componentClass"' in body)
    return events or b"ErrorCode:" in body[:4096] or _PREFLIGHT.encode() in body


def _faults(events: Mapping[HealthEvent, None], known: Mapping[str, Any]) -> Iterator[Fault]:
    for event in events:
        for error in event.errors or (None,):
            code, unit = code_of(error, event, known) if error else (code_without_error(event, known), None)
            advised = known["actions"].get(event.action)
            unknown = code == "agent.condition"
            yield Fault(
                source=SOURCE,
                code=code,
                component=event.component,
                message=cut(event.message or f"{event.check} reports {error or 'a trouble'}."),
                observed_at=event.at,
                evidence=evidence(event.message or f"{event.check}: {error or ''}"),
                attributes=told(
                    check_name=event.check,
                    error_code=error,
                    error_unit=unit,
                    recommended_action=event.action,
                    is_fatal="true" if event.fatal else "false",
                ),
                severity=_severity(event) if unknown else None,
                action=Action(advised) if unknown and advised else None,
                node=event.node,
            )


def _severity(event: HealthEvent) -> Severity:
    return Severity.ERROR if event.fatal else Severity.WARNING


def _snapshots(events: Iterator[HealthEvent], known: Mapping[str, Any]) -> Iterator[Snapshot]:
    """Make one health snapshot of all that one check found well on one node at one instant, whichever entities it named."""
    recovered: _Recoveries = defaultdict(dict)
    for event in events:
        row = next((row for row in known["checks"] if re.fullmatch(row["pattern"], event.check)), None)
        for code in expanded(row["clears"] if row else ()):
            recovered[event.node, event.at, event.check].setdefault(code, {})[event.component] = None
        recovered[event.node, event.at, event.check].setdefault("agent.condition", {})[event.component] = None
    for (node, at, check), covers in recovered.items():
        yield Snapshot(SOURCE, {code: tuple(found) for code, found in covers.items()}, (), at, node=node, part=check)


def _diagnostic(written: Mapping[str, Any]) -> Iterator[Fault]:
    if "error_code" not in written:
        return
    uuid, detail = text(written.get("gpu"), 64), text(written.get("detail")) or ""
    yield Fault(
        source=SOURCE,
        code=diagnostic_code(written["error_code"]),
        component=Component(ComponentType.GPU, uuid=uuid if uuid and uuid.startswith("GPU-") else None),
        message=cut(detail or "a diagnostic of DCGM failed"),
        observed_at=instant(written.get("timestamp")),
        evidence=evidence(detail),
        attributes=told(test=text(written.get("test"), 64), status=text(written.get("event"), 64)),
    )


DECODER = Decoder(
    name=SOURCE,
    summary="NVSentinel's health events: JSON lines of its logs, CloudEvents, a node condition's message",
    example='{"specversion": "1.0", "type": "healthevent", "data": {"version": 1, "agent": "syslog-health-monitor", '
    '"componentClass": "GPU", "checkName": "SysLogsXIDError", "isFatal": true, "errorCode": ["79"], '
    '"entitiesImpacted": [{"entityType": "PCI", "entityValue": "0000:c1:00"}], '
    '"generatedTimestamp": {"seconds": 1770091506}, "nodeName": "ip-10-0-0-7"}}',
    recognize=recognize,
    decode=decode,
)
