"""Entry points: the answer of a function decides whether its caller retries."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import to_builtins

from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.settings import Settings
from faultbridge.model.storage import keys
from faultbridge.model.times import to_text
from faultbridge.serve.entrypoints.archive import archive
from faultbridge.serve.entrypoints.ingest import ingest
from faultbridge.serve.entrypoints.inventory import inventory
from faultbridge.serve.entrypoints.pager import pager
from faultbridge.serve.entrypoints.sweep import sweep
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ops.sweep import SweepResult
from faultbridge.serve.wiring.installation import Installation
from tests.archive.world import ArchiveWorld
from tests.builders import KEY
from tests.pages import CLOSED, ESCALATED
from tests.races import writes_of
from tests.sim.fakes import Call, raise_once
from tests.world import World


def sqs_record(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as Lambda passes it to the function."""
    sent = str(int(delivery.received_at.timestamp() * 1000))
    return {"messageId": delivery.id, "body": delivery.text, "attributes": {"SentTimestamp": sent}}


def test_ingest_returns_only_messages_with_transient_errors_for_a_retry() -> None:
    world = World(nodes=("a", "b"))
    deliveries = [world.message(node=node) for node in ("a", "b")]

    def throttle(call: Call) -> None:
        if any(write.key == keys.node_state(KEY._replace(node="a")) for write in writes_of(call)):
            raise Transient("throttled")

    world.ports.seam.before = throttle
    answer = ingest({"Records": [sqs_record(one) for one in deliveries]}, world.app)
    assert answer == {"batchItemFailures": [{"itemIdentifier": deliveries[0].id}]}


def test_an_event_whose_page_fails_stays_in_the_queue_until_its_page_is_sent() -> None:
    world = World()
    message = {"Records": [{"body": json.dumps({"detail": ESCALATED})}]}
    world.ports.seam.before = raise_once(("pager.send", Transient("throttled")))
    with pytest.raises(Transient, match="throttled"):
        pager(message, world.app)
    assert world.ports.pager.sent == []
    pager(message, world.app)
    assert [page.attributes["state"] for page in world.ports.pager.sent] == ["triggered"]


def test_the_pager_function_processes_every_event_of_a_batch() -> None:
    world = World()
    pager({"Records": [{"body": json.dumps({"detail": one})} for one in (ESCALATED, CLOSED)]}, world.app)
    assert [page.attributes["state"] for page in world.ports.pager.sent] == ["triggered", "resolved"]


def test_a_failed_part_of_a_sweep_is_logged_once_and_returned(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def refuse(call: Call) -> None:
        if call.name.startswith("queue."):
            raise Transient("the queue does not answer")

    world.ports.seam.before = refuse
    failures = sweep({}, world.app).failures
    assert failures == ["sending the canary: Transient: the queue does not answer"]
    logged = [line for line in caplog.records if "the queue does not answer" in str(vars(line))]
    assert [line.message for line in logged] == ["part_failed"]


def scheduled(world: World, *, age: timedelta) -> dict[str, Any]:
    return {"detail-type": "Scheduled Event", "time": to_text(world.now - age)}


def test_calls_that_lambda_kept_during_an_outage_do_no_work_afterwards() -> None:
    world = World()
    assert sweep(scheduled(world, age=timedelta(minutes=3)), world.app) == SweepResult()
    assert inventory(scheduled(world, age=timedelta(hours=5)), world.app) == ()
    assert world.ports.queue.messages == []
    sweep(scheduled(world, age=timedelta(seconds=90)), world.app)
    assert len(world.ports.queue.messages) == 1


def test_the_result_of_a_sweep_can_be_json() -> None:
    swept = json.loads(json.dumps(to_builtins(sweep({}, World().app))))
    assert swept["intake"] == {"failed": False, "overdue": [], "last_arrival": None}


def test_an_archive_run_fails_when_a_cluster_could_not_be_archived() -> None:
    world = ArchiveWorld()
    world.record_history()

    def refuse(call: Call) -> None:
        if call.name == "vault.put":
            raise Misconfigured("no right to put")

    application = cast(
        "Installation", SimpleNamespace(ports=world, stack=world.stack, settings=Settings({}), services={})
    )
    world.vault.seam.before = refuse
    with pytest.raises(Misconfigured, match="no right to put"):
        archive(application)
    world.vault.seam.before = lambda _: None
    assert archive(application).failures == []


def test_an_archive_run_that_lost_every_conflict_fails_as_transient() -> None:
    world = ArchiveWorld()
    world.record_history()

    def conflict(call: Call) -> None:
        if any(write.key == keys.cluster_state("train-a") for write in writes_of(call)):
            raise Conflict("another writer was quicker")

    application = cast(
        "Installation", SimpleNamespace(ports=world, stack=world.stack, settings=Settings({}), services={})
    )
    world.table.seam.before = conflict
    with pytest.raises(Transient, match="another writer was quicker"):
        archive(application)
