"""`ec2-status`: the answer of DescribeInstanceStatus, one health snapshot an instance.

The system's status is the host underneath, the instance's is its own operating system; a stopped instance has neither.

Grammar: JSON with `InstanceStatuses`; details may be null or missing, an event whose description begins with
`[Completed]` is over. Times: `ImpairedSince`, with a zone; when a scheduled event begins is an attribute. Units: none.
Errors: `Rejected(no_framing)` without `InstanceStatuses`. Source: the EC2 API reference and captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.cloud_events import instance_of
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, objects_in, text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected

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
    """Health snapshot each instance of the answer; nothing is concluded from a check that says nothing."""
    statuses = tuple(_statuses(text_of(body)))
    if not statuses:
        raise Rejected("no_framing", "no instance status in it")
    return tuple(_snapshot(one) for one in statuses if one)


def recognize(body: bytes) -> bool:
    """Tell whether both checks of EC2 are there."""
    return b'"InstanceStatus"' in body and b'"SystemStatus"' in body


def _statuses(body: str) -> Iterator[Mapping[str, Any]]:
    for _, written in objects(body):
        listed = written.get("InstanceStatuses")
        if isinstance(listed, list):
            # An answer without instances is an answer.
            yield {}
            yield from (one for one in objects_in(listed) if instance_of(one.get("InstanceId")))
        elif instance_of(written.get("InstanceId")) and "InstanceStatus" in written:
            yield written


def _snapshot(status: Mapping[str, Any]) -> Snapshot:
    instance_id = instance_of(status["InstanceId"])
    covers: dict[str, tuple[Component, ...]] = {}
    present: list[Fault] = []
    for name, (code, whose) in _CHECKS.items():
        check = members(status.get(name))
        said = text(check.get("Status"), 32)
        if said in {"ok", "impaired"}:
            covers[code] = (NODE_COMPONENT,)
        if said == "impaired":
            present.append(_impaired(code, whose, check, instance_id))
    if "Events" in status:
        covers |= dict.fromkeys(_EVENTS.values(), (NODE_COMPONENT,))
        present += _scheduled(status["Events"], instance_id)
    return Snapshot(SOURCE, covers, tuple(present), node=instance_id)


def _impaired(code: str, whose: str, check: Mapping[str, Any], instance_id: str | None) -> Fault:
    failed = [one for one in objects_in(check.get("Details")) if one.get("Status") == "failed"]
    since = next((at for one in failed if (at := instant(one.get("ImpairedSince")))), None)
    names = ", ".join(name for one in failed if (name := text(one.get("Name"), 64))) or "no check named"
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=cut(f"EC2 finds {whose} impaired ({names})."),
        observed_at=since,
        evidence=evidence(f"Status: impaired, failed: {names}"),
        attributes=told(instance_id=instance_id, failed=names, impaired_since=to_text(since) if since else None),
        node=instance_id,
    )


def _scheduled(events: object, instance_id: str | None) -> Iterator[Fault]:
    for event in objects_in(events):
        code, says = text(event.get("Code"), 64) or "", text(event.get("Description")) or ""
        if code not in _EVENTS or says.startswith(_DONE):
            continue
        begins = instant(event.get("NotBefore"))
        yield Fault(
            source=SOURCE,
            code=_EVENTS[code],
            component=NODE_COMPONENT,
            message=cut(says or f"EC2 has scheduled: {code}."),
            evidence=evidence(f"{code}: {says}"),
            attributes=told(
                instance_id=instance_id,
                event_code=code,
                event_id=text(event.get("InstanceEventId"), 64),
                not_before=to_text(begins) if begins else None,
            ),
            node=instance_id,
        )


DECODER = Decoder(
    name=SOURCE,
    summary="aws ec2 describe-instance-status: checks of host, instance and volumes, scheduled events",
    example='{"InstanceStatuses": [{"InstanceId": "i-0123456789abcdef0", "InstanceStatus": {"Status": "ok"}, '
    '"SystemStatus": {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed", '
    '"ImpairedSince": "2026-02-03T04:05:06Z"}]}}]}',
    recognize=recognize,
    decode=decode,
)
