"""Devices and findings over HTTP: history, repeat offenders, and marks, each within one cluster."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.wiring.services import wire_registration
from infra.docs.api_models import models
from tests.api.builders import finding
from tests.api.gateway import Gateway
from tests.architecture.roles import statements
from tests.cli.builders import CARD, UUID
from tests.world import XID_79, World

C = "/clusters/train-a"


@pytest.fixture
def gateway() -> Gateway:
    """Return two clusters; the same card fell off the bus in a node of each, and a node of the first has a finding."""
    made = Gateway(World(nodes=("n-1", "n-2")))
    world = made.world
    registration = wire_registration(world.app)
    registration.add_cluster(ClusterConfig("secret-b"))
    registration.add_node("secret-b", NewNode("b-1", world.ports.fleet.launch("others")))
    for cluster, node in (("train-a", "n-1"), ("secret-b", "b-1"), ("train-a", "n-2")):
        world.ports.clock.advance(timedelta(minutes=5))
        for text, source in ((CARD, "nvidia-smi-xml"), (XID_79, "kernel-log")):
            wire_ingest(world.app).ingest([world.message(text, source=source, cluster=cluster, node=node)])
    world.ports.table.write(Put(stored.finding_item(finding(world), world.now)))
    return made


def items(gateway: Gateway, path: str, model: str, **query: Any) -> list[dict[str, Any]]:
    answer = gateway.get(path, **query)
    assert answer.status == 200, answer.text
    models()[model].model_validate_json(answer.text)
    found: list[dict[str, Any]] = answer.json["items"]
    return found


@pytest.mark.parametrize("device", ["1653", UUID])
def test_the_history_of_a_device_contains_only_the_cluster_of_the_path(gateway: Gateway, device: str) -> None:
    lines = items(gateway, f"{C}/devices/{device}/history", "DeviceEvents")
    assert [(one["node"], one["kind"]) for one in lines] == [
        (node, kind) for node in ("n-1", "n-2") for kind in ("seen", "fault", "case")
    ]
    assert "secret-b" not in json.dumps(lines)


def test_a_device_that_no_source_of_the_cluster_reported_is_unknown(gateway: Gateway) -> None:
    wire_registration(gateway.world.app).add_cluster(ClusterConfig("empty"))
    for path in (f"{C}/devices/4711/history", "/clusters/empty/devices/1653/history"):
        answer = gateway.get(path)
        assert (answer.status, answer.json["type"]) == (404, "urn:faultbridge:unknown_device")


def test_a_card_that_failed_in_two_slots_is_an_offender(gateway: Gateway) -> None:
    found = items(gateway, f"{C}/offenders", "Offenders")
    assert {(one["device"], one["favors"], one["card"]["faulty"]) for one in found} == {("1653", "card", 1)}
    assert items(gateway, f"{C}/offenders", "Offenders", since="2100-01-01T00:00:00Z") == []


def test_a_finding_is_listed_shown_and_marked_by_its_caller(gateway: Gateway) -> None:
    (listed,) = items(gateway, f"{C}/findings", "Findings")
    path = f"{C}/findings/{listed['finding_id']}"
    assert gateway.get(path).json == listed
    before = gateway.world.node()
    marked = gateway.post(f"{path}/mark", {"mark": "wrong", "reason": "test load"})
    models()["Finding"].model_validate_json(marked.text)
    own = (marked.json["mark"], marked.json["marked_by"], marked.json["reason"])
    assert (marked.status, *own) == (200, "wrong", "an-operator", "test load")
    assert gateway.post(f"{path}/mark", {"mark": "right"}).json == gateway.get(path).json
    assert (gateway.world.node().case, gateway.world.node().status) == (before.case, before.status)


@pytest.mark.parametrize("body", ["[]", "{}", '{"mark": "maybe"}', '{"mark": ["right"]}', '{"mark": "right", "x": 1}'])
def test_an_invalid_mark_is_refused_and_changes_nothing(gateway: Gateway, body: str) -> None:
    (listed,) = items(gateway, f"{C}/findings", "Findings")
    answer = gateway.post(f"{C}/findings/{listed['finding_id']}/mark", body)
    assert (answer.status, answer.json["type"]) == (400, "urn:faultbridge:bad_body")
    assert items(gateway, f"{C}/findings", "Findings") == [listed]


def test_a_finding_is_reached_only_through_its_own_cluster_and_by_callers_that_may_see_it(gateway: Gateway) -> None:
    (listed,) = items(gateway, f"{C}/findings", "Findings")
    mark = f"findings/{listed['finding_id']}/mark"
    assert gateway.post(f"/clusters/secret-b/{mark}", {"mark": "right"}).status == 404
    assert gateway.post(f"{C}/{mark}", {"mark": "right"}, operated=("secret-b",)).status == 403
    assert gateway.get(f"{C}/findings/f-aaaaaaaaaaaaaaaa").status == gateway.get(f"{C}/findings/x").status == 404
    assert items(gateway, f"{C}/findings", "Findings") == [listed]


def test_ended_findings_are_listed_only_on_request(gateway: Gateway) -> None:
    world = gateway.world
    (listed,) = items(gateway, f"{C}/findings", "Findings")
    row = world.ports.table.get(stored.finding_key("train-a", listed["finding_id"]))
    assert row is not None
    one = stored.read_finding(row)
    ended = replace(one, ended_at=world.now)
    world.ports.table.write(Put(stored.finding_item(ended, world.now)))
    assert items(gateway, f"{C}/findings", "Findings") == []
    assert [one["finding_id"] for one in items(gateway, f"{C}/findings", "Findings", ended="true")] == [ended.id]
    assert gateway.get(f"{C}/findings", ended="yes").status == 400


def test_the_role_permits_the_attributes_that_a_mark_writes(gateway: Gateway) -> None:
    (listed,) = items(gateway, f"{C}/findings", "Findings")
    gateway.world.ports.seam.calls.clear()
    gateway.post(f"{C}/findings/{listed['finding_id']}/mark", {"mark": "right"})
    own = {
        (f"dynamodb:{type(write).__name__}Item", name)
        for call in gateway.world.ports.seam.named("table.transact")
        for write in call.argument
        if isinstance(write, Put) and write.item["pk"] == "CLUSTER#train-a"
        for name in write.item
    }
    (grant,) = [one for one in statements("TimelineRole") if one["Sid"] == "Incidents"]
    allowed = set(grant["Condition"]["ForAllValues:StringLike"]["dynamodb:Attributes"])
    assert {name for _, name in own} <= allowed
    assert ("dynamodb:PutItem", "finding") in own
