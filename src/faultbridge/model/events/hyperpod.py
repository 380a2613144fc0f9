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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from faultbridge.model.times import from_text, to_milliseconds

NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"

Body = Mapping[str, Any]

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


def mirror(body: Body, location: StackLocation) -> Iterator[MirroredEvent]:
    """Yield the copies of an event in HyperPod's format; most events have no copy."""
    metadata, data = body["metadata"], body.get("data") or {}
    convert = _CONVERTERS.get(str(metadata["event_type"]))
    if convert is None or not data:
        return
    arn = location.cluster_arn(metadata["cluster"])
    for detail_type, detail in convert(metadata, data, arn):
        yield MirroredEvent(detail_type, (arn,), json.dumps(detail, ensure_ascii=False))


def _case_copies(metadata: Body, data: Body, arn: str) -> Iterator[tuple[str, dict[str, Any]]]:
    to, code = data.get("to"), (data.get("cause") or {}).get("code") or "unknown"
    instance = (data.get("incarnation") or {}).get("instance_id")
    if to in {"resolved", "expired"}:
        summary = _summary("Healthy", f"Fault {code} is resolved: {data.get('reason') or to}.", "None", "")
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
    elif to in {"open", "escalated"}:
        repair = _HYPERPOD_REPAIR.get(str(data.get("repair_action")), "None") if to == "open" else "None"
        fault = _FAULT_TYPES.get(repair, "NvidiaGPUUnhealthy")
        # The wording of HyperPod: consumers match parts of it.
        reason = f"Faultbridge has detected fault type {fault} ({code}) on this node and is unhealthy."
        summary = _summary("Unhealthy", reason, repair, _OPERATOR_NEEDED if repair == "None" else _IN_REPAIR)
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
        text = f"Instance {instance} is unhealthy. {reason} Repair action: {repair}."
        yield CLUSTER_EVENT, _cluster_event(metadata, data, arn, _Description(instance, "Warn", text))


def _step_copies(metadata: Body, data: Body, arn: str) -> Iterator[tuple[str, dict[str, Any]]]:
    step, failed = str(data.get("step")), bool(data.get("failure"))
    result = f"failed at the step {step}" if failed else _STEP_RESULTS.get((step, str(data.get("outcome"))))
    if result is None:
        return
    instance = data.get("new_instance") or data.get("old_instance")
    text = f"Instance {instance or metadata.get('node')} {result}"
    failure = str(data.get("reason") or data.get("failure")) if failed else ""
    event = _cluster_event(metadata, data, arn, _Description(instance, "Error" if failed else "Info", text, failure))
    yield CLUSTER_EVENT, event


_CONVERTERS: Mapping[str, Callable[[Body, Body, str], Iterator[tuple[str, dict[str, Any]]]]] = {
    "Case Status Change": _case_copies,
    "Node Replacement Step": _step_copies,
}


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


def _node_health(metadata: Body, arn: str, instance: str | None, summary: dict[str, str]) -> dict[str, Any]:
    return {
        "ClusterName": _sagemaker_name(metadata["cluster"]),
        "ClusterArn": arn,
        "InstanceId": instance or "",
        "HealthSummary": summary,
        "EventTime": to_milliseconds(from_text(metadata["occurred_at"])),
        "Tags": {},
        "Faultbridge": _origin(metadata),
    }


def _cluster_event(metadata: Body, data: Body, arn: str, about: _Description) -> dict[str, Any]:
    group = (data.get("placement") or {}).get("group")
    return {
        "EventDetails": {
            "EventId": str(uuid.uuid5(uuid.UUID(metadata["event_id"]), "hyperpod")),
            "ClusterArn": arn,
            "ClusterName": _sagemaker_name(metadata["cluster"]),
            **({"InstanceGroupName": _sagemaker_name(group)} if group else {}),
            **({"InstanceId": about.instance} if about.instance else {}),
            "ResourceType": "Instance",
            "EventTime": to_milliseconds(from_text(metadata["occurred_at"])),
            "EventLevel": about.level,
            "Description": about.text,
            "EventDetails": {
                "EventMetadata": {
                    "Instance": {"FailureMessage": about.failure, "NodeLogicalId": metadata.get("node") or ""}
                }
            },
        },
        "Faultbridge": _origin(metadata),
    }


def _origin(metadata: Body) -> dict[str, Any]:
    return {
        "schemaVersion": "1.0",
        "mirror": True,
        "eventId": metadata["event_id"],
        "eventType": metadata["event_type"],
        "caseId": metadata.get("case_id"),
        "stream": metadata["stream"],
        "epoch": metadata["epoch"],
        "sequence": metadata["sequence"],
        "node": metadata.get("node"),
    }


def _sagemaker_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:63].rstrip("-") or "cluster"
