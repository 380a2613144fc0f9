"""`hyperpod-event`: what SageMaker HyperPod puts on EventBridge, in the nestings that are documented and seen.

Only what speaks of a node's health is a fault, and what HyperPod says of its own repairs is noted. Provisioning,
scaling and lifecycle scripts are neither: a failed creation is a lack of capacity, whatever its level says.

Grammar: EventBridge's envelope with fields in `detail` (state change, node health) or in `detail.EventDetails`
(cluster event), whose metadata stand one level deeper or not; the answer of ListClusterEvents holds the records alone.
Times: milliseconds or seconds since 1970, else the envelope's. Units: none. Errors: `Rejected(no_framing)` where no
event of HyperPod is there. Source: AWS's documentation, the SageMaker API model, captured events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, objects_in, text, told
from faultbridge.decoders.hyperpod_agent_log import COMPONENTS, Told, named
from faultbridge.decoders.hyperpod_repair import repair
from faultbridge.decoders.hyperpod_words import CODES_BY_ACTION, CODES_BY_CONDITION, asked
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Fault, Observation, Snapshot
from faultbridge.errors import Rejected

SOURCE = "hyperpod-event"
PREFIX = "SageMaker HyperPod"
NODE_HEALTH, CLUSTER_EVENT = f"{PREFIX} Cluster Node Health Event", f"{PREFIX} Cluster Event"
_FAULT_TYPE = re.compile(r"fault type (\w{1,64})")
_REPAIR = re.compile(r"Repair action: (\w{1,32})")
_UNHEALTHY = frozenset({"unhealthy", "degraded"})
_SOMEWHERE = (NODE_COMPONENT, *COMPONENTS.values())
_COVERED = (*CODES_BY_CONDITION.values(), *CODES_BY_ACTION.values(), "agent.node_unhealthy")


@dataclass(frozen=True, slots=True)
class Health:
    """What one event says about the health of one instance."""

    instance_id: str | None
    status: str
    at: datetime | None
    reason: str | None = None
    repair: str | None = None
    recommendation: str | None = None
    event_id: str | None = None


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Read events, or the answer of ListClusterEvents; an event that came twice is read once."""
    framed = False
    seen: dict[tuple[str | None, ...], Health | Fault] = {}
    for _, written in objects(text_of(body)):
        records = tuple(_records(written))
        framed = framed or bool(records) or _is_ours(written)
        for said in records:
            if said is not None:
                seen.setdefault(_identity(said), said)
    if not framed:
        raise Rejected("no_framing", "no event of SageMaker HyperPod in it")
    return tuple(said if isinstance(said, Fault) else _observation(said) for said in seen.values())


def recognize(body: bytes) -> bool:
    """Tell whether the detail-types or the fields of a record are there."""
    return PREFIX.encode() in body or (b'"EventId"' in body and b'"ResourceType"' in body and b'"ClusterArn"' in body)


def _identity(said: Health | Fault) -> tuple[str | None, ...]:
    """Name what was said, so that an event that came twice is known again."""
    if isinstance(said, Fault):
        return (said.node, said.attributes.get("event_id"), str(said.observed_at), said.code)
    return (said.instance_id, said.event_id, str(said.at), said.status)


def _is_ours(written: Mapping[str, Any]) -> bool:
    return str(written.get("detail-type", "")).startswith(PREFIX)


def _records(written: Mapping[str, Any]) -> Iterator[Health | Fault | None]:
    """Yield what each record of a document says of a node's health or repair, None for one that says nothing of it."""
    detail = members(written.get("detail"))
    if members(detail.get("Faultbridge")).get("mirror"):
        return
    if _is_ours(written):
        at = instant(written.get("time"))
        if written["detail-type"] == NODE_HEALTH:
            yield _summary(detail, detail.get("HealthSummary"), at, text(written.get("id"), 64))
        elif written["detail-type"] == CLUSTER_EVENT:
            yield _record(members(detail.get("EventDetails")), at)
    elif {"EventId", "ResourceType"} <= written.keys():
        yield _record(written, None)
    else:
        listed = objects_in(written.get("Events"))
        yield from (_record(one, None) for one in listed if {"EventId", "ResourceType"} <= one.keys())


def _summary(detail: Mapping[str, Any], summary: object, at: datetime | None, event_id: str | None) -> Health | None:
    said = members(summary)
    status = text(said.get("HealthStatus"), 64)
    if status is None:
        return None
    return Health(
        instance_id=text(detail.get("InstanceId"), 64),
        status=status,
        at=instant(detail.get("EventTime")) or at,
        reason=text(said.get("HealthStatusReason")),
        repair=text(said.get("RepairAction"), 32),
        recommendation=text(said.get("Recommendation")),
        event_id=event_id,
    )


def _record(record: Mapping[str, Any], at: datetime | None) -> Health | Fault | None:
    """Read a record of a cluster event; the metadata stand directly under it or one level deeper."""
    details = members(record.get("EventDetails"))
    metadata = members(details.get("EventMetadata") or record.get("EventMetadata"))
    event_id = text(record.get("EventId"), 64)
    summary = members(metadata.get("Instance")).get("NodeHealthInfo")
    health = _summary(record, summary, at, event_id)
    if health is not None:
        return health
    description = text(record.get("Description")) or ""
    if " is unhealthy" not in description:
        return repair(SOURCE, record, at)
    announced = _REPAIR.search(description)
    return Health(
        instance_id=text(record.get("InstanceId"), 64),
        status="Unhealthy",
        at=instant(record.get("EventTime")) or at,
        reason=description,
        repair=announced[1] if announced else None,
        event_id=event_id,
    )


def _observation(health: Health) -> Fault | Snapshot:
    if health.status.lower() not in _UNHEALTHY:
        covers = dict.fromkeys(_COVERED, _SOMEWHERE) if health.status.lower() == "healthy" else {}
        return Snapshot(SOURCE, covers, (), health.at, node=health.instance_id)
    fault_type = _FAULT_TYPE.search(health.reason or "")
    condition = fault_type[1] if fault_type else None
    fault = _fault(health, condition)
    # That HyperPod does not repair by itself does not make the node any better.
    asks = health.repair if (health.repair or "").lower() in CODES_BY_ACTION else None
    verdict = asked(None, asks, condition)
    attributes = told(
        instance_id=health.instance_id,
        event_id=health.event_id,
        fault_type=condition,
        health_status=health.status,
        repair_action=health.repair,
        recommendation=health.recommendation,
    )
    return replace(
        fault,
        source=SOURCE,
        observed_at=health.at,
        attributes={**fault.attributes, **attributes},
        severity=verdict.severity if verdict else None,
        action=verdict.action if verdict else None,
        node=health.instance_id,
    )


def _fault(health: Health, condition: str | None) -> Fault:
    """Name the trouble: what the reason quotes, else its fault type, else the repair that HyperPod announces."""
    if condition in CODES_BY_CONDITION or "Xid (" in (health.reason or ""):
        return named(Told(health.reason or "", condition))
    code = CODES_BY_ACTION.get((health.repair or "").lower(), "agent.node_unhealthy")
    text = health.reason or f"HyperPod calls the node {health.status.lower()} and gives no reason."
    return Fault(
        SOURCE, code, NODE_COMPONENT, cut(text), evidence=evidence(health.reason or health.recommendation or "")
    )


DECODER = Decoder(
    name=SOURCE,
    summary="SageMaker HyperPod's events on EventBridge, and the answer of ListClusterEvents",
    example='{"source": "aws.sagemaker", "detail-type": "SageMaker HyperPod Cluster Node Health Event", '
    '"time": "2026-02-03T04:06:00Z", "detail": {"InstanceId": "i-0123456789abcdef0", "HealthSummary": '
    '{"HealthStatus": "Unhealthy", "HealthStatusReason": null, "RepairAction": "Replace"}, "EventTime": null}}',
    recognize=recognize,
    decode=decode,
)
