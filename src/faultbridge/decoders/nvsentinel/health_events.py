"""Decodes `nvsentinel`: health events from JSON logs, CloudEvents and node condition messages.

The catalog determines severity and action of known Xid and DCGM codes, because NVSentinel rates some harmless errors as
fatal. The recommendation of NVSentinel becomes an attribute. It determines the action only for an error that the
catalog does not contain.

Grammar: an event alone, in a list, in `events` of a log line, or in `data` of a CloudEvent; fields that are false or
zero are omitted. Also a Kubernetes node with conditions of NVSentinel. Times: `generatedTimestamp` as seconds and
nanoseconds since 1970, or as RFC 3339; `lastHeartbeatTime` of a condition. Units: none. Errors: `Rejected(no_framing)`
without a health event. Source: NVSentinel's protocol and logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.common.clock import instant
from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import objects, text_of
from faultbridge.decoders.common.fault_codes import expand_families
from faultbridge.decoders.common.fields import attributes_of, evidence, text, truncate
from faultbridge.decoders.common.named_gpu import identifiers
from faultbridge.decoders.kubernetes.node_objects import NodeConditions, is_node, items_of
from faultbridge.decoders.nvsentinel.event import (
    HealthEvent,
    code_of,
    code_without_error,
    condition_events,
    diagnostic_code,
    health_events,
)
from faultbridge.decoders.nvsentinel.node_conditions import (
    IS_CHECKED,
    listed_condition_events,
    node_condition_events,
    without_doubtful,
)
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Observation, Severity, Snapshot
from faultbridge.errors import Rejected

SOURCE = "nvsentinel"
_PREFLIGHT = "preflight-dcgm-diag"
_Recoveries = defaultdict[tuple[str | None, datetime | None, str], dict[Component, None]]


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each error of the unhealthy events, and health snapshots for the healthy events.

    An unhealthy event without an error code gives one fault, and so does each failed preflight diagnostic. An event
    that occurs several times counts once.
    """
    mapped, body_text = mapping("nvsentinel", hints.mappings), text_of(body)
    events: list[HealthEvent] = []
    of_nodes: list[HealthEvent] = []
    has_documents, diagnostics = False, []
    for item in (item for _, document in objects(body_text) for item in items_of(document)):
        has_documents = True
        events += health_events(item)
        of_nodes += node_condition_events(item)
        if item.get("module") == _PREFLIGHT or "error_code" in item:
            diagnostics.append(item)
    if not (events or of_nodes or diagnostics) and "ErrorCode:" not in body_text:
        raise Rejected("no_framing", "no health event of NVSentinel")
    if not has_documents:
        events = list(condition_events(body_text))
    return (
        *_observations([*events, *without_doubtful(of_nodes)], mapped),
        *(fault for item in diagnostics for fault in _diagnostic(item)),
    )


def node_observations(body: str, listed: Iterable[NodeConditions], source: str, hints: Hints) -> Iterator[Observation]:
    """Yield the observations in NVSentinel's conditions of a node, with `source` as their source.

    `listed` are the nodes that the decoder of `source` read from `body`. If the body is JSON, it is parsed again,
    because it has more fields than these nodes. For other text, `listed` is used.
    """
    if IS_CHECKED.search(body) is None:
        return
    mapped = mapping("nvsentinel", hints.mappings)
    if body.lstrip()[:1] in {"{", "["}:
        nodes = (item for _, document in objects(body) for item in items_of(document))
        events = [event for node in nodes for event in node_condition_events(node)]
    else:
        events = [event for node in listed for event in listed_condition_events(node)]
    for one in _observations(events, mapped):
        yield replace(one, source=source)


def _observations(events: Sequence[HealthEvent], mapped: Mapping[str, Any]) -> Iterator[Fault | Snapshot]:
    yield from _faults(dict.fromkeys(event for event in events if not event.healthy), mapped)
    yield from _snapshots((event for event in events if event.healthy), mapped)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has a health event or a condition message of NVSentinel.

    Returns False for a complete Kubernetes node, because the source `kubernetes-node` also reads NVSentinel's
    conditions.
    """
    if is_node(body) or b"LastTransitionTime" in body:
        return False
    events = b'"checkName"' in body and (b'"entitiesImpacted"' in body or b'"componentClass"' in body)
    return events or b"ErrorCode:" in body[:4096] or _PREFLIGHT.encode() in body


def _faults(events: Mapping[HealthEvent, None], mapped: Mapping[str, Any]) -> Iterator[Fault]:
    for event in events:
        for error in event.errors or (None,):
            code, unit = code_of(error, event, mapped) if error else (code_without_error(event, mapped), None)
            advised = mapped["actions"].get(event.action)
            is_unknown = code == "agent.condition"
            yield Fault(
                source=SOURCE,
                code=code,
                component=event.component,
                message=truncate(event.message or f"{event.check} reports {error or 'an error'}."),
                observed_at=event.at,
                evidence=evidence(event.message or f"{event.check}: {error or ''}"),
                attributes=attributes_of(
                    check_name=event.check,
                    error_code=error,
                    error_unit=unit,
                    recommended_action=event.action,
                    is_fatal="true" if event.fatal else "false",
                    **(identifiers(event.named) if event.named else {}),
                ),
                severity=_severity(event) if is_unknown else None,
                action=Action(advised) if is_unknown and advised else None,
                node=event.node,
            )


def _severity(event: HealthEvent) -> Severity:
    return Severity.ERROR if event.fatal else Severity.WARNING


def _snapshots(events: Iterator[HealthEvent], mapped: Mapping[str, Any]) -> Iterator[Snapshot]:
    """Yield one health snapshot for each check, node and time that has healthy events.

    The snapshot clears faults of the components of these events. It clears the fault codes that the mapping `mapped`
    lists for the check, and the code `agent.condition`.
    """
    recovered: _Recoveries = defaultdict(dict)
    for event in events:
        recovered[event.node, event.at, event.check][event.component] = None
    for (node, at, check), components in recovered.items():
        row = next((row for row in mapped["checks"] if re.fullmatch(row["pattern"], check)), None)
        codes = (*expand_families(row["clears"] if row else ()), "agent.condition")
        yield Snapshot(SOURCE, dict.fromkeys(codes, tuple(components)), (), at, node=node, part=check)


def _diagnostic(document: Mapping[str, Any]) -> Iterator[Fault]:
    if "error_code" not in document:
        return
    uuid, detail = text(document.get("gpu"), 64), text(document.get("detail")) or ""
    yield Fault(
        source=SOURCE,
        code=diagnostic_code(document["error_code"]),
        component=Component(ComponentType.GPU, uuid=uuid if uuid and uuid.startswith("GPU-") else None),
        message=truncate(detail or "DCGM diagnostic failed"),
        observed_at=instant(document.get("timestamp")),
        evidence=evidence(detail),
        attributes=attributes_of(test=text(document.get("test"), 64), status=text(document.get("event"), 64)),
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
    can_be_silent=True,
)
