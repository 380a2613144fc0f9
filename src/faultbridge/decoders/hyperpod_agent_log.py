"""`hyperpod-agent-log`: health events of the SageMaker HyperPod health monitoring agent, in its four shapes.

Grammar: one JSON object a line or pretty-printed, perhaps behind a time, perhaps in a CloudWatch Logs record; members
may end in a colon and a space inside their quotes. Only records with the agent's marker `HealthEvent` are read. The
node is in the log stream's name alone. Times: `ts` with its zone; the inner time has been seen a day off. Errors:
`Rejected(no_framing)` without a record of the agent. Source: AWS's documentation and the agent's logs. Units: none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.decoders.base import Decoder, Hints, cut, evidence, over
from faultbridge.decoders.clock import iso_time
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.envelope import LogEvent, log_events
from faultbridge.decoders.hyperpod_deep_check import failed_check, is_check, plain_fault, plain_lines
from faultbridge.decoders.hyperpod_words import CODES_BY_CONDITION, asked
from faultbridge.decoders.kernel_prefix import KernelMessage
from faultbridge.decoders.kernel_sxid import SxidReader
from faultbridge.decoders.kernel_xid import read_xid
from faultbridge.domain.faults import NODE_COMPONENT, Clear, Component, ComponentType, Fault, Observation
from faultbridge.errors import Rejected

SOURCE = "hyperpod-agent-log"
MARKER = "HealthMonitoringAgentDetectionEvent"
_IS_NOW = re.compile(r"Node condition (\w{1,64}) is now: (\w{1,16})")
_ELIDED_XID = re.compile(r"\bXid \([^()]{0,64}\): (\d{1,5})\b")
_UNKNOWN_GPU = Component(ComponentType.GPU)
# What a condition is about, where it is not the whole node; which one of them it does not say.
COMPONENTS = {"NvidiaGPUUnhealthy": _UNKNOWN_GPU, "EfaError": Component(ComponentType.NIC)}
_MEMBERS = ("details", "event detail", "condition details", "data", "condition")


@dataclass(frozen=True, slots=True)
class Told:
    """What one health event says, whichever shape it has."""

    text: str
    condition: str | None = None
    status: str | None = None
    reason: str | None = None
    action: str | None = None
    number: int | None = None
    attributes: Mapping[str, str] | None = None


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Read every health event of a log file, a CloudWatch export or a subscription record."""
    events = log_events(body)
    framed = events is not None
    found: list[Observation] = []
    for event in events if events is not None else (LogEvent(text_of(body)),):
        for prefix, written in objects(event.message):
            framed = framed or MARKER in written or {"level", "msg"} <= written.keys()
            if written.get(MARKER) == "HealthEvent":
                found.append(_observation(written, _time(written, prefix, event.at), event.instance_id))
            elif is_check(written):
                found.append(failed_check(SOURCE, written, event.at, event.instance_id))
        for line in plain_lines(event.message):
            framed = True
            failed = plain_fault(SOURCE, line, event.instance_id)
            found += [failed] if failed else []
    if not framed:
        raise Rejected("no_framing", "no JSON record of the health monitoring agent in it")
    return tuple(found)


def recognize(body: bytes) -> bool:
    """Tell whether the agent's marker or a deep health check is there, or an envelope that may hold one."""
    checks = b"Encountered FaultyInstance" in body or b"replacementRequired:" in body
    return MARKER.encode() in body or checks or b'"awslogs"' in body[:256]


def _observation(written: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault | Clear:
    told = _told(written)
    fault = named(told)
    attributes = {**fault.attributes, **(told.attributes or {})}
    attributes |= {"instance_id": instance_id} if instance_id else {}
    verdict = asked(told.reason, told.action, told.condition)
    fault = replace(
        fault,
        source=SOURCE,
        observed_at=at,
        attributes=attributes,
        severity=verdict.severity if verdict else None,
        action=verdict.action if verdict else None,
        node=instance_id,
    )
    return over(fault) if told.status == "False" else fault


def _told(written: Mapping[str, Any]) -> Told:
    """Bring the four shapes to one; a key may end in a colon and a space, inside its quotes."""
    members = {key.strip(": ").lower(): value for key, value in written.items()}
    nested: dict[str, Any] = next((members[name] for name in _MEMBERS if isinstance(members.get(name), dict)), {})
    detail = {key.lower(): value for key, value in nested.items()}
    text = _string(detail.get("message")) or _string(members.get("condition")) or _string(written.get("msg")) or ""
    is_now = _IS_NOW.search(text)
    condition = is_now[1] if is_now else _string(detail.get("type")) or _string(members.get("condition"))
    number = detail.get("errnum")
    attributes = {
        "condition": condition,
        "reason": _string(detail.get("reason")),
        "timestamp": _string(detail.get("timestamp")),
    }
    return Told(
        text=text,
        condition=condition,
        status=is_now[2] if is_now else _string(detail.get("status")),
        reason=_string(detail.get("reason")),
        action=_string(detail.get("action")),
        number=number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 100_000 else None,  # noqa: PLR2004 - five digits, as in the kernel log
        attributes={name: value[:128] for name, value in attributes.items() if value},
    )


def named(told: Told) -> Fault:
    """Find out what the event is about: an Xid or SXid that it quotes or numbers, else its condition."""
    quoted = _quoted(told.text)
    if quoted is not None:
        return quoted
    elided = _ELIDED_XID.search(told.text)
    number = int(elided[1]) if elided else told.number
    if number is not None:
        return _fault(told, f"xid.{number}", _UNKNOWN_GPU)
    if told.condition is not None and told.condition in CODES_BY_CONDITION:
        return _fault(told, CODES_BY_CONDITION[told.condition], COMPONENTS.get(told.condition, NODE_COMPONENT))
    return _fault(
        told, "agent.policy_violation" if "violation" in told.text.lower() else "agent.condition", NODE_COMPONENT
    )


def _quoted(text: str) -> Fault | None:
    """Read the kernel line that a message quotes."""
    start = text.find("NVRM: Xid (")
    if start >= 0:
        seen = read_xid(KernelMessage(text[start:].strip().rstrip('"')))
        return (
            Fault(SOURCE, seen.code, seen.component, seen.message, evidence=evidence(text), attributes=seen.attributes)
            if seen
            else None
        )
    start = text.find("nvidia-nvswitch")
    found: list[Fault | Clear] = []
    if start >= 0:
        SxidReader(found).read(KernelMessage(text[start:].strip().rstrip('"')))
    return next((replace(one, evidence=evidence(text)) for one in found if isinstance(one, Fault)), None)


def _fault(told: Told, code: str, component: Component) -> Fault:
    return Fault(SOURCE, code, component, cut(told.text or code), evidence=evidence(told.text), attributes={})


def _time(written: Mapping[str, Any], prefix: str, taken_in: datetime | None) -> datetime | None:
    """Prefer the agent's outer time: the inner one has been seen a day off."""
    texts = (_string(written.get("ts")), *prefix.split()[:1])
    return next((at for text in texts if text and (at := iso_time(text)) is not None), taken_in)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


DECODER = Decoder(
    name=SOURCE,
    summary="log of the SageMaker HyperPod health monitoring agent, also in the CloudWatch Logs envelope",
    example='{"level":"info","ts":"2026-02-03T04:05:06Z","msg":"DCGM Policy Violation found ",'
    '"condition: ":"XID Error","data: ":{"ErrNum":79},"HealthMonitoringAgentDetectionEvent":"HealthEvent"}',
    recognize=recognize,
    decode=decode,
)
