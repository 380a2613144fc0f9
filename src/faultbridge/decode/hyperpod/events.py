"""Decodes `hyperpod-event`: HyperPod's events on EventBridge, and the response of ListClusterEvents.

An unhealthy node is a fault, and a healthy node is a health snapshot. A repair that HyperPod does itself is a fault
with a code such as `cloud.replacing`. Events about provisioning, scaling and lifecycle scripts yield nothing, and
neither does the failed creation of an instance.

Grammar: EventBridge events with fields in `detail` (state change, node health) or in `detail.EventDetails` (cluster
event). Metadata is at one of two nesting levels. ListClusterEvents returns the same records without the EventBridge
fields. Times: seconds or milliseconds since 1970, else `time` of the EventBridge event. Units: none. Errors:
`Rejected(no_framing)` without an event of HyperPod. Source: AWS's documentation, the SageMaker API, captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.data import table
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import (
    Hints,
    attributes_of,
    fault_of,
    members,
    objects_in,
    text,
)
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.hyperpod.agent_log import (
    CODES_BY_ACTION,
    CODES_BY_CONDITION,
    COMPONENTS,
    HealthDetails,
    recommendation_of,
    reported_fault,
)
from faultbridge.model.cluster.state import ProviderCondition
from faultbridge.model.enums import ConditionKind
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Fault, Observation, Snapshot
from faultbridge.model.values import replace

# Reads HyperPod's events about the repairs that it does itself: replacements and reboots.
#
# HyperPod documents no code for these events, so their descriptions are matched by keywords. Events about lifecycle
# scripts, scaling, patches and volumes are not repairs.

_REPAIR = re.compile(r"\b(?:(replac(?:e|ed|ing|ement))|(reboot(?:ed|ing)?))\b", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:volume|lifecycle|scal(?:e|ing)|queued|patch\w{0,3})\b", re.IGNORECASE)
_FAILED = re.compile(r"\b(?:fail(?:ed|ure)?|could not|unable)\b", re.IGNORECASE)
_DONE = re.compile(
    r"\b(?:complet(?:ed?|ion)|succeeded|finished|replaced|rebooted|successfully (?!start))", re.IGNORECASE
)


def repair_fault(source: str, record: Mapping[str, Any], at: datetime | None) -> Fault | None:
    """Return the fault of a cluster event in which HyperPod repairs an instance, or None."""
    description = text(record.get("Description")) or ""
    match = _REPAIR.search(description)
    instance_id = text(record.get("InstanceId"), 64)
    if match is None or instance_id is None or record.get("ResourceType") != "Instance" or _OTHER.search(description):
        return None
    details = members(members(record.get("EventDetails")).get("EventMetadata") or record.get("EventMetadata"))
    instance = members(details.get("Instance"))
    failed = _FAILED.search(description) is not None or record.get("EventLevel") == "Error"
    phase = "fails" if failed else "succeeds" if _DONE.search(description) else "starts"
    code = table("hyperpod")["repairs"][f"{'replace' if match[1] else 'reboot'} {phase}"]
    stated = {
        "instance_id": instance_id,
        "event_id": text(record.get("EventId"), 64),
        "event_level": text(record.get("EventLevel"), 16),
        "instance_group": text(record.get("InstanceGroupName"), 64),
        "node_logical_id": text(instance.get("NodeLogicalId"), 128),
        "failure_message": text(instance.get("FailureMessage")),
    }
    at = instant(record.get("EventTime")) or at
    return fault_of(source, code, NODE_COMPONENT, description, None, at, instance_id, **stated)


SOURCE = "hyperpod-event"
PREFIX = "SageMaker HyperPod"
NODE_HEALTH, CLUSTER_EVENT = f"{PREFIX} Cluster Node Health Event", f"{PREFIX} Cluster Event"
_FAULT_TYPE = re.compile(r"fault type (\w{1,64})")
_EVENTS_REPAIR = re.compile(r"Repair action: (\w{1,32})")
_UNHEALTHY = frozenset({"unhealthy", "degraded"})
_ANY_COMPONENT = (NODE_COMPONENT, *COMPONENTS.values())
_COVERED = (*CODES_BY_CONDITION.values(), *CODES_BY_ACTION.values(), "agent.node_unhealthy")


class NodeHealth(Struct, frozen=True):
    """The health of one instance, as one HyperPod event reports it."""

    instance_id: str | None
    status: str
    at: datetime | None
    reason: str | None = None
    repair_action: str | None = None
    recommendation: str | None = None
    event_id: str | None = None


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return the observations of EventBridge events or of a ListClusterEvents response."""
    framed = False
    seen: dict[tuple[str | None, ...], NodeHealth | Fault] = {}
    for _, document in objects(text_of(body)):
        records = tuple(_records(document))
        framed = framed or bool(records) or _is_hyperpod_event(document)
        for item in records:
            if item is not None:
                seen.setdefault(_identity(item), item)
    if not framed:
        raise Rejected("no_framing", "no event of SageMaker HyperPod")
    return tuple(item if isinstance(item, Fault) else _observation(item) for item in seen.values())


def _identity(item: NodeHealth | Fault) -> tuple[str | None, ...]:
    if isinstance(item, Fault):
        return (item.node, item.attributes.get("event_id"), str(item.observed_at), item.code)
    return (item.instance_id, item.event_id, str(item.at), item.status)


def _is_hyperpod_event(document: Mapping[str, Any]) -> bool:
    return str(document.get("detail-type", "")).startswith(PREFIX)


def _records(document: Mapping[str, Any]) -> Iterator[NodeHealth | Fault | None]:
    """Yield the node health or repair in each record, or None for a record that has neither.

    Events that Faultbridge itself published in the format of HyperPod (its HyperPod mirror) are skipped.
    """
    detail = members(document.get("detail"))
    if members(detail.get("Faultbridge")).get("mirror"):
        return
    if _is_hyperpod_event(document):
        at = instant(document.get("time"))
        if document["detail-type"] == NODE_HEALTH:
            yield _summary(detail, detail.get("HealthSummary"), at, text(document.get("id"), 64))
        elif document["detail-type"] == CLUSTER_EVENT:
            yield _record(members(detail.get("EventDetails")), at)
    elif {"EventId", "ResourceType"} <= document.keys():
        yield _record(document, None)
    else:
        listed = objects_in(document.get("Events"))
        yield from (_record(record, None) for record in listed if {"EventId", "ResourceType"} <= record.keys())


def _summary(
    detail: Mapping[str, Any], summary: object, at: datetime | None, event_id: str | None
) -> NodeHealth | None:
    health = members(summary)
    status = text(health.get("HealthStatus"), 64)
    if status is None:
        return None
    return NodeHealth(
        instance_id=text(detail.get("InstanceId"), 64),
        status=status,
        at=instant(detail.get("EventTime")) or at,
        reason=text(health.get("HealthStatusReason")),
        repair_action=text(health.get("RepairAction"), 32),
        recommendation=text(health.get("Recommendation")),
        event_id=event_id,
    )


def _record(record: Mapping[str, Any], at: datetime | None) -> NodeHealth | Fault | None:
    details = members(record.get("EventDetails"))
    metadata = members(details.get("EventMetadata") or record.get("EventMetadata"))
    event_id = text(record.get("EventId"), 64)
    summary = members(metadata.get("Instance")).get("NodeHealthInfo")
    health = _summary(record, summary, at, event_id)
    if health is not None:
        return health
    description = text(record.get("Description")) or ""
    if " is unhealthy" not in description:
        return repair_fault(SOURCE, record, at)
    announced = _EVENTS_REPAIR.search(description)
    return NodeHealth(
        instance_id=text(record.get("InstanceId"), 64),
        status="Unhealthy",
        at=instant(record.get("EventTime")) or at,
        reason=description,
        repair_action=announced[1] if announced else None,
        event_id=event_id,
    )


def _observation(health: NodeHealth) -> Fault | Snapshot:
    if health.status.lower() not in _UNHEALTHY:
        covers = dict.fromkeys(_COVERED, _ANY_COMPONENT) if health.status.lower() == "healthy" else {}
        return Snapshot(SOURCE, covers, (), health.at, node=health.instance_id)
    fault_type = _FAULT_TYPE.search(health.reason or "")
    condition = fault_type[1] if fault_type else None
    fault = _fault(health, condition)
    # A node that HyperPod does not repair is still unhealthy: only a named repair changes the recommendation.
    repair_action = health.repair_action if (health.repair_action or "").lower() in CODES_BY_ACTION else None
    recommendation = recommendation_of(None, repair_action, condition)
    attributes = attributes_of(
        instance_id=health.instance_id,
        event_id=health.event_id,
        fault_type=condition,
        health_status=health.status,
        repair_action=health.repair_action,
        recommendation=health.recommendation,
    )
    return replace(
        fault,
        source=SOURCE,
        observed_at=health.at,
        attributes={**fault.attributes, **attributes},
        severity=recommendation.severity if recommendation else None,
        action=recommendation.action if recommendation else None,
        node=health.instance_id,
    )


def _fault(health: NodeHealth, condition: str | None) -> Fault:
    if condition in CODES_BY_CONDITION or "Xid (" in (health.reason or ""):
        return reported_fault(HealthDetails(health.reason or "", condition))
    code = CODES_BY_ACTION.get((health.repair_action or "").lower(), "agent.node_unhealthy")
    text = health.reason or f"HyperPod reports the node as {health.status.lower()} without a reason."
    return fault_of(SOURCE, code, NODE_COMPONENT, text, health.reason or health.recommendation or "")


# Determines why HyperPod could not start an instance, from events and status messages of nodes.
#
# HyperPod documents no code for these failures, so their texts are matched by keywords. An event counts if it reports a
# failure and has a keyword of a launch, a lifecycle script, EFA or capacity, or if its metadata names a failed script.

_KINDS = (
    (re.compile(r"life-?\s?cycle|\blcs\b", re.IGNORECASE), ConditionKind.LIFECYCLE_SCRIPT),
    (re.compile(r"\bEFA\b"), ConditionKind.EFA_CHECK),
    (re.compile(r"capacity", re.IGNORECASE), ConditionKind.NO_CAPACITY),
)
_LAUNCH = re.compile(r"\b(?:creation|provision|replacement|launch)", re.IGNORECASE)
_LAUNCH_FAILED = re.compile(r"\bfailed\b", re.IGNORECASE)
_SUBTREES = ("Instance", "InstanceGroup", "InstanceGroupScaling", "Cluster")


def failure_kind(message: str) -> ConditionKind:
    """Return the kind of a failed launch by keywords in its message; LAUNCH_FAILED if it has none."""
    return next((kind for pattern, kind in _KINDS if pattern.search(message)), ConditionKind.LAUNCH_FAILED)


def launch_failure(event: Mapping[str, Any]) -> ProviderCondition | None:
    """Return the failed launch that an EventBridge event reports, or None for any other event."""
    detail = members(event.get("detail"))
    record = members(detail.get("EventDetails"))
    if event.get("detail-type") != CLUSTER_EVENT or detail.get("Faultbridge"):
        return None
    metadata = members(members(record.get("EventDetails")).get("EventMetadata") or record.get("EventMetadata"))
    parts = [members(metadata.get(name)) for name in _SUBTREES]
    description = text(record.get("Description")) or ""
    message = next((found for part in parts if (found := text(part.get("FailureMessage")))), None) or description
    script_failed = any(part.get("LcsExecutionState") == "Failed" for part in parts)
    # Older events have no level.
    failed = record.get("EventLevel", "Error") == "Error" and _LAUNCH_FAILED.search(f"{description} {message}")
    kind = ConditionKind.LIFECYCLE_SCRIPT if script_failed else failure_kind(f"{message} {description}")
    is_launch = kind is not ConditionKind.LAUNCH_FAILED or _LAUNCH.search(description)
    if not script_failed and not (failed and is_launch):
        return None
    return ProviderCondition(kind, message or "no message", text(record.get("InstanceGroupName"), 64))
