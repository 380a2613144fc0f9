"""Orders over HTTP: what each records with its person, what it refuses, and that a key executes it once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put, Update
from faultbridge.model.times import to_text
from faultbridge.repair.case_orders import KEPT
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from infra.docs.api_models import models
from tests.api.builders import RACK, C, case_of, lose_links
from tests.api.gateway import Gateway, Response
from tests.architecture.roles import statements
from tests.races import run_before_write
from tests.world import World

N1 = f"{C}/nodes/n-1"


@pytest.fixture
def gateway() -> Gateway:
    """Return a cluster of two nodes, of which n-1 has a case."""
    made = Gateway()
    wire_ingest(made.world.app).ingest([made.world.message(node="n-1")])
    return made


def notes(gateway: Gateway) -> list[tuple[str, str]]:
    """Return person and text of every entry that an operator ordered."""
    events = [one["data"] for one in gateway.get(f"{C}/entries").json["items"]]
    return [(one["operator"], one.get("text") or one["reason"]) for one in events if one.get("operator")]


def refused(answer: Response, status: int, reason: str) -> None:
    assert (answer.status, answer.json["type"]) == (status, f"urn:faultbridge:{reason}")


def instance_of(gateway: Gateway) -> str:
    return str(gateway.get(N1).json["instance_id"])


def test_an_acknowledged_case_shows_its_owner_and_keeps_its_repair(gateway: Gateway) -> None:
    case = case_of(gateway)
    before = gateway.get(f"{C}/cases/{case}").json
    shown = gateway.post(f"{C}/cases/{case}/ack", {"note": "I call the vendor"}).json
    until = to_text(gateway.world.now + timedelta(hours=8))
    assert (shown["owner"], shown["owner_note"], shown["acknowledged_until"]) == (
        "an-operator",
        "I call the vendor",
        until,
    )
    assert {name: shown[name] for name in ("status", "waiting_for")} == {
        name: before[name] for name in ("status", "waiting_for")
    }
    assert notes(gateway) == [("an-operator", "acknowledged: I call the vendor")]


def test_an_event_after_the_acknowledgement_names_the_owner(gateway: Gateway) -> None:
    gateway.post(f"{C}/cases/{case_of(gateway)}/ack", {})
    gateway.post(f"{N1}/quarantine", {"reason": "burnt smell"})
    events = gateway.get(f"{C}/entries", type="Case Status Change").json["items"]
    assert events[-1]["data"]["owner"] == "an-operator"


def test_a_replacement_names_the_instance_that_the_person_saw(gateway: Gateway) -> None:
    refused(gateway.post(f"{N1}/replace", {}), 400, "bad_body")
    refused(gateway.post(f"{N1}/replace", {"instance": "i-another"}), 409, "instance_changed")
    assert gateway.post(f"{N1}/replace", {"instance": instance_of(gateway)}).status == 200
    assert notes(gateway) == [("an-operator", "replace")]


@pytest.mark.parametrize("verb", ["quarantine", "cordon"])
def test_a_quarantined_node_takes_no_new_work_and_is_returned(gateway: Gateway, verb: str) -> None:
    refused(gateway.post(f"{N1}/return", {}), 409, "not_with_a_person")
    assert gateway.post(f"{N1}/{verb}", {"reason": "bad cable"}).json["case"]["status"] == "escalated"
    wire_react(gateway.world.app).run([("train-a", "n-1")])
    assert gateway.get(N1).json["status"] == "quarantined"
    assert gateway.post(f"{N1}/return", {}).json["case"]["status"] == "queued"
    assert [text for _, text in notes(gateway)] == ["quarantine: bad cable", "return"]


def test_a_canceled_case_releases_no_instance(gateway: Gateway) -> None:
    case = case_of(gateway)
    shown = gateway.post(f"{C}/cases/{case}/cancel", {"reason": "false alarm"}).json
    assert (shown["status"], shown["resolution"]) == ("resolved", "cancelled")
    refused(gateway.post(f"{C}/cases/{case}/ack", {}), 409, "case_over")


def test_a_pause_has_its_person_reason_and_end(gateway: Gateway) -> None:
    until = to_text(gateway.world.now + timedelta(hours=2))
    shown = gateway.post(f"{C}/pause", {"reason": "switch work", "until": until}).json
    models()["Clusters"].model_validate({"items": [shown]})
    assert shown["pauses"] == [
        {"by": "an-operator", "reason": "switch work", "since": to_text(gateway.world.now), "until": until}
    ]
    gateway.world.ports.clock.advance(timedelta(hours=2))
    wire_sweep(gateway.world.app).run()
    assert gateway.get(C).json["paused"] is False
    last = gateway.get(f"{C}/entries", type="Cluster Safety Change").json["items"][-1]["data"]
    assert (last["to"], last["operator"]) == ("running", None)
    assert "an-operator (switch work)" in last["reason"]


def test_a_resume_ends_only_the_pause_of_its_person(gateway: Gateway) -> None:
    gateway.post(f"{C}/pause", {"reason": "hot aisle"}, person="ada")
    refused(gateway.post(f"{C}/resume", {}, person="bob"), 409, "not_yours")
    gateway.post(f"{C}/pause", {"reason": "emergency"}, person="bob")
    shown = gateway.post(f"{C}/resume", {}, person="bob").json
    assert (shown["paused"], [one["by"] for one in shown["pauses"]]) == (True, ["ada"])
    assert gateway.post(f"{C}/resume", {"force": True}, person="bob").json["paused"] is False
    assert notes(gateway)[-1] == ("bob", "ordered by an operator; ended the pause by ada (hot aisle)")


def test_a_silence_is_listed_until_it_ends_and_its_end_is_an_entry(gateway: Gateway) -> None:
    now = gateway.world.now
    body = {"reason": "RMA 123", "until": to_text(now + timedelta(hours=2)), "node": "n-1", "mode": "gpu.*"}
    made = gateway.post(f"{C}/silences", body).json
    models()["Silences"].model_validate({"items": [made]})
    assert (made["by"], made["node"], made["rack"]) == ("an-operator", "n-1", None)
    assert gateway.get(C).json["silences"] == gateway.get(f"{C}/silences").json["items"] == [made]
    gateway.world.ports.clock.advance(timedelta(hours=2))
    wire_sweep(gateway.world.app).run()
    assert gateway.get(f"{C}/silences").json["items"] == []
    events = [one["data"] for one in gateway.get(f"{C}/entries", type="Node Note Recorded").json["items"]]
    stages = [(one["stage"], one["operator"]) for one in events if one["kind"] == "silence"]
    assert stages == [("begun", "an-operator"), ("over", None)]
    refused(gateway.post(f"{C}/silences/{made['id']}/end", {}), 404, "unknown_silence")


@pytest.mark.parametrize(("begins", "ends"), [(0, 0), (0, -60), (0, 31 * 86_400), (7_200, 3_600)])
def test_a_silence_ends_after_it_begins_and_within_thirty_days(gateway: Gateway, begins: int, ends: int) -> None:
    times = {"since": begins, "until": ends}
    body = {name: to_text(gateway.world.now + timedelta(seconds=seconds)) for name, seconds in times.items()}
    refused(gateway.post(f"{C}/silences", {"reason": "x", **body}), 400, "bad_time")


def test_a_rack_is_taken_out_for_maintenance_and_returned() -> None:
    gateway = Gateway(World(nodes=(*RACK, "other-1")))
    lose_links(gateway)
    taken = gateway.post(f"{C}/domains/r-7/maintain", {"reason": "power work"}, key="one").json
    assert (taken["accepted"], [one["node"] for one in taken["nodes"]]) == (True, list(RACK))
    count = len(notes(gateway))
    again = gateway.post(f"{C}/domains/r-7/maintain", {"reason": "power work"}, key="one")
    assert (again.json, len(notes(gateway))) == (taken, count)
    back = gateway.post(f"{C}/domains/r-7/return", {}).json
    assert back["accepted"]
    late = gateway.post(f"{C}/domains/r-7/return", {}).json
    assert (late["accepted"], "no escalated case" in late["nodes"][0]["refused"]) == (False, True)
    refused(gateway.post(f"{C}/domains/no-rack/maintain", {}), 404, "unknown_domain")


ORDERS: dict[str, Any] = {
    "cases/{case}/ack": {"note": "mine"},
    "cases/{case}/cancel": {},
    "nodes/n-1/quarantine": {},
    "pause": {"reason": "x"},
    "silences": {"reason": "x", "until": "2026-02-04T00:00:00Z"},
}


@pytest.mark.parametrize("path", ORDERS)
def test_an_order_is_executed_once_under_its_key(gateway: Gateway, path: str) -> None:
    url, body = f"{C}/{path.format(case=case_of(gateway))}", ORDERS[path]
    first = gateway.post(url, body, key="k-1")
    count = len(gateway.get(f"{C}/entries").json["items"])
    gateway.world.ports.clock.advance(timedelta(minutes=1))
    again = gateway.post(url, body, key="k-1")
    assert (first.status, again.status) == (200, 200)
    assert len(gateway.get(f"{C}/entries").json["items"]) == count
    assert gateway.post(url, body, key="k-2").status in {200, 409}


def test_a_key_is_for_one_order_of_one_person_and_expires(gateway: Gateway) -> None:
    gateway.post(f"{C}/pause", {"reason": "a"}, key="k-1")
    refused(gateway.post(f"{C}/pause", {"reason": "b"}, key="k-1"), 422, "key_reused")
    assert gateway.post(f"{C}/pause", {"reason": "b"}, key="k-1", person="ada").status == 200
    refused(gateway.post(f"{C}/pause", {}, key=""), 400, "bad_key")
    refused(gateway.post(f"{C}/pause", {}, key="x" * 257), 400, "bad_key")
    rows = [row for row in gateway.world.ports.table.items() if str(row["pk"]).startswith("ORDER#")]
    expires = int((gateway.world.now + KEPT).timestamp())
    assert [row["expires_at"] for row in rows] == [expires, expires]


def test_two_requests_with_one_key_at_the_same_time_execute_one_order(gateway: Gateway) -> None:
    url = f"{C}/cases/{case_of(gateway)}/ack"
    first = partial(gateway.post, url, {"note": "mine"}, key="k-1")
    run_before_write(gateway.world.ports.seam, lambda write: write.key.pk.startswith("ORDER#"), first)
    assert gateway.post(url, {"note": "mine"}, key="k-1").status == 200
    assert notes(gateway) == [("an-operator", "acknowledged: mine")]


def test_the_role_of_the_api_permits_what_its_orders_write(gateway: Gateway) -> None:
    """Partitions and attributes of every write, as IAM compares them."""
    seam = gateway.world.ports.seam
    seam.calls.clear()
    case = case_of(gateway)
    for path, body in (
        (f"{C}/cases/{case}/ack", {}),
        (f"{N1}/replace", {"instance": instance_of(gateway)}),
        (f"{N1}/quarantine", {}),
        (f"{N1}/return", {}),
        (f"{C}/pause", {}),
        (f"{C}/resume", {}),
        (f"{C}/silences", ORDERS["silences"]),
    ):
        assert gateway.post(path, body, key=path).status == 200, path
    (silence,) = gateway.get(f"{C}/silences").json["items"]
    assert gateway.post(f"{C}/silences/{silence['id']}/end", {}).status == 200
    grants = {one["Sid"]: one for one in statements("TimelineRole")}
    of_nodes = grants["Answers"]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    of_cluster = set(grants["Incidents"]["Condition"]["ForAllValues:StringLike"]["dynamodb:Attributes"])
    for call in seam.named("table.transact"):
        for write in call.argument:
            if write.key.pk == keys.cluster_partition("train-a"):
                names = set(write.item) if isinstance(write, Put) else {path[0] for path in paths(write)}
                assert names <= of_cluster, names - of_cluster
            else:
                assert any(write.key.pk.startswith(one.split("#")[0] + "#") for one in of_nodes), write.key
                assert not isinstance(write, Update)


def paths(write: Any) -> list[tuple[str, ...]]:
    assert isinstance(write, Update)
    return [*write.set, *write.remove, *((name,) for name in write.add)]
