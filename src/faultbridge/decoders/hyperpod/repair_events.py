"""Reads HyperPod's events about the repairs that it does itself: replacements and reboots.

HyperPod documents no code for these events, so their descriptions are matched by keywords. Events about lifecycle
scripts, scaling, patches and volumes are not repairs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.decoders.common.clock import instant
from faultbridge.decoders.common.fields import attributes_of, evidence, members, text, truncate
from faultbridge.domain.faults import NODE_COMPONENT, Fault

_REPAIR = re.compile(r"\b(?:(replac(?:e|ed|ing|ement))|(reboot(?:ed|ing)?))\b", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:volume|lifecycle|scal(?:e|ing)|queued|patch\w{0,3})\b", re.IGNORECASE)
_FAILED = re.compile(r"\b(?:fail(?:ed|ure)?|could not|unable)\b", re.IGNORECASE)
_DONE = re.compile(
    r"\b(?:complet(?:ed?|ion)|succeeded|finished|replaced|rebooted|successfully (?!start))", re.IGNORECASE
)
_CODES = {
    ("replace", "starts"): "cloud.replacing",
    ("replace", "succeeds"): "cloud.replaced",
    ("replace", "fails"): "cloud.replacement_failed",
    ("reboot", "starts"): "cloud.rebooting",
    ("reboot", "succeeds"): "cloud.rebooted",
    ("reboot", "fails"): "cloud.reboot_failed",
}


def repair_fault(source: str, record: Mapping[str, Any], at: datetime | None) -> Fault | None:
    """Return the fault of a cluster event in which HyperPod repairs an instance, or None.

    The fault code states the repair and whether it starts, succeeds or fails. The result is None for any other event.
    """
    description = text(record.get("Description")) or ""
    match = _REPAIR.search(description)
    instance_id = text(record.get("InstanceId"), 64)
    if match is None or instance_id is None or record.get("ResourceType") != "Instance" or _OTHER.search(description):
        return None
    details = members(members(record.get("EventDetails")).get("EventMetadata") or record.get("EventMetadata"))
    instance = members(details.get("Instance"))
    failed = _FAILED.search(description) is not None or record.get("EventLevel") == "Error"
    phase = "fails" if failed else "succeeds" if _DONE.search(description) else "starts"
    return Fault(
        source=source,
        code=_CODES["replace" if match[1] else "reboot", phase],
        component=NODE_COMPONENT,
        message=truncate(description),
        observed_at=instant(record.get("EventTime")) or at,
        evidence=evidence(description),
        attributes=attributes_of(
            instance_id=instance_id,
            event_id=text(record.get("EventId"), 64),
            event_level=text(record.get("EventLevel"), 16),
            instance_group=text(record.get("InstanceGroupName"), 64),
            node_logical_id=text(instance.get("NodeLogicalId"), 128),
            failure_message=text(instance.get("FailureMessage")),
        ),
        node=instance_id,
    )
