"""The claim that permits a token to operate a cluster: without it, a token reads and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.api.requests import OPERATOR_CLAIM
from faultbridge.serve.api.routes import Route
from tests.api.builders import START, WRITES, C, body_of, cluster_with_something_to_change, path_of
from tests.api.gateway import Gateway


@pytest.fixture(scope="module")
def unchanged() -> Gateway:
    """Return a cluster that the tests only read."""
    return cluster_with_something_to_change()


@pytest.fixture
def gateway() -> Gateway:
    return cluster_with_something_to_change()


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
