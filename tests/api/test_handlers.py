"""Responses of the API, and the requests that it refuses."""

from __future__ import annotations

import base64
import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, Isolation
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.nodes import NodeKey
from faultbridge.model.values import replace
from faultbridge.record.timeline import Tokens
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.api import routes
from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_cluster_status, wire_registration
from infra.docs.api_models import models
from tests.api.builders import ANSWER, case_of, waiting
from tests.api.gateway import Gateway, Response
from tests.sim.fakes import Call

C = "/clusters/train-a"


@pytest.fixture
def gateway() -> Gateway:
    """Return two clusters; the first has a node with a fatal fault and a case."""
    made = Gateway()
    app = made.world.app
    wire_registration(app).add_cluster(ClusterConfig("secret-b"))
    wire_registration(app).add_node("secret-b", NewNode("b-1", "i-0bbbbbbbbbbbbbbb1"))
    wire_ingest(app).ingest([made.world.message(node="n-1")])
    wire_cluster_status(app).update("train-a")
    return made


def refused(response: Response, status: int, reason: str) -> None:
    assert (response.status, response.media_type) == (status, MEDIA_TYPE), response.text
    assert response.json["type"] == f"urn:faultbridge:{reason}"
    models()["Problem"].model_validate_json(response.text)
    assert "secret-b" not in response.text
    assert "Traceback" not in response.text


PATH_BY_MODEL = {
    "Clusters": "/clusters",
    "Cluster": C,
    "Nodes": f"{C}/nodes",
    "ShownNode": f"{C}/nodes/n-1",
    "Preflight": f"{C}/nodes/n-1/preflight",
    "Cases": f"{C}/cases",
    "Incidents": f"{C}/incidents",
    "Entries": f"{C}/entries",
    "Stream": f"{C}/streams/n-1/entries",
    "StreamVerification": f"{C}/streams/-/verify",
    "Rejects": f"{C}/rejects",
}


@pytest.mark.parametrize("model", PATH_BY_MODEL)
def test_a_response_matches_its_model(gateway: Gateway, model: str) -> None:
    wire_ingest(gateway.world.app).ingest([gateway.world.message("unknown content", node="n-1")])
    answer = gateway.get(PATH_BY_MODEL[model])
    assert answer.status == 200, answer.text
    models()[model].model_validate_json(answer.text)
    assert answer.json.get("items", ["one"]) or model in {"Rejects", "Incidents"}


def test_a_case_contains_its_phases(gateway: Gateway) -> None:
    answer = gateway.get(f"{C}/cases/{case_of(gateway)}")
    models()["ShownCase"].model_validate_json(answer.text)
    assert answer.json["node"] == "n-1"


def test_entries_are_paged_and_returned_once(gateway: Gateway) -> None:
    whole = [one["hash"] for one in gateway.get(f"{C}/entries").json["items"]]
    read, token = [], None
    while True:
        answer = gateway.get(f"{C}/entries", limit=2, **({"token": token} if token else {}))
        read += [one["hash"] for one in answer.json["items"]]
        token = answer.json["next"]
        if token is None:
            break
    assert read == whole
    assert len(whole) > 4


def test_work_may_start_on_a_node_exactly_while_nothing_keeps_new_work_off_it(gateway: Gateway) -> None:
    append, key = gateway.world.app.append, NodeKey("train-a", "n-1")

    def ask(**changes: Any) -> dict[str, Any]:
        append(key, lambda state, _: Transition(replace(state, **changes)), actor=Actor.ISOLATE)
        found: dict[str, Any] = gateway.get(f"{C}/nodes/n-1/preflight").json
        return found

    served = ask(isolation=Isolation.NONE)
    assert (served["serves"], served["reason"]) == (True, "")
    assert not ask(isolation=Isolation.REQUESTED)["serves"]
    refused = ask(isolation=Isolation.CONFIRMED)
    assert not refused["serves"]
    assert "isolation confirmed, case c-" in refused["reason"]


def test_nodes_are_paged(gateway: Gateway) -> None:
    first = gateway.get(f"{C}/nodes", limit=1).json
    second = gateway.get(f"{C}/nodes", limit=1, token=first["next"]).json
    assert [one["node"] for one in (*first["items"], *second["items"])] == ["n-1", "n-2"]
    assert second["next"] is None


def test_the_sequences_of_a_stream_have_no_gap(gateway: Gateway) -> None:
    whole = gateway.get(f"{C}/streams/n-1/entries").json
    numbers = [one["metadata"]["sequence"] for one in whole["items"]]
    assert numbers == list(range(1, whole["last"] + 1))
    rest = gateway.get(f"{C}/streams/n-1/entries", after=2, limit=1).json
    assert [one["metadata"]["sequence"] for one in rest["items"]] == [3]
    own = gateway.get(f"{C}/streams/-/entries").json
    assert [one["metadata"]["node"] for one in own["items"]] == [None]


def test_a_stream_with_more_entries_than_the_limit_is_not_verified(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = gateway.get(f"{C}/streams/n-1/entries").json["last"]
    monkeypatch.setattr(routes, "MAX_VERIFIED_ENTRIES", last)
    assert gateway.get(f"{C}/streams/n-1/verify").json["whole"] is True
    monkeypatch.setattr(routes, "MAX_VERIFIED_ENTRIES", last - 1)
    refused(gateway.get(f"{C}/streams/n-1/verify"), 422, "too_long")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"code": "xid.79"}, True),
        ({"code": "xid.48"}, False),
        ({"severity": "fatal"}, True),
        ({"type": ["Case Status Change", "Node Fault Detected"]}, True),
        ({"since": "2027-01-01T00:00:00Z"}, False),
        ({"job": "4711"}, False),
        ({"device": "1320923"}, False),
    ],
)
def test_filters_select_matching_entries(gateway: Gateway, given: dict[str, Any], kept: bool) -> None:
    answer = gateway.get(f"{C}/entries", **given)
    assert answer.status == 200, answer.text
    assert bool(answer.json["items"]) is kept


def test_a_job_filters_the_entries_of_a_case(gateway: Gateway) -> None:
    case = case_of(gateway)
    assert gateway.get(f"{C}/entries", case=case).json["items"] != []
    assert gateway.get(f"{C}/entries", case=case, job="4711").json["items"] == []


PATHS = ["", "/nodes", "/nodes/b-1", "/cases", "/entries", "/streams/b-1/entries", "/streams/-/verify", "/rejects"]


@pytest.mark.parametrize("path", PATHS)
def test_a_token_for_one_cluster_reveals_nothing_about_another(gateway: Gateway, path: str) -> None:
    there = gateway.get(f"/clusters/secret-b{path}", clusters=["train-a"])
    no_other_accounts = gateway.get(f"/clusters/no-such{path}", clusters=["train-a"])
    refused(there, 403, "forbidden")
    assert there.text == no_other_accounts.text


def test_listing_clusters_requires_access_to_all_clusters(gateway: Gateway) -> None:
    refused(gateway.get("/clusters", clusters=["train-a"]), 403, "forbidden")
    assert gateway.get("/clusters", clusters=["*"]).status == 200


@pytest.mark.parametrize("claims", [[], ["train"], ["train-ab"], ["TRAIN-A"]])
def test_a_token_must_name_the_cluster_exactly(gateway: Gateway, claims: list[str]) -> None:
    refused(gateway.get(C, clusters=claims), 403, "forbidden")


def test_an_iam_caller_was_already_checked_by_the_gateway(gateway: Gateway) -> None:
    assert gateway.get(C, clusters=None).status == 200


def test_nodes_entries_and_cases_of_another_cluster_are_not_found(gateway: Gateway) -> None:
    refused(gateway.get(f"{C}/nodes/b-1"), 404, "unknown_node")
    case = case_of(gateway)
    refused(gateway.get(f"/clusters/secret-b/cases/{case}"), 404, "unknown_case")
    assert gateway.get("/clusters/secret-b/entries", case=case).json["items"] == []


def page_token(gateway: Gateway, **query: Any) -> str:
    token = gateway.get(f"{C}/entries", limit=2, **query).json["next"]
    assert token
    return str(token)


def forged(token: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[-1] ^= 1
    return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


def test_a_forged_token_is_refused(gateway: Gateway) -> None:
    refused(gateway.get(f"{C}/entries", token=forged(page_token(gateway))), 400, "bad_token")


def test_a_token_signed_with_another_secret_is_refused(gateway: Gateway) -> None:
    token = Tokens(lambda: b"another").sign("train-a\n", "2026")
    refused(gateway.get(f"{C}/entries", token=token), 400, "bad_token")


def test_a_truncated_token_is_refused(gateway: Gateway) -> None:
    token = page_token(gateway)
    for end in range(1, len(token)):
        refused(gateway.get(f"{C}/entries", token=token[:end]), 400, "bad_token")


def test_a_token_is_valid_only_for_its_cluster_and_parameters(gateway: Gateway) -> None:
    token = page_token(gateway)
    assert gateway.get(f"{C}/entries", limit=2, token=token).status == 200
    for path, query in (("/clusters/secret-b/entries", {}), (f"{C}/entries", {"node": "n-1"}), (f"{C}/nodes", {})):
        answer = gateway.get(path, token=token, **query)
        assert (answer.status, answer.json["type"]) == (400, "urn:faultbridge:bad_token")


@pytest.mark.parametrize(
    "query",
    [
        {"since": "2026-02-04T00:00:00Z", "until": "2026-02-03T00:00:00Z"},
        {"since": "2026-02-03T00:00:00Z", "until": "2026-02-03T00:00:00Z"},
        {"since": "0001-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59.999Z"},
        {"until": "0001-01-01T00:00:00+23:59"},
        {"since": "yesterday"},
        {"since": "2026-02-03T00:00:00"},
        {"limit": 0},
        {"limit": 501},
        {"limit": -1},
        {"limit": "1e3"},
        {"limit": "٣"},
        {"limit": 10**30},
        {"type": "No Such Type"},
        {"severity": "deadly"},
        {"node": "n-1", "nodes": "n-2"},
        {"node": ["n-1", "n-2"]},
        {"device": ""},
        {"job": "a\x00b"},
        {"node": "n#1"},
    ],
)
def test_invalid_parameters_are_refused(gateway: Gateway, query: dict[str, Any]) -> None:
    answer = gateway.get(f"{C}/entries", **query)
    assert (answer.status, answer.media_type) == (400, MEDIA_TYPE), answer.text


@pytest.mark.parametrize(
    "name", ["node", "case", "device", "job", "code", "type", "severity", "since", "until", "limit", "token"]
)
def test_a_very_long_parameter_is_refused_and_not_echoed(gateway: Gateway, name: str) -> None:
    answer = gateway.get(f"{C}/entries", **{name: "x" * 10_000})
    assert answer.status == 400
    assert len(answer.text) < 1_000


@pytest.mark.parametrize(
    "path", [f"/clusters/{'x' * 10_000}", f"{C}/nodes/{'x' * 10_000}", f"{C}/cases/{'x' * 10_000}"]
)
def test_a_very_long_name_is_refused(gateway: Gateway, path: str) -> None:
    answer = gateway.get(path)
    assert answer.status in {400, 404}
    assert len(answer.text) < 1_000


def test_a_refused_request_is_logged_with_its_reason(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gateway.get(C, clusters=[])
    (line,) = (vars(record) for record in caplog.records if record.message == "request refused")
    assert (line["reason"], line["status"]) == ("forbidden", 403)


def test_a_query_with_a_thousand_fields_is_refused(gateway: Gateway) -> None:
    refused(gateway.send("GET", f"{C}/entries", "&".join(["code=x"] * 1000)), 400, "bad_parameter")


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/nodes"), ("DELETE", C), ("POST", f"{C}/entries")])
def test_an_unknown_route_is_not_found(gateway: Gateway, method: str, path: str) -> None:
    refused(gateway.send(method, path), 404, "unknown_route")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Transient("the table named faultbridge-Table-1 throttles"), 503),
        (Misconfigured("arn:aws:secret"), 500),
        (KeyError("arn"), 500),
    ],
)
def test_internal_errors_are_not_revealed(gateway: Gateway, error: Exception, status: int) -> None:
    def fail(call: Call) -> None:
        raise error

    gateway.world.ports.seam.before = fail
    answer = gateway.get(C)
    assert (answer.status, answer.media_type) == (status, MEDIA_TYPE)
    assert "arn" not in answer.text
    assert "Table-1" not in answer.text


@pytest.mark.parametrize(("verb", "answer"), [("approve", "approved"), ("deny", "denied")])
def test_an_approval_answer_is_recorded_with_its_operator(gateway: Gateway, verb: str, answer: str) -> None:
    case = waiting(gateway)
    question = gateway.get(f"{C}/cases/{case}").json["approval"]
    assert {name: question[name] for name in (*ANSWER, "answer")} == {**ANSWER, "answer": None}
    answered = gateway.post(f"{C}/cases/{case}/{verb}", {**ANSWER, "reason": "known bad batch"})
    assert (answered.json["case_id"], answered.json["approval"]["answer"]) == (case, answer)
    models()["Cases"].model_validate_json(f'{{"items": [{answered.text}]}}')
    entries = gateway.get(f"{C}/entries", case=case).json["items"]
    (note,) = [entry["data"] for entry in entries if entry["data"].get("operator")]
    assert (note["operator"], note["text"]) == ("an-operator", f"{answer}: known bad batch")
    kept = gateway.get(f"{C}/cases/{case}").json["approval"]
    assert (kept["answer"], kept["operator"]) == (answer, "an-operator")


def test_an_approved_attempt_starts(gateway: Gateway) -> None:
    case = waiting(gateway)
    gateway.post(f"{C}/cases/{case}/approve", ANSWER)
    wire_sweep(gateway.world.app).run()
    assert gateway.get(f"{C}/cases/{case}").json["status"] == "in_progress"


def test_a_denied_attempt_escalates_the_case(gateway: Gateway) -> None:
    case = waiting(gateway)
    gateway.post(f"{C}/cases/{case}/deny", ANSWER)
    wire_sweep(gateway.world.app).run()
    assert gateway.get(f"{C}/cases/{case}").json["status"] == "escalated"


def test_a_repeated_answer_is_accepted_and_another_one_is_refused(gateway: Gateway) -> None:
    case = waiting(gateway)
    before = gateway.post(f"{C}/cases/{case}/approve", ANSWER)
    count = len(gateway.get(f"{C}/entries", case=case).json["items"])
    assert gateway.post(f"{C}/cases/{case}/approve", ANSWER).text == before.text
    refused(gateway.post(f"{C}/cases/{case}/deny", ANSWER), 409, "answered")
    assert len(gateway.get(f"{C}/entries", case=case).json["items"]) == count


def test_an_answer_without_a_matching_approval_request_is_refused(gateway: Gateway) -> None:
    refused(gateway.post(f"{C}/cases/{case_of(gateway)}/approve", ANSWER), 409, "not_asked")
    case = waiting(gateway)
    for other in ({"attempt": 2}, {"repair_action": "reboot_node"}):
        refused(gateway.post(f"{C}/cases/{case}/approve", ANSWER | other), 409, "not_asked")
    refused(gateway.post(f"/clusters/secret-b/cases/{case}/approve", ANSWER), 404, "unknown_case")


def test_a_late_answer_is_refused(gateway: Gateway) -> None:
    case = waiting(gateway)
    count = len(gateway.get(f"{C}/entries", case=case).json["items"])
    gateway.world.ports.clock.advance(timedelta(days=8))
    refused(gateway.post(f"{C}/cases/{case}/approve", ANSWER), 409, "too_late")
    assert len(gateway.get(f"{C}/entries", case=case).json["items"]) == count


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{", "null", '{"attempt": 1}', '{"repair_action": "replace_node"}', "[" * 5000,
     *(json.dumps({**ANSWER, name: value}) for name, value in [
         ("attempt", "1"), ("attempt", True), ("attempt", -1), ("attempt", 0), ("x", 1), ("repair_action", "reset"),
         ("repair_action", ["replace_node"]), ("reason", 1), ("reason", "x" * 257), ("reason", "\ud800"),
         ("reason", "\x1b[2J"),
     ])],
)  # fmt: skip
def test_an_invalid_answer_is_refused(gateway: Gateway, body: str) -> None:
    case = waiting(gateway)
    refused(gateway.post(f"{C}/cases/{case}/approve", body), 400, "bad_body")
    assert gateway.post(f"{C}/cases/{case}/approve", ANSWER).status == 200


def test_a_get_approves_nothing(gateway: Gateway) -> None:
    case = waiting(gateway)
    refused(gateway.get(f"{C}/cases/{case}/approve"), 404, "unknown_route")
    assert gateway.get(f"{C}/cases/{case}").json["approval"]["answer"] is None
    assert gateway.post(f"{C}/cases/{case}/approve", ANSWER).status == 200


def test_a_token_can_be_read_for_its_scope_only() -> None:
    tokens = Tokens(lambda: b"secret")
    token = tokens.sign("a", "place é")
    assert tokens.read("a", token) == "place é"
    with pytest.raises(Rejected, match="bad_token"):
        tokens.read("ab", token)
