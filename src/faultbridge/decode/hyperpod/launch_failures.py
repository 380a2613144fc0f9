"""Determines why HyperPod could not start an instance, from events and status messages of nodes.

HyperPod documents no code for these failures, so their texts are matched by keywords. An event counts if it reports a
failure and has a keyword of a launch (such as `creation`), a lifecycle script, EFA or capacity, or if its metadata
reports a failed lifecycle script. Source: AWS's documentation of cluster events, and captures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from faultbridge.decode.frames.decoder import members, text
from faultbridge.model.cluster.state import ProviderCondition
from faultbridge.model.enums import ConditionKind

CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
_KINDS = (
    (re.compile(r"life-?\s?cycle|\blcs\b", re.IGNORECASE), ConditionKind.LIFECYCLE_SCRIPT),
    (re.compile(r"\bEFA\b"), ConditionKind.EFA_CHECK),
    (re.compile(r"capacity", re.IGNORECASE), ConditionKind.NO_CAPACITY),
)
_LAUNCH = re.compile(r"\b(?:creation|provision|replacement|launch)", re.IGNORECASE)
_FAILED = re.compile(r"\bfailed\b", re.IGNORECASE)
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
    failed = record.get("EventLevel", "Error") == "Error" and _FAILED.search(f"{description} {message}")
    kind = ConditionKind.LIFECYCLE_SCRIPT if script_failed else failure_kind(f"{message} {description}")
    is_launch = kind is not ConditionKind.LAUNCH_FAILED or _LAUNCH.search(description)
    if not script_failed and not (failed and is_launch):
        return None
    return ProviderCondition(kind, message or "no message", text(record.get("InstanceGroupName"), 64))
