"""Closing an incident over HTTP: what it records, what it refuses, and what its role may write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.storage import items
from faultbridge.model.storage.writes import Put, Update
from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_registration
from infra.docs.api_models import models
from tests.api.builders import RACK, C, incident_of, lose_links
from tests.api.gateway import Gateway
from tests.architecture.roles import statements
from tests.world import World


@pytest.fixture
def gateway() -> Gateway:
    """Return a cluster in which eight nodes of one rack lost their links."""
    made = Gateway(World(nodes=(*RACK, *(f"other-{number}" for number in range(24)))))
    lose_links(made)
    return made


def test_a_closed_incident_names_its_operator_and_releases_its_cases(gateway: Gateway) -> None:
    incident = incident_of(gateway)
    held = gateway.get(f"{C}/incidents/{incident}").json["held_cases"]
    assert set(held) == set(RACK)
    closed = gateway.post(f"{C}/incidents/{incident}/close", {"reason": "not the switch"})
    models()["Incidents"].model_validate({"items": [closed.json]})
    assert (closed.status, closed.json["status"]) == (200, "closed")
    assert (closed.json["operator"], closed.json["reason"]) == (
        "an-operator",
        "closed by an operator: not the switch",
    )
    wire_sweep(gateway.world.app).run()
    assert "absorbed" not in {one["status"] for one in gateway.get(f"{C}/cases").json["items"]}
    entries = gateway.get(f"{C}/entries", type="Cluster Incident Change").json["items"]
    assert [(one["data"]["change"], one["data"]["operator"]) for one in entries] == [
        ("opened", None),
        ("closed", "an-operator"),
    ]


def test_a_body_is_optional(gateway: Gateway) -> None:
    assert gateway.post(f"{C}/incidents/{incident_of(gateway)}/close", "").json["status"] == "closed"


def test_a_closed_or_unknown_incident_cannot_be_closed(gateway: Gateway) -> None:
    incident = incident_of(gateway)
    assert gateway.post(f"{C}/incidents/{incident}/close", {}).status == 200
    again = gateway.post(f"{C}/incidents/{incident}/close", {})
    assert (again.status, again.media_type, again.json["type"]) == (409, MEDIA_TYPE, "urn:faultbridge:incident_over")
    for path in (f"{C}/incidents/inc-aaaaaaaaaaaaaaaa", f"{C}/incidents/x"):
        assert gateway.post(f"{path}/close", {}).status == gateway.get(path).status == 404


def test_an_incident_is_closed_only_through_its_own_cluster_and_only_by_callers_that_may_see_it(
    gateway: Gateway,
) -> None:
    wire_registration(gateway.world.app).add_cluster(ClusterConfig("secret-b"))
    incident = incident_of(gateway)
    assert gateway.post(f"/clusters/secret-b/incidents/{incident}/close", {}).status == 404
    assert gateway.post(f"{C}/incidents/{incident}/close", {}, operated=("secret-b",)).status == 403
    assert gateway.get(f"{C}/incidents/{incident}").json["status"] == "open"


@pytest.mark.parametrize("body", ["[]", "{", '{"attempt": 1}', '{"reason": 1}', '{"reason": "' + "x" * 257 + '"}'])
def test_an_invalid_body_is_refused(gateway: Gateway, body: str) -> None:
    incident = incident_of(gateway)
    answer = gateway.post(f"{C}/incidents/{incident}/close", body)
    assert (answer.status, answer.json["type"]) == (400, "urn:faultbridge:bad_body")
    assert gateway.get(f"{C}/incidents/{incident}").json["status"] == "open"


def written(gateway: Gateway) -> set[tuple[str, str]]:
    """Return (action, attribute) of every write of the calls to the table so far."""
    found: set[tuple[str, str]] = set()
    for call in gateway.world.ports.seam.named("table.transact"):
        for write in call.argument:
            match write:
                case Put():
                    found |= {("dynamodb:PutItem", name) for name in write.item}
                case Update():
                    paths = (*write.set, *write.remove, *((name,) for name in write.add))
                    found |= {("dynamodb:UpdateItem", path[0]) for path in (*paths, ("pk",), ("sk",))}
                case _:
                    pytest.fail(f"another kind of write: {write}")
    return found


def test_the_role_permits_exactly_the_attributes_that_closing_writes_and_no_registration(gateway: Gateway) -> None:
    incident = incident_of(gateway)
    gateway.world.ports.seam.calls.clear()
    gateway.post(f"{C}/incidents/{incident}/close", {})
    needed = written(gateway)
    (grant,) = [one for one in statements("TimelineRole") if one["Sid"] == "Incidents"]
    condition: dict[str, Any] = grant["Condition"]["ForAllValues:StringLike"]
    allowed = set(condition["dynamodb:Attributes"])
    assert {action for action, _ in needed} == set(grant["Action"])
    assert {attribute for _, attribute in needed} <= allowed
    registration = items.config_item(gateway.world.config, gateway.world.now)
    assert set(registration) - allowed == {"config"}
    assert json.dumps(condition["dynamodb:LeadingKeys"]) == '["CLUSTER#*"]'
