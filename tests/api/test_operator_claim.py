"""The claim that permits a token to operate a cluster: without it, a token reads and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage.writes import Put
from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.api.requests import OPERATOR_CLAIM
from faultbridge.serve.api.routes import ROUTES, Route
from faultbridge.serve.orders import ORDERS
from faultbridge.serve.wiring.services import wire_registration
from tests.api.builders import ANSWER, N2, RACK, START, case_of, finding, incident_of, lose_links, waiting
from tests.api.gateway import Gateway
from tests.world import World

C = "/clusters/train-a"
WRITES = [route for route in ROUTES if route.method not in {"GET", "HEAD"}]
BODIES: dict[str, dict[str, Any]] = {
    **{kind.operation: {} for kind in ORDERS.values()},
    "approveCase": ANSWER,
    "denyCase": ANSWER,
    "resumeRepairs": {"force": True},
    "addSilence": {"reason": "cable work", "until": "2026-02-05T00:00:00Z"},
    "markFinding": {"mark": "right"},
    "reportJob": START,
}


@pytest.fixture(scope="module")
def unchanged() -> Gateway:
    """Return a cluster that the tests only read."""
    return cluster_with_something_to_change()


@pytest.fixture
def gateway() -> Gateway:
    return cluster_with_something_to_change()


def cluster_with_something_to_change() -> Gateway:
    """Return a cluster with a case that waits for approval, an open incident and a finding."""
    made = Gateway(World(nodes=("n-1", "n-2", *RACK, *(f"other-{number}" for number in range(24)))))
    world = made.world
    wire_registration(world.app).add_cluster(ClusterConfig("secret-b"))
    waiting(made)
    lose_links(made)
    world.ports.table.write(Put(stored.finding_item(finding(world), world.now)))
    for path, body in (
        ("/nodes/n-1/quarantine", {}),
        (f"/nodes/{RACK[0]}/quarantine", {}),
        ("/pause", {}),
        ("/silences", BODIES["addSilence"]),
    ):
        assert made.post(f"{C}{path}", body, person="ada").status == 200
    return made


def path_of(route: Route, gateway: Gateway) -> str:
    """Return the path of a route, with the case, incident or finding that the route can change."""
    (listed,) = gateway.get(f"{C}/findings").json["items"]
    (silence,) = gateway.get(f"{C}/silences").json["items"]
    ids = {"case": case_of(gateway, N2), "incident": incident_of(gateway), "finding": listed["finding_id"]}
    node = "n-1" if route.name == "returnNode" else "n-2"
    return route.path.format(cluster="train-a", node=node, domain="r-7", silence=silence["id"], **ids)


def body_of(route: Route, gateway: Gateway) -> dict[str, Any]:
    if route.name == "replaceNode":
        return {"instance": gateway.get(f"{C}/nodes/n-2").json["instance_id"]}
    return BODIES[route.name]


@pytest.mark.parametrize("readable", [("train-a",), ("*",)], ids=["one cluster", "all clusters"])
@pytest.mark.parametrize("operated", [(), ("secret-b",), ("train",)], ids=["no claim", "other", "prefix"])
@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
def test_a_token_that_may_only_read_a_cluster_changes_nothing(
    unchanged: Gateway, route: Route, readable: Iterable[str], operated: Iterable[str]
) -> None:
    path, table = path_of(route, unchanged), unchanged.world.ports.table
    before = len(table.stream)
    answer = unchanged.post(path, body_of(route, unchanged), operated=operated, clusters=readable)
    assert (answer.status, answer.media_type, answer.json["type"]) == (403, MEDIA_TYPE, "urn:faultbridge:forbidden")
    assert OPERATOR_CLAIM in answer.json["detail"]
    assert len(table.stream) == before
    assert unchanged.get(C, clusters=readable).status == 200


@pytest.mark.parametrize("operated", [("train-a",), ("*",)], ids=["one cluster", "all clusters"])
@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
def test_an_operator_of_a_cluster_changes_and_reads_it_without_the_claim_of_a_reader(
    gateway: Gateway, route: Route, operated: Iterable[str]
) -> None:
    table, path = gateway.world.ports.table, path_of(route, gateway)
    before = len(table.stream)
    assert gateway.post(path, body_of(route, gateway), operated=operated, clusters=()).status == 200
    assert len(table.stream) > before
    assert gateway.send("GET", C, clusters=(), operated=operated).status == 200


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
def test_an_iam_caller_needs_no_claim(gateway: Gateway, route: Route) -> None:
    assert gateway.post(path_of(route, gateway), body_of(route, gateway), clusters=None).status == 200


def test_a_token_for_another_cluster_gets_the_same_answer_whether_or_not_a_cluster_exists(unchanged: Gateway) -> None:
    answers = [
        unchanged.post(f"/clusters/{name}/jobs", START, operated=("secret-b",)) for name in ("train-a", "no-such")
    ]
    assert [one.status for one in answers] == [403, 403]
    assert answers[0].text == answers[1].text


def test_a_refused_change_is_logged_with_its_caller_cluster_and_claim(
    unchanged: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    unchanged.post(f"{C}/jobs", START, operated=(), clusters=("train-a",))
    (line,) = (vars(record) for record in caplog.records if record.message == "change refused")
    assert (line["levelno"], line["caller"], line["cluster"]) == (logging.WARNING, "an-operator", "train-a")
    assert OPERATOR_CLAIM in line["reason"]
