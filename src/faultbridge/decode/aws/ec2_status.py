"""Decodes `ec2-status`: the response of DescribeInstanceStatus, one health snapshot per instance.

The system status describes the underlying host, and the instance status describes the operating system. For a stopped
instance, neither has a result.

Grammar: JSON with `InstanceStatuses`; details can be null or absent. A scheduled event whose description starts with
`[Completed]` or `[Canceled]` has ended. Times: `ImpairedSince` with a time zone; a scheduled time becomes an attribute.
Units: none. Errors: `Rejected(no_framing)` without `InstanceStatuses`. Source: the EC2 API reference and captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.aws.ec2_events import instance_of
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import (
    Hints,
    attributes_of,
    evidence,
    members,
    objects_in,
    text,
    truncate,
)
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.model.times import to_text

SOURCE = "ec2-status"
_CHECKS: Mapping[str, tuple[str, str]] = {
    "SystemStatus": ("cloud.system_impaired", "the host under the instance"),
    "InstanceStatus": ("cloud.instance_impaired", "the instance itself"),
    "AttachedEbsStatus": ("cloud.ebs_impaired", "a volume of the instance"),
}
_EVENTS: Mapping[str, str] = {
    "instance-retirement": "cloud.retirement_scheduled",
    "instance-stop": "cloud.retirement_scheduled",
    "instance-reboot": "cloud.reboot_scheduled",
    "system-reboot": "cloud.reboot_scheduled",
    "system-maintenance": "cloud.maintenance_scheduled",
}
_DONE = ("[Completed]", "[Canceled]")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of each instance."""
    statuses = tuple(_statuses(text_of(body)))
    if not statuses:
        raise Rejected("no_framing", "no instance status")
    return tuple(_snapshot(item) for item in statuses if item)


def _statuses(body: str) -> Iterator[Mapping[str, Any]]:
    for _, document in objects(body):
        listed = document.get("InstanceStatuses")
        if isinstance(listed, list):
            # An answer without instances is valid; the empty status marks the format as recognized.
            yield {}
            yield from (item for item in objects_in(listed) if instance_of(item.get("InstanceId")))
        elif instance_of(document.get("InstanceId")) and "InstanceStatus" in document:
            yield document


def _snapshot(status: Mapping[str, Any]) -> Snapshot:
    instance_id = instance_of(status["InstanceId"])
    covers: dict[str, tuple[Component, ...]] = {}
    present: list[Fault] = []
    for name, (code, subject) in _CHECKS.items():
        check = members(status.get(name))
        result = text(check.get("Status"), 32)
        if result in {"ok", "impaired"}:
            covers[code] = (NODE_COMPONENT,)
        if result == "impaired":
            present.append(_impaired(code, subject, check, instance_id))
    if "Events" in status:
        covers |= dict.fromkeys(_EVENTS.values(), (NODE_COMPONENT,))
        present += _scheduled(status["Events"], instance_id)
    return Snapshot(SOURCE, covers, tuple(present), node=instance_id)


def _impaired(code: str, subject: str, check: Mapping[str, Any], instance_id: str | None) -> Fault:
    failed = [item for item in objects_in(check.get("Details")) if item.get("Status") == "failed"]
    impaired_since = next((at for item in failed if (at := instant(item.get("ImpairedSince")))), None)
    names = ", ".join(name for item in failed if (name := text(item.get("Name"), 64))) or "unnamed check"
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=truncate(f"EC2 reports {subject} as impaired ({names})."),
        observed_at=impaired_since,
        evidence=evidence(f"Status: impaired, failed: {names}"),
        attributes=attributes_of(
            instance_id=instance_id, failed=names, impaired_since=to_text(impaired_since) if impaired_since else None
        ),
        node=instance_id,
    )


def _scheduled(events: object, instance_id: str | None) -> Iterator[Fault]:
    for event in objects_in(events):
        code, description = text(event.get("Code"), 64) or "", text(event.get("Description")) or ""
        if code not in _EVENTS or description.startswith(_DONE):
            continue
        starts_at = instant(event.get("NotBefore"))
        yield Fault(
            source=SOURCE,
            code=_EVENTS[code],
            component=NODE_COMPONENT,
            message=truncate(description or f"EC2 scheduled {code}."),
            evidence=evidence(f"{code}: {description}"),
            attributes=attributes_of(
                instance_id=instance_id,
                event_code=code,
                event_id=text(event.get("InstanceEventId"), 64),
                not_before=to_text(starts_at) if starts_at else None,
            ),
            node=instance_id,
        )
