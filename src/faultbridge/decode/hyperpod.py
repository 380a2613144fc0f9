"""Decodes `hyperpod-agent-log` and `hyperpod-event`: what SageMaker HyperPod reports about its instances.

The log of the health monitoring agent has health events and deep health checks. Grammar: JSON objects, one per line or
pretty-printed, possibly after a time or in a CloudWatch Logs record; a key may end with a colon and a space. A health
event has the marker `HealthMonitoringAgentDetectionEvent`. A deep health check is a JSON line or several plain lines.
Only the name of the log stream contains the instance id. Times: `ts` with its time zone; `timestamp` in the details can
be a day wrong, and only becomes an attribute.

Events come from EventBridge, or from ListClusterEvents. An unhealthy node is a fault, and a healthy node is a health
snapshot. A repair that HyperPod does itself is a fault with a code such as `cloud.replacing`. Events about
provisioning, scaling and lifecycle scripts yield nothing, and neither does the failed creation of an instance. Grammar:
fields in `detail` (state change, node health) or in `detail.EventDetails` (cluster event), and metadata at one of two
nesting levels; ListClusterEvents returns the same records without the fields of EventBridge. Times: seconds or
milliseconds since 1970, else `time` of the EventBridge event.

Units: none. Errors: `Rejected(no_framing)` without a record of HyperPod; a CloudWatch Logs record without one gives no
observations. Source: AWS's documentation, the SageMaker API, captured logs and events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from faultbridge.decode.data import table
from faultbridge.decode.frames.chain import messages_of
from faultbridge.decode.frames.clock import instant, iso_time
from faultbridge.decode.frames.decoder import Hints, attributes_of, fault_of, to_clear
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.prefix import KernelMessage
from faultbridge.decode.frames.values import members, objects_in, text
from faultbridge.decode.kernel.xid import SxidReader, read_xid
from faultbridge.model.cluster.state import ProviderCondition
from faultbridge.model.enums import ConditionKind
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Observation, Snapshot
from faultbridge.model.values import replace

_TABLE = table("hyperpod")
_CODES_BY_CONDITION: Mapping[str, str] = _TABLE["conditions"]
_CODES_BY_ACTION: Mapping[str, str] = _TABLE["actions"]


_Verdict = tuple[Severity | None, Action | None]


@lru_cache(maxsize=256)
def _verdict(reason: str | None, action: str | None, condition: str | None) -> _Verdict:
    """Return the severity and action that the HyperPod health agent recommends; None for what it does not.

    The first of these that implies a recommendation determines it: the reason, the action, the condition.
    """
    stated = (("reason", reason), ("action", (action or "").lower()), ("condition", condition))
    row = next((row for kind, name in stated if (row := _TABLE["recommended"][kind].get(name or ""))), None)
    if row is None:
        return None, None
    return Severity(row["severity"]) if "severity" in row else None, Action(row["action"])


AGENT_LOG = "hyperpod-agent-log"
MARKER = "HealthMonitoringAgentDetectionEvent"
_CONDITION_CHANGE = re.compile(r"Node condition (\w{1,64}) is now: (\w{1,16})")
_SHORTENED_XID = re.compile(r"\bXid \([^()]{0,64}\): (\d{1,5})\b")
_UNKNOWN_GPU = Component(ComponentType.GPU)
# The component of a condition that is not about the whole node; the condition names no specific device.
_COMPONENTS = {"NvidiaGPUUnhealthy": _UNKNOWN_GPU, "EfaError": Component(ComponentType.NIC)}
_MEMBERS = ("details", "event detail", "condition details", "data", "condition")
_MAX_XID = 100_000  # five digits, as in the kernel log
_CHECK_CODE = "agent.deep_check_failed"
_CHECK_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (info|warn|error) (.{1,4096})")
_REQUIRED = re.compile(r"\b(replacement|reboot)Required: {0,2}(true|false)")
_FAULTY = "Encountered FaultyInstance"


def _decode_log(body: bytes) -> tuple[Observation, ...]:
    """Return a fault or clear for each health event, and a fault for each report of a failed check."""
    observations: list[Observation] = []
    events = messages_of(body)
    framed = all(event.at_of_store for event in events)
    for event in events:
        for prefix, record in objects(event.text):
            framed = framed or MARKER in record or {"level", "msg"} <= record.keys()
            if record.get(MARKER) == "HealthEvent":
                observations.append(_observation(record, _time(record, prefix, event.at), event.node))
            elif str(record.get("msg", ""))[:128].startswith(_FAULTY):
                observations.append(_failed_check(record, event.at, event.node))
        for line in filter(None, map(_CHECK_LINE.match, event.text.splitlines())):
            framed = True
            failed = _line_fault(line, event.node)
            observations += [failed] if failed else []
    if not framed:
        raise Rejected("no_framing", "no record of the HyperPod health monitoring agent")
    return tuple(observations)


def _observation(record: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault | Clear:
    values = {key.strip(": ").lower(): value for key, value in record.items()}
    nested: dict[str, Any] = next((values[name] for name in _MEMBERS if isinstance(values.get(name), dict)), {})
    detail = {key.lower(): value for key, value in nested.items()}
    shown = _string(detail.get("message")) or _string(values.get("condition")) or _string(record.get("msg")) or ""
    changed, reason = _CONDITION_CHANGE.search(shown), _string(detail.get("reason"))
    condition = changed[1] if changed else _string(detail.get("type")) or _string(values.get("condition"))
    status = changed[2] if changed else _string(detail.get("status"))
    severity, action = _verdict(reason, _string(detail.get("action")), condition)
    fault = _reported(AGENT_LOG, shown, condition, detail.get("errnum"))
    stated = {"condition": condition, "reason": reason, "timestamp": _string(detail.get("timestamp"))}
    attributes = {**fault.attributes, **{name: value[:128] for name, value in stated.items() if value}}
    attributes |= {"instance_id": instance_id} if instance_id else {}
    fault = replace(fault, observed_at=at, attributes=attributes, severity=severity, action=action, node=instance_id)
    needs_repair = action is not None and action.opens_case
    quoted_clear = status != "True" and isinstance(_quoted(shown), Clear)
    is_over = status == "False" or (quoted_clear and not needs_repair)
    return to_clear(fault) if is_over else fault


def _reported(source: str, shown: str, condition: str | None, number: object = None) -> Fault:
    """Return the fault that a health event reports. `number` is the Xid that the event states in a field.

    The first of these determines the fault: a quoted kernel log line, an Xid, a condition in `_CODES_BY_CONDITION`.
    Without any of them, the code is `agent.policy_violation` if the message contains `violation`, otherwise
    `agent.condition`.
    """
    quoted: Fault | Clear | None = _quoted(shown)
    if quoted is not None:
        fault = fault_of(source, quoted.code, quoted.component, quoted.message, shown)
        return replace(fault, attributes=quoted.attributes)
    shortened = _SHORTENED_XID.search(shown)
    number = int(shortened[1]) if shortened else number
    if isinstance(number, int) and not isinstance(number, bool) and (shortened or 0 < number < _MAX_XID):
        code, component = f"xid.{number}", _UNKNOWN_GPU
    elif condition in _CODES_BY_CONDITION:
        code, component = _CODES_BY_CONDITION[condition or ""], _COMPONENTS.get(condition or "", NODE_COMPONENT)
    else:
        is_violation = "violation" in shown.lower()
        code, component = "agent.policy_violation" if is_violation else "agent.condition", NODE_COMPONENT
    return fault_of(source, code, component, shown or code, shown)


def _quoted(text: str) -> Fault | Clear | None:
    start = text.find("NVRM: Xid (")
    if start >= 0:
        return read_xid(KernelMessage(text[start:].strip().rstrip('"')))
    start = text.find("nvidia-nvswitch")
    found: list[Fault | Clear] = []
    if start >= 0:
        SxidReader(found).read(KernelMessage(text[start:].strip().rstrip('"')))
    return next(iter(found), None)


def _time(record: Mapping[str, Any], prefix: str, ingested_at: datetime | None) -> datetime | None:
    texts = (_string(record.get("ts")), *prefix.split()[:1])
    return next((at for text in texts if text and (at := iso_time(text)) is not None), ingested_at)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _failed_check(record: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault:
    message = text(record.get("msg")) or ""
    action = Action.REBOOT_NODE if "Reboot the Instance" in message else None
    return _check_fault(message, iso_time(text(record.get("ts")) or "") or at, instance_id, action)


def _line_fault(line: re.Match[str], instance_id: str | None) -> Fault | None:
    required = {repair for repair, value in _REQUIRED.findall(line[3]) if value == "true"}
    if _FAULTY not in line[3] and not required:
        return None
    action = Action.REBOOT_NODE if required == {"reboot"} else None
    return _check_fault(line[3], iso_time(line[1]), instance_id, action)


def _check_fault(message: str, at: datetime | None, instance_id: str | None, action: Action | None) -> Fault:
    fault = fault_of(AGENT_LOG, _CHECK_CODE, NODE_COMPONENT, message, None, at, instance_id, instance_id=instance_id)
    return fault.classified(Severity.ERROR, action) if action else fault


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


def _repair_fault(record: Mapping[str, Any], at: datetime | None) -> Fault | None:
    """Return the fault of a cluster event in which HyperPod repairs an instance, or None."""
    description = text(record.get("Description")) or ""
    match = _REPAIR.search(description)
    instance_id = text(record.get("InstanceId"), 64)
    if match is None or instance_id is None or record.get("ResourceType") != "Instance" or _OTHER.search(description):
        return None
    instance = members(_metadata(record).get("Instance"))
    failed = _FAILED.search(description) is not None or record.get("EventLevel") == "Error"
    phase = "fails" if failed else "succeeds" if _DONE.search(description) else "starts"
    code = _TABLE["repairs"][f"{'replace' if match[1] else 'reboot'} {phase}"]
    stated = {
        "instance_id": instance_id,
        "event_id": text(record.get("EventId"), 64),
        "event_level": text(record.get("EventLevel"), 16),
        "instance_group": text(record.get("InstanceGroupName"), 64),
        "node_logical_id": text(instance.get("NodeLogicalId"), 128),
        "failure_message": text(instance.get("FailureMessage")),
    }
    at = instant(record.get("EventTime")) or at
    return fault_of(EVENTS, code, NODE_COMPONENT, description, None, at, instance_id, **stated)


def _metadata(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return members(members(record.get("EventDetails")).get("EventMetadata") or record.get("EventMetadata"))


EVENTS = "hyperpod-event"
PREFIX = "SageMaker HyperPod"
NODE_HEALTH, CLUSTER_EVENT = f"{PREFIX} Cluster Node Health Event", f"{PREFIX} Cluster Event"
_FAULT_TYPE = re.compile(r"fault type (\w{1,64})")
_EVENTS_REPAIR = re.compile(r"Repair action: (\w{1,32})")
_UNHEALTHY = frozenset({"unhealthy", "degraded"})
_ANY_COMPONENT = (NODE_COMPONENT, *_COMPONENTS.values())
_Found = tuple[str | None, str, Fault | Snapshot]
_COVERED = (*_CODES_BY_CONDITION.values(), *_CODES_BY_ACTION.values(), "agent.node_unhealthy")


def _decode_events(body: bytes) -> tuple[Observation, ...]:
    """Return the observations of EventBridge events or of a ListClusterEvents response."""
    framed = False
    seen: dict[tuple[str | None, ...], Fault | Snapshot] = {}
    for _, document in objects(text_of(body)):
        records = tuple(_records(document))
        framed = framed or bool(records) or _is_hyperpod_event(document)
        for event_id, status, item in filter(None, records):
            seen.setdefault((item.node, event_id, str(item.observed_at), status), item)
    if not framed:
        raise Rejected("no_framing", "no event of SageMaker HyperPod")
    return tuple(seen.values())


def _is_hyperpod_event(document: Mapping[str, Any]) -> bool:
    return str(document.get("detail-type", "")).startswith(PREFIX)


def _records(document: Mapping[str, Any]) -> Iterator[_Found | None]:
    """Yield the node health or repair in each record, or None for a record that has neither.

    Each comes with the id of its event, and with the status of the node or the code of the repair. Events that
    Faultbridge itself published in the format of HyperPod (its HyperPod mirror) are skipped.
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


def _summary(record: Mapping[str, Any], summary: object, at: datetime | None, event_id: str | None) -> _Found | None:
    health = members(summary)
    status, at = text(health.get("HealthStatus"), 64), instant(record.get("EventTime")) or at
    if status is None:
        return None
    instance_id, reason = text(record.get("InstanceId"), 64), text(health.get("HealthStatusReason"))
    if status.lower() not in _UNHEALTHY:
        covers = dict.fromkeys(_COVERED, _ANY_COMPONENT) if status.lower() == "healthy" else {}
        return event_id, status, Snapshot(EVENTS, covers, (), at, node=instance_id)
    fault_type = _FAULT_TYPE.search(reason or "")
    condition = fault_type[1] if fault_type else None
    repair, advice = text(health.get("RepairAction"), 32), text(health.get("Recommendation"))
    stated = attributes_of(
        instance_id=instance_id,
        event_id=event_id,
        fault_type=condition,
        health_status=status,
        repair_action=repair,
        recommendation=advice,
    )
    by_action = _CODES_BY_ACTION.get((repair or "").lower())
    if condition in _CODES_BY_CONDITION or "Xid (" in (reason or ""):
        fault = _reported(EVENTS, reason or "", condition)
    else:
        message = reason or f"HyperPod reports the node as {status.lower()} without a reason."
        fault = fault_of(EVENTS, by_action or "agent.node_unhealthy", NODE_COMPONENT, message, reason or advice or "")
    # A node that HyperPod does not repair is still unhealthy: only a named repair changes the recommendation.
    severity, action = _verdict(None, repair if by_action else None, condition)
    attributes = {**fault.attributes, **stated}
    fault = replace(fault, observed_at=at, attributes=attributes, severity=severity, action=action, node=instance_id)
    return event_id, status, fault


def _record(record: Mapping[str, Any], at: datetime | None) -> _Found | None:
    event_id, instance = text(record.get("EventId"), 64), members(_metadata(record).get("Instance"))
    found = _summary(record, instance.get("NodeHealthInfo"), at, event_id)
    if found is not None:
        return found
    description = text(record.get("Description")) or ""
    if " is unhealthy" not in description:
        repair = _repair_fault(record, at)
        return (event_id, repair.code, repair) if repair is not None else None
    announced = _EVENTS_REPAIR.search(description)
    health = {"HealthStatus": "Unhealthy", "HealthStatusReason": description}
    return _summary(record, health | ({"RepairAction": announced[1]} if announced else {}), at, event_id)


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
    metadata = _metadata(record)
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


def decode(source: str, body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return the observations in the agent's log, or in events."""
    return _decode_log(body) if source == AGENT_LOG else _decode_events(body)
