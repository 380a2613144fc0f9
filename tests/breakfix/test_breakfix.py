"""The documents of the break-fix provider hold what the validation asks for, each with its evidence.

`CONTRACT` states the fields of both versions of the validation that decide: 0.11, and the stricter one after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from faultbridge.model.times import from_text
from tests.architecture.project import ROOT
from tests.breakfix.demo import Demo, demo, load_provider

CHANGING = ("cordon_node", "return_node_maintenance", "request_host_replacement")
NOT_SHOWN = {"query_switch_firmware", "return_rack_maintenance"}
"""What a tenant of EC2 cannot show."""

Json = dict[str, Any]


def texts(found: Json, *names: str) -> None:
    """Assert that the fields are texts with a content."""
    for name in names:
        assert isinstance(found[name], str), (name, found)
        assert found[name]


def queryable(flag: str, records: str, *names: str) -> Any:
    """Return the check of a list of records: the flag is true, and each record has texts in these fields."""

    def check(document: Json) -> None:
        assert document[flag] is True
        assert document[records]
        for record in document[records]:
            texts(record, *names)

    return check


def operation(*flags: str, names: tuple[str, ...] = ()) -> Any:
    """Return the check of an operation: each flag is literally true, and the object is named."""

    def check(document: Json) -> None:
        for flag in flags:
            assert document["operation"][flag] is True, flag
        texts(document["operation"], *names)

    return check


def serials(document: Json) -> None:
    for one in document["machines"]:
        texts(one, "machine_id")
        assert set(one["components"]) == {"chassis", "baseboard", "cpu", "gpu", "nic"}
        assert any(part["present"] for part in one["components"].values())
        for part in one["components"].values():
            assert bool(part["identifiers"]) is part["present"]
    assert document["machines_checked"] == len(document["machines"]) > 0


def logs(document: Json) -> None:
    for one in document["hosts"]:
        assert one["kernel_log_available"] is True
        assert one["entries_returned"] >= 1
        assert from_text(one["window_start"]) <= from_text(one["window_end"])
    assert document["hosts"]


def reset(document: Json) -> None:
    operation("requested", "accepted", "completed", names=("node_id", "request_id"))(document)
    assert document["operation"]["gpu_ids"]


def history(document: Json) -> None:
    queryable("history_queryable", "records", "machine_id")(document)
    for record in document["records"]:
        for entry in record["entries"]:
            texts(entry, "at", "ticket_id", "status", "category", "action")


def planned(document: Json) -> None:
    fields = ("machine_id", "type", "message", "notified_at", "window_start")
    queryable("notification_channel_observable", "notifications", *fields)(document)
    for one in document["notifications"]:
        assert from_text(one["notified_at"]) <= from_text(one["window_start"])


def failures(document: Json) -> None:
    fields = ("machine_id", "type", "message", "detected_at", "notified_at")
    queryable("notification_channel_observable", "notifications", *fields)(document)
    for one in document["notifications"]:
        assert from_text(one["detected_at"]) <= from_text(one["notified_at"])


def agents(document: Json) -> None:
    queryable("agents_observable", "agents", "node_id", "agent_name", "last_report")(document)
    assert all(one["running"] is True for one in document["agents"])


CONTRACT = {
    "query_node_health_agents": agents,
    "query_serial_numbers": serials,
    "query_bmc_kernel_logs": logs,
    "query_maintenance_events": queryable("events_queryable", "events", "machine_id", "status", "message"),
    "query_retirement_notices": queryable("notices_queryable", "notices", "machine_id", "retire_after"),
    "query_repair_history": history,
    "query_planned_notifications": planned,
    "query_failure_notifications": failures,
    "reset_gpus": reset,
    "cordon_node": operation("cordoned", "new_workloads_blocked", "existing_workloads_running", names=("node_id",)),
    "return_node_maintenance": operation("requested", "accepted", names=("machine_id", "maintenance_mode")),
    "request_host_replacement": operation("requested", "node_removed_from_pool", names=("machine_id",)),
}


@pytest.fixture(scope="module")
def documents() -> Iterator[dict[str, Json]]:
    """The document of each step after the demo history; the steps that change something run last."""
    before = os.environ.get("FAULTBRIDGE_BREAKFIX_MUTATE")
    os.environ["FAULTBRIDGE_BREAKFIX_MUTATE"] = "1"
    with demo() as one:
        steps = sorted(one.provider.STEPS, key=lambda name: (name in CHANGING, name))
        yield {step: one.run(step, one.node if step in CHANGING else "") for step in steps}
    if before is None:
        del os.environ["FAULTBRIDGE_BREAKFIX_MUTATE"]


def test_what_cannot_be_shown_is_skipped_with_a_reason(documents: dict[str, Json]) -> None:
    skipped = {step for step, one in documents.items() if one.get("skipped")}
    assert skipped == NOT_SHOWN
    for step in skipped:
        assert documents[step]["success"] is True
        assert len(documents[step]["skip_reason"].split()) > 4


@pytest.mark.parametrize("step", CONTRACT)
def test_a_document_holds_its_evidence(documents: dict[str, Json], step: str) -> None:
    found = documents[step]
    assert (found["success"], found["platform"]) == (True, "faultbridge"), found
    CONTRACT[step](found)


def test_every_step_has_a_contract() -> None:
    assert set(load_provider().STEPS) == {*CONTRACT, *NOT_SHOWN}


def test_nothing_is_changed_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTBRIDGE_BREAKFIX_MUTATE", raising=False)
    with demo() as one:
        before = list(one.system.ports.table.items())
        for step in CHANGING:
            assert one.run(step, one.node)["skipped"] is True
        assert list(one.system.ports.table.items()) == before


def test_a_refused_order_fails_with_the_reason_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_BREAKFIX_MUTATE", "1")
    with demo() as one:
        found = one.run("return_node_maintenance", "no-such-node")
        assert found["success"] is False
        assert "unknown node" in found["error"]


def test_without_evidence_a_record_query_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = load_provider()
    monkeypatch.setattr(provider.Api, "items", lambda *_, **__: iter(()))
    environment = {"FAULTBRIDGE_API": "http://127.0.0.1:1", "FAULTBRIDGE_CLUSTER": "train-a"}
    run = Demo.__new__(Demo)
    run.provider, run.environment = provider, environment
    for step in ("query_serial_numbers", "query_bmc_kernel_logs", "reset_gpus"):
        assert run.run(step)["skipped"] is True
    assert run.run("query_repair_history")["records"] == []


@pytest.mark.parametrize(("name", "kind"), [("bare_metal", "bare_metal"), ("kubernetes", "kubernetes")])
def test_the_files_of_the_provider_run_every_step(name: str, kind: str) -> None:
    path = ROOT / "examples" / "breakfix" / "config" / f"{name}.yaml"
    steps = yaml.safe_load(path.read_text(encoding="utf-8"))["commands"][kind]["steps"]
    assert {one["name"] for one in steps} <= set(load_provider().STEPS)
    for one in steps:
        assert one["args"][:2] == ["--step", one["name"]]
