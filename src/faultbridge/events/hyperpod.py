"""The HyperPod mirror: events of ours in the shape of SageMaker HyperPod's, for rules and consumers that read those.

Shapes: the EventBridge Events Reference of SageMaker AI, "Cluster Node Health Event" and "Cluster Event". Descriptions
are free text there and our own words here; what HyperPod has no field for stands under `Faultbridge`, which marks a
copy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.times import from_text, to_milliseconds

NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"

Body = Mapping[str, Any]

_REPAIR: Mapping[str, str] = {"replace_node": "Replace", "reboot_node": "Reboot", "reset_gpu": "Reboot"}
_FAULT_TYPES: Mapping[str, str] = {"Replace": "NvidiaErrorTerminate", "Reboot": "NvidiaErrorReboot"}
_IN_WORK = "Faultbridge is working on the repair; wait until the node is healthy again."
_BY_PERSON = "A person must repair or replace this node: Faultbridge does nothing more by itself."
_STEPS: Mapping[tuple[str, str], str] = {
    ("release_instance", "released"): "is being replaced",
    ("await_successor", "claimed"): "was created as part of a replacement",
    ("verify", "passed"): "passed its health checks",
}


@dataclass(frozen=True, slots=True)
class Home:
    """Where events come from: the account and region of the stack, as its own ARN names them."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, stack_id: str) -> Home:
        """Read them from the id of a stack; one that is no ARN lives nowhere in particular."""
        parts = stack_id.split(":")
        return cls(parts[1], parts[3], parts[4]) if parts[0] == "arn" and len(parts) > 5 else cls("aws", "", "")  # noqa: PLR2004 - an ARN has six parts

    def cluster_arn(self, cluster: str) -> str:
        """Return an ARN as HyperPod's: its last part is an id of twelve letters and digits, the same for one name."""
        digest = hashlib.sha256(cluster.encode()).digest()
        cluster_id = base64.b32encode(digest).decode().lower()[:12]
        return f"arn:{self.partition}:sagemaker:{self.region}:{self.account}:cluster/{cluster_id}"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One copy: its detail-type, resources and detail as JSON text."""

    detail_type: str
    resources: tuple[str, ...]
    detail: str


def mirror(body: Body, home: Home) -> Iterator[Mirrored]:
    """Make the copies of an entry; most entries have none."""
    metadata, data = body["metadata"], body.get("data") or {}
    maker = _MAKERS.get(str(metadata["event_type"]))
    if maker is None or not data:
        return
    arn = home.cluster_arn(metadata["cluster"])
    for detail_type, detail in maker(metadata, data, arn):
        yield Mirrored(detail_type, (arn,), json.dumps(detail, ensure_ascii=False))


def _case(metadata: Body, data: Body, arn: str) -> Iterator[tuple[str, dict[str, Any]]]:
    to, code = data.get("to"), (data.get("cause") or {}).get("code") or "unknown"
    instance = (data.get("incarnation") or {}).get("instance_id")
    if to in {"resolved", "expired"}:
        summary = _summary("Healthy", f"The trouble {code} is over: {data.get('reason') or to}.", "None", "")
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
    elif to in {"open", "escalated"}:
        repair = _REPAIR.get(str(data.get("repair_action")), "None") if to == "open" else "None"
        fault = _FAULT_TYPES.get(repair, "NvidiaGPUUnhealthy")
        reason = f"Faultbridge has detected fault type {fault} ({code}) on this node and is unhealthy."
        summary = _summary("Unhealthy", reason, repair, _BY_PERSON if repair == "None" else _IN_WORK)
        yield NODE_HEALTH, _node_health(metadata, arn, instance, summary)
        text = f"Instance {instance} is unhealthy. {reason} Repair action: {repair}."
        yield CLUSTER_EVENT, _cluster_event(metadata, data, arn, _Told(instance, "Warn", text))


def _step(metadata: Body, data: Body, arn: str) -> Iterator[tuple[str, dict[str, Any]]]:
    step, failed = str(data.get("step")), bool(data.get("failure"))
    told = f"failed at the step {step}" if failed else _STEPS.get((step, str(data.get("outcome"))))
    if told is None:
        return
    instance = data.get("new_instance") or data.get("old_instance")
    text = f"Instance {instance or metadata.get('node')} {told}"
    failure = str(data.get("reason") or data.get("failure")) if failed else ""
    event = _cluster_event(metadata, data, arn, _Told(instance, "Error" if failed else "Info", text, failure))
    yield CLUSTER_EVENT, event


_MAKERS: Mapping[str, Callable[[Body, Body, str], Iterator[tuple[str, dict[str, Any]]]]] = {
    "Case Status Change": _case,
    "Node Replacement Step": _step,
}


@dataclass(frozen=True, slots=True)
class _Told:
    instance: str | None
    level: str
    description: str
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
        "ClusterName": _name(metadata["cluster"]),
        "ClusterArn": arn,
        "InstanceId": instance or "",
        "HealthSummary": summary,
        "EventTime": to_milliseconds(from_text(metadata["occurred_at"])),
        "Tags": {},
        "Faultbridge": _ours(metadata),
    }


def _cluster_event(metadata: Body, data: Body, arn: str, told: _Told) -> dict[str, Any]:
    group = (data.get("placement") or {}).get("group")
    return {
        "EventDetails": {
            "EventId": str(uuid.uuid5(uuid.UUID(metadata["event_id"]), "hyperpod")),
            "ClusterArn": arn,
            "ClusterName": _name(metadata["cluster"]),
            **({"InstanceGroupName": _name(group)} if group else {}),
            **({"InstanceId": told.instance} if told.instance else {}),
            "ResourceType": "Instance",
            "EventTime": to_milliseconds(from_text(metadata["occurred_at"])),
            "EventLevel": told.level,
            "Description": told.description,
            "EventDetails": {
                "EventMetadata": {
                    "Instance": {"FailureMessage": told.failure, "NodeLogicalId": metadata.get("node") or ""}
                }
            },
        },
        "Faultbridge": _ours(metadata),
    }


def _ours(metadata: Body) -> dict[str, Any]:
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


def _name(text: str) -> str:
    """Make a name as SageMaker's: at most 63 letters, digits and inner hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:63].rstrip("-") or "cluster"
