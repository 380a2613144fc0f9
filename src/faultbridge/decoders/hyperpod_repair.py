"""What HyperPod says of its own repairs: it replaces or reboots an instance, has done so, or failed to.

The words of an event are no contract, and there is no code: what counts is which repair an instance's event names and
whether it begins, ends or fails. Lifecycle scripts, scaling, patches and their volumes are no repair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.decoders.base import cut, evidence
from faultbridge.decoders.fields import members, text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Fault

_REPAIR = re.compile(r"\b(?:(replac(?:e|ed|ing|ement))|(reboot(?:ed|ing)?))\b", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:volume|lifecycle|scal(?:e|ing)|queued|patch\w{0,3})\b", re.IGNORECASE)
_FAILED = re.compile(r"\b(?:fail(?:ed|ure)?|could not|unable)\b", re.IGNORECASE)
_DONE = re.compile(
    r"\b(?:complet(?:ed?|ion)|succeeded|finished|replaced|rebooted|successfully (?!start))", re.IGNORECASE
)
_CODES = {
    ("replace", "begins"): "cloud.replacing",
    ("replace", "ends"): "cloud.replaced",
    ("replace", "fails"): "cloud.replacement_failed",
    ("reboot", "begins"): "cloud.rebooting",
    ("reboot", "ends"): "cloud.rebooted",
    ("reboot", "fails"): "cloud.reboot_failed",
}


def repair(source: str, record: Mapping[str, Any], at: datetime | None) -> Fault | None:
    """Read a record of a cluster event as a step of HyperPod's own repair of an instance; None where it is none."""
    description = text(record.get("Description")) or ""
    named = _REPAIR.search(description)
    instance_id = text(record.get("InstanceId"), 64)
    if named is None or instance_id is None or record.get("ResourceType") != "Instance" or _OTHER.search(description):
        return None
    details = members(members(record.get("EventDetails")).get("EventMetadata") or record.get("EventMetadata"))
    instance = members(details.get("Instance"))
    failed = _FAILED.search(description) is not None or record.get("EventLevel") == "Error"
    phase = "fails" if failed else "ends" if _DONE.search(description) else "begins"
    return Fault(
        source=source,
        code=_CODES["replace" if named[1] else "reboot", phase],
        component=NODE_COMPONENT,
        message=cut(description),
        observed_at=instant(record.get("EventTime")) or at,
        evidence=evidence(description),
        attributes=told(
            instance_id=instance_id,
            event_id=text(record.get("EventId"), 64),
            event_level=text(record.get("EventLevel"), 16),
            instance_group=text(record.get("InstanceGroupName"), 64),
            node_logical_id=text(instance.get("NodeLogicalId"), 128),
            failure_message=text(instance.get("FailureMessage")),
        ),
        node=instance_id,
    )
