"""Decodes `hyperpod-agent-log`: health events and deep health checks of the SageMaker HyperPod agent.

Grammar: JSON objects, one per line or pretty-printed, possibly after a time or in a CloudWatch Logs record; a key may
end with a colon and a space. A health event has the marker `HealthMonitoringAgentDetectionEvent`. A deep health check
is a JSON line or several plain lines. Only the name of the log stream contains the instance id. Times: `ts` with its
time zone; `timestamp` in the details can be a day wrong, and only becomes an attribute. Units: none. Errors:
`Rejected(no_framing)` for text without an agent record; a CloudWatch Logs record without one gives no observations.
Source: AWS's documentation and captured agent logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.data import table
from faultbridge.decode.frames.chain import messages_of
from faultbridge.decode.frames.clock import iso_time
from faultbridge.decode.frames.decoder import Hints, fault_of, text, to_clear
from faultbridge.decode.frames.documents import objects
from faultbridge.decode.frames.prefix import KernelMessage
from faultbridge.decode.kernel.xid import SxidReader, read_xid
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Observation
from faultbridge.model.values import replace

_TABLE = table("hyperpod")
CODES_BY_CONDITION: Mapping[str, str] = _TABLE["conditions"]
CODES_BY_ACTION: Mapping[str, str] = _TABLE["actions"]


class Recommendation(Struct, frozen=True):
    """The action, and perhaps the severity, that the HyperPod health agent recommends in one event."""

    action: Action
    severity: Severity | None


def recommendation_of(reason: str | None, action: str | None, condition: str | None) -> Recommendation | None:
    """Return the recommendation of an event, or None if it has none.

    The first of these that implies a recommendation determines it: the reason, the action, the condition.
    """
    stated = (("reason", reason), ("action", (action or "").lower()), ("condition", condition))
    row = next((row for kind, name in stated if (row := _TABLE["recommended"][kind].get(name or ""))), None)
    if row is None:
        return None
    return Recommendation(Action(row["action"]), Severity(row["severity"]) if "severity" in row else None)


SOURCE = "hyperpod-agent-log"
MARKER = "HealthMonitoringAgentDetectionEvent"
_CONDITION_CHANGE = re.compile(r"Node condition (\w{1,64}) is now: (\w{1,16})")
_SHORTENED_XID = re.compile(r"\bXid \([^()]{0,64}\): (\d{1,5})\b")
_UNKNOWN_GPU = Component(ComponentType.GPU)
# The component of a condition that is not about the whole node; the condition names no specific device.
COMPONENTS = {"NvidiaGPUUnhealthy": _UNKNOWN_GPU, "EfaError": Component(ComponentType.NIC)}
_MEMBERS = ("details", "event detail", "condition details", "data", "condition")
_CHECK_CODE = "agent.deep_check_failed"
_CHECK_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (info|warn|error) (.{1,4096})")
_REQUIRED = re.compile(r"\b(replacement|reboot)Required: {0,2}(true|false)")
_FAULTY = "Encountered FaultyInstance"


class HealthDetails(Struct, frozen=True):
    """The details of a health event of the HyperPod agent. `number` is the Xid in its field `errnum`, or None."""

    text: str
    condition: str | None = None
    status: str | None = None
    reason: str | None = None
    action: str | None = None
    number: int | None = None
    attributes: Mapping[str, str] | None = None


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault or clear for each health event, and a fault for each report of a failed check."""
    observations: list[Observation] = []
    events = messages_of(body)
    framed = all(event.at_of_store for event in events)
    for event in events:
        for prefix, record in objects(event.text):
            framed = framed or MARKER in record or {"level", "msg"} <= record.keys()
            if record.get(MARKER) == "HealthEvent":
                observations.append(_observation(record, _time(record, prefix, event.at), event.node))
            elif _is_failed_check(record):
                observations.append(_failed_check(SOURCE, record, event.at, event.node))
        for line in _check_lines(event.text):
            framed = True
            failed = _line_fault(SOURCE, line, event.node)
            observations += [failed] if failed else []
    if not framed:
        raise Rejected("no_framing", "no record of the HyperPod health monitoring agent")
    return tuple(observations)


def _observation(record: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault | Clear:
    details = _details(record)
    fault = reported_fault(details)
    attributes = {**fault.attributes, **(details.attributes or {})}
    attributes |= {"instance_id": instance_id} if instance_id else {}
    verdict = recommendation_of(details.reason, details.action, details.condition)
    fault = replace(
        fault,
        source=SOURCE,
        observed_at=at,
        attributes=attributes,
        severity=verdict.severity if verdict else None,
        action=verdict.action if verdict else None,
        node=instance_id,
    )
    needs_repair = verdict is not None and verdict.action.opens_case
    quoted_clear = details.status != "True" and isinstance(_quoted(details.text), Clear)
    is_over = details.status == "False" or (quoted_clear and not needs_repair)
    return to_clear(fault) if is_over else fault


def _details(record: Mapping[str, Any]) -> HealthDetails:
    """Return the details of a health event."""
    members = {key.strip(": ").lower(): value for key, value in record.items()}
    nested: dict[str, Any] = next((members[name] for name in _MEMBERS if isinstance(members.get(name), dict)), {})
    detail = {key.lower(): value for key, value in nested.items()}
    text = _string(detail.get("message")) or _string(members.get("condition")) or _string(record.get("msg")) or ""
    changed = _CONDITION_CHANGE.search(text)
    condition = changed[1] if changed else _string(detail.get("type")) or _string(members.get("condition"))
    number = detail.get("errnum")
    attributes = {
        "condition": condition,
        "reason": _string(detail.get("reason")),
        "timestamp": _string(detail.get("timestamp")),
    }
    return HealthDetails(
        text=text,
        condition=condition,
        status=changed[2] if changed else _string(detail.get("status")),
        reason=_string(detail.get("reason")),
        action=_string(detail.get("action")),
        number=number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 100_000 else None,  # noqa: PLR2004 - five digits, as in the kernel log
        attributes={name: value[:128] for name, value in attributes.items() if value},
    )


def reported_fault(details: HealthDetails) -> Fault:
    """Return the fault that a health event reports.

    The first of these determines the fault: a quoted kernel log line, an Xid, a condition in `CODES_BY_CONDITION`.
    Without any of them, the code is `agent.policy_violation` if the message contains `violation`, otherwise
    `agent.condition`.
    """
    quoted = _quoted(details.text)
    if quoted is not None:
        fault = _fault(details, quoted.code, quoted.component)
        return replace(fault, message=quoted.message, attributes=quoted.attributes)
    shortened = _SHORTENED_XID.search(details.text)
    number = int(shortened[1]) if shortened else details.number
    if number is not None:
        return _fault(details, f"xid.{number}", _UNKNOWN_GPU)
    if details.condition is not None and details.condition in CODES_BY_CONDITION:
        return _fault(details, CODES_BY_CONDITION[details.condition], COMPONENTS.get(details.condition, NODE_COMPONENT))
    return _fault(
        details, "agent.policy_violation" if "violation" in details.text.lower() else "agent.condition", NODE_COMPONENT
    )


def _quoted(text: str) -> Fault | Clear | None:
    start = text.find("NVRM: Xid (")
    if start >= 0:
        return read_xid(KernelMessage(text[start:].strip().rstrip('"')))
    start = text.find("nvidia-nvswitch")
    found: list[Fault | Clear] = []
    if start >= 0:
        SxidReader(found).read(KernelMessage(text[start:].strip().rstrip('"')))
    return next(iter(found), None)


def _fault(details: HealthDetails, code: str, component: Component) -> Fault:
    return fault_of(SOURCE, code, component, details.text or code, details.text)


def _time(record: Mapping[str, Any], prefix: str, ingested_at: datetime | None) -> datetime | None:
    texts = (_string(record.get("ts")), *prefix.split()[:1])
    return next((at for text in texts if text and (at := iso_time(text)) is not None), ingested_at)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_failed_check(record: Mapping[str, Any]) -> bool:
    return str(record.get("msg", ""))[:128].startswith(_FAULTY)


def _failed_check(source: str, record: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault:
    message = text(record.get("msg")) or ""
    action = Action.REBOOT_NODE if "Reboot the Instance" in message else None
    return _check_fault(source, message, iso_time(text(record.get("ts")) or "") or at, instance_id, action)


def _check_lines(message: str) -> Iterator[re.Match[str]]:
    yield from (found for line in message.splitlines() if (found := _CHECK_LINE.match(line)))


def _line_fault(source: str, line: re.Match[str], instance_id: str | None) -> Fault | None:
    required = {repair for repair, value in _REQUIRED.findall(line[3]) if value == "true"}
    if _FAULTY not in line[3] and not required:
        return None
    action = Action.REBOOT_NODE if required == {"reboot"} else None
    return _check_fault(source, line[3], iso_time(line[1]), instance_id, action)


def _check_fault(
    source: str, message: str, at: datetime | None, instance_id: str | None, action: Action | None
) -> Fault:
    fault = fault_of(source, _CHECK_CODE, NODE_COMPONENT, message, None, at, instance_id, instance_id=instance_id)
    return fault.classified(Severity.ERROR, action) if action else fault
