"""Attacks on orders over HTTP: replays, stale fences, keys of others, wrong cases and hostile bodies change nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import CaseStatus
from faultbridge.model.storage import keys
from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.api.routes import Route
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.orders import ORDERS
from faultbridge.serve.wiring.services import wire_registration
from tests.api.builders import (
    ANSWER,
    N2,
    WRITES,
    C,
    body_of,
    case_of,
    cluster_with_something_to_change,
    path_of,
)
from tests.api.gateway import Gateway, Response
from tests.builders import KEY
from tests.cli.desk import Desk

ORDER_ROUTES = [route for route in WRITES if route.name in {kind.operation for kind in ORDERS.values()}]
N1_PATH, N2_PATH = f"{C}/nodes/n-1", f"{C}/nodes/n-2"


@pytest.fixture
def gateway() -> Gateway:
    return cluster_with_something_to_change()


@pytest.fixture(scope="module")
def unchanged() -> Gateway:
    """Return a cluster that the tests only attack."""
    return cluster_with_something_to_change()


def check_refused(gateway: Gateway, answer: Response, status: int, reason: str, before: int) -> None:
    """Assert that a request was refused with a short problem document, and that it wrote nothing."""
    assert (answer.status, answer.media_type) == (status, MEDIA_TYPE), answer.text[:300]
    assert answer.json["type"] == f"urn:faultbridge:{reason}"
    assert len(answer.text) < 1_000
    assert len(gateway.world.ports.table.stream) == before


def size_of(gateway: Gateway) -> int:
    return len(gateway.world.ports.table.stream)


def other_body(route: Route, body: dict[str, Any]) -> dict[str, Any]:
    """Return another body for an order."""
    assert route.body is not None
    return {**body, "reason" if "reason" in route.body.__struct_fields__ else "note": "another reason"}


@pytest.mark.parametrize("route", ORDER_ROUTES, ids=lambda route: route.name)
def test_a_replay_under_a_key_changes_nothing_and_another_order_under_it_is_refused(
    gateway: Gateway, route: Route
) -> None:
    path, body = path_of(route, gateway), body_of(route, gateway)
    assert gateway.post(path, body, key="k-1").status == 200
    after = size_of(gateway)
    gateway.world.ports.clock.advance(timedelta(hours=1))
    assert gateway.post(path, body, key="k-1").status == 200
    assert size_of(gateway) == after
    check_refused(gateway, gateway.post(path, other_body(route, body), key="k-1"), 422, "key_reused", after)


def test_a_key_of_one_target_is_refused_for_another_target_and_another_order(gateway: Gateway) -> None:
    assert gateway.post(f"{C}/domains/r-7/maintain", {}, key="k-1").status == 200
    before = size_of(gateway)
    for path in (f"{C}/domains/r-7/return", f"{N2_PATH}/quarantine", f"{N2_PATH}/cordon", f"{C}/pause"):
        check_refused(gateway, gateway.post(path, {}, key="k-1"), 422, "key_reused", before)


@pytest.mark.parametrize("key", ["k-1", "k-1 ", "K-1"])
def test_the_key_of_another_person_reveals_nothing_and_stops_nothing(gateway: Gateway, key: str) -> None:
    path = f"{C}/cases/{case_of(gateway, N2)}/ack"
    gateway.post(path, {"note": "mine"}, key="k-1", person="ada")
    answer = gateway.post(path, {"note": "my own"}, key=key, person="eve")
    assert (answer.status, answer.json["owner"], answer.json["owner_note"]) == (200, "eve", "my own")


def test_a_person_whose_name_contains_the_key_of_another_has_keys_of_their_own(gateway: Gateway) -> None:
    path = f"{C}/pause"
    assert gateway.post(path, {"reason": "a"}, key="k-1", person="ada").status == 200
    assert gateway.post(path, {"reason": "b"}, key="1", person="ada\nk-").status == 200
    assert gateway.post(path, {"reason": "c"}, key="k-1", person="ada\n").status == 200


def test_a_refused_order_does_not_use_its_key(gateway: Gateway) -> None:
    before = size_of(gateway)
    wrong = gateway.post(f"{N2_PATH}/replace", {"instance": "i-0another"}, key="k-1")
    check_refused(gateway, wrong, 409, "instance_changed", before)
    instance = gateway.get(N2_PATH).json["instance_id"]
    assert gateway.post(f"{N2_PATH}/replace", {"instance": instance}, key="k-1").status == 200


def stale_orders(gateway: Gateway) -> list[tuple[str, dict[str, Any], str]]:
    """Return orders about what was true earlier, each with the reason of its refusal."""
    waiting, quarantined = case_of(gateway, N2), case_of(gateway)
    of_waiting = f"{C}/cases/{waiting}"
    return [
        (f"{of_waiting}/approve", {**ANSWER, "attempt": 2}, "not_asked"),
        (f"{of_waiting}/approve", {**ANSWER, "attempt": 9999}, "not_asked"),
        (f"{of_waiting}/approve", {**ANSWER, "repair_action": "reboot_node"}, "not_asked"),
        (f"{of_waiting}/deny", {**ANSWER, "attempt": 2}, "not_asked"),
        (f"{C}/cases/{quarantined}/approve", ANSWER, "not_asked"),
        (f"{N2_PATH}/replace", {"instance": "i-00000000000000099"}, "instance_changed"),
    ]


def test_an_order_about_what_is_no_longer_true_is_refused(gateway: Gateway) -> None:
    for path, body, reason in stale_orders(gateway):
        check_refused(gateway, gateway.post(path, body), 409, reason, size_of(gateway))
    case = case_of(gateway, N2)
    assert gateway.post(f"{C}/cases/{case}/deny", ANSWER).status == 200
    before = size_of(gateway)
    check_refused(gateway, gateway.post(f"{C}/cases/{case}/approve", ANSWER), 409, "answered", before)


def test_no_order_is_taken_for_a_case_that_is_over() -> None:
    gateway = Gateway()
    wire_ingest(gateway.world.app).ingest([gateway.world.message(node="n-1")])
    case = case_of(gateway)
    assert gateway.post(f"{C}/cases/{case}/cancel", {}).json["status"] == CaseStatus.RESOLVED
    before = size_of(gateway)
    for verb, body in (("cancel", {}), ("ack", {}), ("approve", ANSWER), ("deny", ANSWER)):
        answer = gateway.post(f"{C}/cases/{case}/{verb}", body)
        assert (answer.status, size_of(gateway)) == (409, before), (verb, answer.text)


def test_a_case_of_another_cluster_is_unknown_to_the_operator_of_this_one(gateway: Gateway) -> None:
    wire_registration(gateway.world.app).add_cluster(ClusterConfig("train-b"))
    case = case_of(gateway, N2)
    before = size_of(gateway)
    for verb, body in (("ack", {}), ("approve", ANSWER), ("deny", ANSWER), ("cancel", {})):
        for given in (case, case.upper(), f"{case}x", "c-" + "a" * 26, "..", "-"):
            answer = gateway.post(f"/clusters/train-b/cases/{given}/{verb}", body, operated=("train-b",))
            check_refused(gateway, answer, 404, "unknown_case", before)
    answers = [gateway.post(f"/clusters/train-b/cases/{one}/ack", {}) for one in (case, "c-" + "a" * 26)]
    assert answers[0].text.replace(case, "") == answers[1].text.replace("c-" + "a" * 26, "")


@pytest.mark.parametrize("operated", [("train-*",), ("train-a*",), ("TRAIN-A",), ("?",), ("train-a:x",), ("[*]",)])
def test_a_claim_that_only_resembles_the_cluster_permits_no_order(
    unchanged: Gateway, operated: tuple[str, ...]
) -> None:
    before = size_of(unchanged)
    answer = unchanged.post(f"{N2_PATH}/quarantine", {}, operated=operated, clusters=("train-a",))
    check_refused(unchanged, answer, 403, "forbidden", before)


BODIES = [
    "[]",
    '"a"',
    "null",
    "\x00",
    "\ufeff{}",
    "{" * 3_000,
    "[" * 4_000,
    "9" * 4_000,
    '{"reason": "a"} {}',
    '{"reason": "a", "reason": "b"}',
    '{"reason": null}',
    '{"reason": {"$gt": ""}}',
    '{"reason": NaN}',
    '{"reason": 1e999}',
    '{"reason": "\\ud800"}',
    '{"reason": "\\u202ereversed"}',
    '{"reason": "\\u001b[2J"}',
    '{"reason": "two\\nlines"}',
    '{"Reason": "a"}',
    '{"reason": "a", "operator": "ada"}',
    '{"__proto__": {}}',
    '{"reason": "' + "a" * 257 + '"}',
    '{"reason": "' + "a" * 100_000 + '"}',
]


@pytest.mark.parametrize("path", [f"{N2_PATH}/quarantine", f"{C}/pause", f"{C}/domains/r-7/maintain"])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_hostile_body_is_refused_before_anything_is_written(unchanged: Gateway, path: str, body: str) -> None:
    before = size_of(unchanged)
    check_refused(unchanged, unchanged.post(path, body, key="k-1"), 400, "bad_body", before)


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b"\xc3\x28", b'{"reason": "\xed\xa0\x80"}'])
def test_a_body_that_is_no_text_is_refused(unchanged: Gateway, body: bytes) -> None:
    before = size_of(unchanged)
    check_refused(unchanged, unchanged.send("POST", f"{C}/pause", body=body), 400, "bad_body", before)


TIMES = ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2200-01-01T00:00:00Z", "2026-02-30T00:00:00Z"]


@pytest.mark.parametrize("time", [*TIMES, "2026-02-04T00:00:00", "tomorrow", 5, True])
def test_a_time_that_cannot_be_is_refused(unchanged: Gateway, time: object) -> None:
    before = size_of(unchanged)
    for path, body in (
        ("pause", {"until": time}),
        ("silences", {"reason": "x", "until": time}),
        ("silences", {"reason": "x", "until": "2026-02-04T00:00:00Z", "since": time}),
    ):
        check_refused(unchanged, unchanged.post(f"{C}/{path}", body), 400, "bad_body", before)


@pytest.mark.parametrize("key", ["", "a" * 257, "a\nb", "\x7f", "\u00e9"])
def test_a_key_that_is_no_printable_text_is_refused(unchanged: Gateway, key: str) -> None:
    before = size_of(unchanged)
    check_refused(unchanged, unchanged.post(f"{C}/pause", {}, key=key), 400, "bad_key", before)


def test_a_key_does_not_stand_in_the_table_in_clear_text(gateway: Gateway) -> None:
    gateway.post(f"{C}/pause", {"reason": "x"}, key="a-secret-key")
    gateway.post(f"{C}/domains/r-7/maintain", {}, key="a-secret-key-2")
    rows = [row for row in gateway.world.ports.table.items() if str(row["pk"]).startswith(keys.order("").pk)]
    assert rows
    assert "a-secret-key" not in str(list(gateway.world.ports.table.items()))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Desk:
    return Desk(monkeypatch, capfdbinary)


def test_a_refusal_over_http_has_the_reason_of_the_command_line(desk: Desk) -> None:
    gateway = Gateway(desk.world)
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    case, unknown = case_of(gateway, KEY), "c-" + "a" * 26
    answer = ["--attempt", "1", "--repair-action", "replace_node"]
    pairs: list[tuple[list[str], str, dict[str, Any]]] = [
        (["case", "approve", case, *answer], f"cases/{case}/approve", ANSWER),
        (["case", "deny", case, *answer], f"cases/{case}/deny", ANSWER),
        (["case", "cancel", unknown], f"cases/{unknown}/cancel", {}),
        (["node", "return", KEY.node, "--cluster", "train-a"], f"nodes/{KEY.node}/return", {}),
        (["node", "quarantine", "n-9", "--cluster", "train-a"], "nodes/n-9/quarantine", {}),
        (["incident", "close", "inc-" + "a" * 16], f"incidents/inc-{'a' * 16}/close", {}),
    ]
    for command, path, body in pairs:
        before = size_of(gateway)
        refused = gateway.post(f"{C}/{path}", body)
        assert refused.status in {404, 409}, refused.text
        ran = desk(*command)
        assert ran.code != 0, command
        detail = refused.json["detail"].split(" in cluster ")[0].split(";")[0]
        assert detail in ran.err, (command, ran.err, refused.text)
        assert size_of(gateway) == before
