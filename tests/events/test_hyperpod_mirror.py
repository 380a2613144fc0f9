"""Copies in HyperPod's format: their keys, the patterns that AWS documents, and typical consumers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from faultbridge.cli.commands.offline.events import matcher
from faultbridge.decode import registry
from faultbridge.model.events.hyperpod import CLUSTER_EVENT, NODE_HEALTH, MirroredEvent, StackLocation, mirror
from faultbridge.model.recorded import read_event
from faultbridge.record.publish import Publish
from tests.builders import STACK_ID
from tests.ingest.world import LedgerFixture
from tests.pages import case_event, event
from tests.sim.fakes import FakeBus

HOME = StackLocation("aws", "us-west-2", "111122223333")
ARN = HOME.cluster_arn("train-a")
PLACEMENT = {"placement": {"group": "gpu-workers", "instance_type": "p5.48xlarge", "domain": None}}


def step(name: str, outcome: str, **data: Any) -> dict[str, Any]:
    """Return the event of a repair step."""
    given = {
        "step": name,
        "outcome": outcome,
        "attempt": 1,
        "repair_action": "replace_node",
        "reason": None,
        "failure": None,
    }
    instances = {"old_instance": "i-0123456789abcdef0", "new_instance": None}
    return event("Node Replacement Step", 14, **(given | instances | data))


OPENED = case_event("open", 6, **PLACEMENT)
ESCALATED = case_event("escalated", 12, **PLACEMENT, **{"from": "in_progress"})
RESOLVED = case_event("resolved", 20, resolution="replaced", **PLACEMENT)
RELEASED_INSTANCE = step("release_instance", "released")
FAILED = step("verify", "failed", reason="gpu 3 failed the memory test", failure="VERIFY_FAILED")
MIRRORED_EVENTS = (
    OPENED,
    ESCALATED,
    RESOLVED,
    RELEASED_INSTANCE,
    FAILED,
    step("verify", "passed", new_instance="i-0fedcba9876543210"),
)


def envelopes(*bodies: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the copies of events as the bus delivers them."""
    return [envelope(copy) for body in bodies for copy in mirror(read_event(body), HOME)]


def envelope(copy: MirroredEvent, source: str = "faultbridge") -> dict[str, Any]:
    """Return a copy in an EventBridge envelope."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": copy.detail_type,
        "source": source,
        "account": HOME.account,
        "time": "2026-02-03T04:06:00Z",
        "region": HOME.region,
        "resources": list(copy.resources),
        "detail": json.loads(copy.detail),
    }


def shape(value: object) -> object:
    """Return the keys and types of a document in their order."""
    if isinstance(value, dict):
        return [(key, shape(one)) for key, one in value.items() if key != "Faultbridge"]
    return "text" if value is None or isinstance(value, str) else type(value).__name__


def documented(shared: Path, detail_type: str) -> dict[str, Any]:
    """Return the documented sample of a detail-type."""
    text = (shared / "reference" / "hyperpod.md").read_text(encoding="utf-8")
    samples = (
        json.loads(block) for block in re.findall(r"```json\n(\{.*?)```", text, re.DOTALL) if '"detail-type"' in block
    )
    return next(sample for sample in samples if sample["detail-type"] == detail_type)


def test_a_cluster_event_has_the_documented_keys_in_the_documented_nesting(shared: Path) -> None:
    (copy,) = (one for one in envelopes(OPENED) if one["detail-type"] == CLUSTER_EVENT)
    assert shape(copy) == shape(documented(shared, CLUSTER_EVENT))


def test_a_node_health_event_has_the_documented_keys_in_their_order(shared: Path) -> None:
    (copy,) = (one for one in envelopes(OPENED) if one["detail-type"] == NODE_HEALTH)
    expected = documented(shared, NODE_HEALTH)
    expected["detail"]["EventTime"] = 0  # null where it was captured; in milliseconds wherever a time is given
    assert shape(copy) == shape(expected)


@pytest.mark.parametrize("body", MIRRORED_EVENTS, ids=lambda one: one["data"].get("to") or one["data"]["outcome"])
def test_every_copy_has_the_fields_that_consumers_read(body: dict[str, Any]) -> None:
    copies = envelopes(body)
    assert copies
    for copy in copies:
        assert copy["detail-type"] in {NODE_HEALTH, CLUSTER_EVENT}
        (arn,) = copy["resources"]
        assert re.fullmatch(r"arn:aws:sagemaker:us-west-2:111122223333:cluster/[a-z0-9]{12}", arn)
        detail = copy["detail"]
        assert detail["Faultbridge"]["mirror"] is True
        record = detail.get("EventDetails", detail)
        assert isinstance(record["EventTime"], int)
        assert record["EventTime"] > 1_700_000_000_000
        assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", record["ClusterName"])
        assert record["ClusterArn"] == arn
        if copy["detail-type"] == NODE_HEALTH:
            assert detail["Tags"] == {}
            assert all(isinstance(text, str) for text in detail["HealthSummary"].values())
            assert detail["HealthSummary"]["HealthStatus"] in {"Healthy", "Unhealthy"}
            assert detail["HealthSummary"]["RepairAction"] in {"None", "Replace", "Reboot"}
        else:
            assert record["EventLevel"] in {"Info", "Warn", "Error"}
            assert str(uuid.UUID(record["EventId"])) == record["EventId"]


def test_a_copy_is_the_same_at_every_delivery() -> None:
    assert list(mirror(read_event(OPENED), HOME)) == list(mirror(read_event(OPENED), HOME))


def test_an_event_without_a_hyperpod_counterpart_has_no_copy() -> None:
    quiet = (
        event("Node Fault Detected", code="xid.79", severity="fatal"),
        event("Cluster Status Change", node=None, to="degraded"),
        case_event("queued", **{"from": "open"}),
        step("drain", "drained"),
        event("Case Status Change"),
    )
    assert envelopes(*quiet) == []


WIDENED = ["aws.sagemaker", "faultbridge"]
PATTERNS: dict[str, tuple[dict[str, Any], int]] = {
    "all cluster events": ({"detail-type": [CLUSTER_EVENT]}, 5),
    "errors": ({"detail-type": [CLUSTER_EVENT], "detail": {"EventDetails": {"EventLevel": ["Error"]}}}, 1),
    "one cluster": ({"resources": [ARN]}, 8),
    "node health": ({"detail-type": [NODE_HEALTH]}, 3),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_documented_pattern_matches_after_the_source_is_added(name: str) -> None:
    pattern, expected = PATTERNS[name]
    copies = envelopes(*MIRRORED_EVENTS)
    assert sum(map(matcher({"source": WIDENED, **pattern}), copies)) == expected
    assert sum(map(matcher({"source": ["aws.sagemaker"], **pattern}), copies)) == 0


def mailer(event: Mapping[str, Any]) -> str:
    """A mailer that reads fields by name and asserts the detail-types that it supports."""
    kind, detail = event["detail-type"], event["detail"]
    region = event["region"]
    if kind == NODE_HEALTH:
        summary = detail["HealthSummary"]
        words = [summary[key] for key in ("HealthStatus", "HealthStatusReason", "RepairAction", "Recommendation")]
        about = f"{detail['InstanceId']}: {', '.join(words)}"
        name = detail["ClusterName"]
    else:
        assert kind == CLUSTER_EVENT
        record = detail["EventDetails"]
        name = record["ClusterName"]
        at = record["EventTime"] / 1000
        fields = (record["ResourceType"], record["InstanceGroupName"], record["InstanceId"], record["Description"])
        about = f"{at} {' '.join(fields)}"
    console = f"https://{region}.console.aws.amazon.com/sagemaker/home?region={region}#/cluster-management/{name}"
    return f"{event['account']} {region} {about} {console}"


@pytest.mark.parametrize("body", [OPENED, ESCALATED, RESOLVED], ids=lambda one: one["data"]["to"])
def test_a_mailer_that_reads_fields_by_name_does_not_fail(body: dict[str, Any]) -> None:
    for copy in envelopes(body):
        assert "cluster-management/train-a" in mailer(copy)


def bridge(event: Mapping[str, Any], secret: bytes = b"secret") -> dict[str, Any] | None:
    """A bridge that drops informational events, strips texts without checking their types, and signs the result."""
    detail = event["detail"]
    record = detail.get("EventDetails", {})
    if record.get("EventLevel") == "Info" or "lost orchestration-ready status" in record.get("Description", ""):
        return None
    summary = detail.get("HealthSummary", {})
    reason = summary.get("HealthStatusReason", "").strip()
    status = summary.get("HealthStatus", "").lower()
    metadata = record.get("EventDetails", {}).get("EventMetadata", {})
    failures = [tree.get("FailureMessage", "").strip() for tree in metadata.values() if tree]
    body = {
        "eventType": "incident",
        "incidentId": record.get("EventId", event["id"]),
        "action": "created",
        "priority": "HIGH" if "unhealthy" in status or "degraded" in status else "MEDIUM",
        "title": record.get("Description") or reason,
        "description": "; ".join(failures),
        "timestamp": event["time"],
        "service": detail.get("ClusterName") or record["ClusterName"],
        "data": {"metadata": {"resources": event["resources"]}, "originalEvent": dict(event)},
    }
    signed = f"{event['time']}:{json.dumps(body)}".encode()
    assert base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest())
    return body


def test_a_bridge_that_signs_events_drops_informational_events_only() -> None:
    bridged = [bridge(copy) for copy in envelopes(*MIRRORED_EVENTS)]
    assert bridged.count(None) == 2
    assert [one["priority"] for one in bridged if one][:2] == ["HIGH", "MEDIUM"]
    assert any(one and "gpu 3 failed the memory test" in one["description"] for one in bridged)


def test_a_copy_is_not_ingested_as_a_fault() -> None:
    for copy in envelopes(*MIRRORED_EVENTS):
        assert registry.decode("hyperpod-event", json.dumps(copy).encode()) == ()


def entries(mirrored: frozenset[str]) -> FakeBus:
    """Return a bus on which the events of a real case were published."""
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"))
    bus = FakeBus()
    found = [record.new for record in world.table.stream if record.new and record.key.sk.startswith("ENTRY#")]
    Publish(world.table, bus, STACK_ID, mirrored).publish(found)
    return bus


def test_only_listed_clusters_are_mirrored() -> None:
    plain, other, copied = entries(frozenset()), entries(frozenset({"other"})), entries(frozenset({"train-a"}))
    assert [one.detail_type for one in plain.accepted] == [one.detail_type for one in other.accepted]
    assert not any(one.detail_type.startswith("SageMaker") for one in plain.accepted)
    copies = [one.detail_type for one in copied.accepted if one.detail_type.startswith("SageMaker")]
    assert copies == [NODE_HEALTH, CLUSTER_EVENT]


def test_account_and_region_come_from_the_stack_arn() -> None:
    stack = "arn:aws-cn:cloudformation:cn-north-1:111122223333:stack/faultbridge/1"
    assert StackLocation.of(stack).cluster_arn("a").startswith("arn:aws-cn:sagemaker:cn-north-1:111122223333:cluster/")
    assert StackLocation.of("no arn") == StackLocation("aws", "", "")


def test_an_invalid_sagemaker_name_is_made_valid() -> None:
    odd = case_event("open", 6, **PLACEMENT)
    odd["metadata"]["cluster"] = "-Trains_of the lab-" + "x" * 80
    for copy in envelopes(odd):
        record = copy["detail"].get("EventDetails", copy["detail"])
        assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", record["ClusterName"])
