"""The HyperPod mirror: copies of events in the format of SageMaker HyperPod events.

A consumer of HyperPod events can read the copies. Only some events about cases and repair steps have copies.

The format is described in the EventBridge Events Reference of SageMaker AI, "Cluster Node Health Event" and "Cluster
Event". Descriptions are free text. The field `Faultbridge` marks a copy and contains the values for which HyperPod has
no field.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping

from msgspec import Struct

from faultbridge.model.entries import EntryMetadata
from faultbridge.model.event_data import CaseStatusData, EventData, Placement, ReplacementStepData
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.times import to_milliseconds

NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"

_HYPERPOD_REPAIR: Mapping[str, str] = {"replace_node": "Replace", "reboot_node": "Reboot", "reset_gpu": "Reboot"}
_FAULT_TYPES: Mapping[str, str] = {"Replace": "NvidiaErrorTerminate", "Reboot": "NvidiaErrorReboot"}
_IN_REPAIR = "Faultbridge repairs the node; wait until it is healthy again."
_OPERATOR_NEEDED = "An operator must repair or replace this node: Faultbridge takes no further automatic action."
_STEP_RESULTS: Mapping[tuple[str, str], str] = {
    ("release_instance", "released"): "is being replaced",
    ("await_successor", "claimed"): "was created as part of a replacement",
    ("verify", "passed"): "passed its health checks",
}


class StackLocation(Struct, frozen=True):
    """The AWS partition, region and account of a stack."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, stack_id: str) -> StackLocation:
        """Parse the ARN of a stack. Any other id gives the partition `aws`, and an empty region and account."""
        parts = stack_id.split(":")
        return cls(parts[1], parts[3], parts[4]) if parts[0] == "arn" and len(parts) > 5 else cls("aws", "", "")  # noqa: PLR2004 - an ARN has six parts

    def cluster_arn(self, cluster: str) -> str:
        """Return a cluster ARN in HyperPod's format. The id in the ARN is derived from the cluster name."""
        digest = hashlib.sha256(cluster.encode()).digest()
        cluster_id = base64.b32encode(digest).decode().lower()[:12]
        return f"arn:{self.partition}:sagemaker:{self.region}:{self.account}:cluster/{cluster_id}"


class MirroredEvent(Struct, frozen=True):
    """A copy of an event in HyperPod's format: detail-type, resources, and detail as JSON text."""

    detail_type: str
    resources: tuple[str, ...]
    detail: str


def mirror(event: RecordedEvent[EventData | None], location: StackLocation) -> Iterator[MirroredEvent]:
    """Yield the copies of an event in HyperPod's format; most events have no copy."""
    metadata, data, arn = event.metadata, event.data, location.cluster_arn(event.metadata.cluster)
    if isinstance(data, CaseStatusData):
        copies = _case_copies(metadata, data, arn)
    elif isinstance(data, ReplacementStepData):
        copies = _step_copies(metadata, data, arn)
    else:
        return
    for detail_type, detail in copies:
        yield MirroredEvent(detail_type, (arn,), json.dumps(detail, ensure_ascii=False))


def _case_copies(metadata: EntryMetadata, data: CaseStatusData, arn: str) -> Iterator[tuple[str, object]]:
    to, code = data.to, data.cause.code or "unknown"
    instance = data.incarnation.instance_id if data.incarnation else None
    if to in {"resolved", "expired"}:
        summary = _summary("Healthy", f"Fault {code} is resolved: {data.reason or to}.", "None", "")
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
    elif to in {"open", "escalated"}:
        repair = _HYPERPOD_REPAIR.get(data.repair_action, "None") if to == "open" else "None"
        fault = _FAULT_TYPES.get(repair, "NvidiaGPUUnhealthy")
        # The wording of HyperPod: consumers match parts of it.
        reason = f"Faultbridge has detected fault type {fault} ({code}) on this node and is unhealthy."
        summary = _summary("Unhealthy", reason, repair, _OPERATOR_NEEDED if repair == "None" else _IN_REPAIR)
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
        text = f"Instance {instance} is unhealthy. {reason} Repair action: {repair}."
        yield CLUSTER_EVENT, _cluster_event(metadata, data.placement, arn, _Description(instance, "Warn", text))


def _step_copies(metadata: EntryMetadata, data: ReplacementStepData, arn: str) -> Iterator[tuple[str, object]]:
    failed = bool(data.failure)
    result = f"failed at the step {data.step}" if failed else _STEP_RESULTS.get((data.step, data.outcome))
    if result is None:
        return
    instance = data.new_instance or data.old_instance
    text = f"Instance {instance or metadata.node} {result}"
    failure = str(data.reason or data.failure) if failed else ""
    yield (
        CLUSTER_EVENT,
        _cluster_event(metadata, None, arn, _Description(instance, "Error" if failed else "Info", text, failure)),
    )


class _Description(Struct, frozen=True):
    instance: str | None
    level: str
    text: str
    failure: str = ""


def _summary(status: str, reason: str, repair: str, recommendation: str) -> dict[str, str]:
    return {
        "HealthStatus": status,
        "HealthStatusReason": reason,
        "RepairAction": repair,
        "Recommendation": recommendation,
    }


def _node_health(metadata: EntryMetadata, arn: str, instance: str | None, summary: dict[str, str]) -> object:
    return {
        "ClusterName": _sagemaker_name(metadata.cluster),
        "ClusterArn": arn,
        "InstanceId": instance or "",
        "HealthSummary": summary,
        "EventTime": to_milliseconds(metadata.occurred_at),
        "Tags": {},
        "Faultbridge": _origin(metadata),
    }


def _cluster_event(metadata: EntryMetadata, placement: Placement | None, arn: str, about: _Description) -> object:
    group = placement.group if placement else None
    return {
        "EventDetails": {
            "EventId": str(uuid.uuid5(uuid.UUID(metadata.event_id), "hyperpod")),
            "ClusterArn": arn,
            "ClusterName": _sagemaker_name(metadata.cluster),
            **({"InstanceGroupName": _sagemaker_name(group)} if group else {}),
            **({"InstanceId": about.instance} if about.instance else {}),
            "ResourceType": "Instance",
            "EventTime": to_milliseconds(metadata.occurred_at),
            "EventLevel": about.level,
            "Description": about.text,
            "EventDetails": {
                "EventMetadata": {"Instance": {"FailureMessage": about.failure, "NodeLogicalId": metadata.node or ""}}
            },
        },
        "Faultbridge": _origin(metadata),
    }


def _origin(metadata: EntryMetadata) -> object:
    return {
        "schemaVersion": "1.0",
        "mirror": True,
        "eventId": metadata.event_id,
        "eventType": metadata.event_type,
        "caseId": metadata.case_id,
        "stream": metadata.stream,
        "epoch": metadata.epoch,
        "sequence": metadata.sequence,
        "node": metadata.node,
    }


def _sagemaker_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:63].rstrip("-") or "cluster"
