"""Outcomes: each message given back has one reason, one log line with its ids, and one count in the metrics."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from typing import Any

import pytest

from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import ingest, wire_ingest
from faultbridge.serve.ingest.ingest import ALONE_FROM_RECEIVES, MAX_ATTEMPTS
from faultbridge.serve.ingest.outcomes import GiveBackReason, IngestResult
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY, NOON
from tests.sim.fakes import raise_once
from tests.sim.fakes.seam import Call
from tests.world import XID_79, World

GIVEN_BACK = "record_given_back"


@pytest.fixture(autouse=True)
def _log_decisions(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "faultbridge")


def logged(caplog: pytest.LogCaptureFixture, decision: str) -> list[dict[str, Any]]:
    """Return the fields of the log lines of a decision."""
    return [vars(record) for record in caplog.records if record.message == decision]


def fail_commits_of(node: str, error: Transient) -> Any:
    """Return a hook that fails every commit that writes a node."""

    def hook(call: Call) -> None:
        if call.name == "table.transact" and keys.node_partition(KEY._replace(node=node)) in str(call.argument):
            raise error

    return hook


@pytest.mark.parametrize(
    ("error", "reason"), [(Transient("throttled"), "state_unavailable"), (Conflict("another writer"), "conflict")]
)
def test_a_record_given_back_is_logged_once_with_its_reason_and_ids(
    caplog: pytest.LogCaptureFixture, error: Transient, reason: str
) -> None:
    world = World(nodes=("a", "b"))
    world.ports.seam.before = fail_commits_of("a", error)
    failing, good = world.message(XID_79, node="a", record_id="r-a"), world.message(XID_79, node="b")
    result = wire_ingest(world.app).ingest([failing, good])
    assert result.failed == {failing.id: reason}
    (line,) = logged(caplog, GIVEN_BACK)
    assert line["levelno"] == logging.WARNING
    assert (line["reason"], line["error"], line["message_id"]) == (reason, str(error), failing.id)
    assert (line["cluster"], line["node"], line["record_ids"], line["receives"]) == (KEY.cluster, "a", ["r-a"], 1)


def test_an_unreadable_message_that_is_given_back_is_logged_with_an_id_of_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.ports.seam.before = raise_once(("objects.put", Transient("down")))
    message = Delivery("message-x", "not json", NOON)
    assert wire_ingest(world.app).ingest([message]).failed == {"message-x": GiveBackReason.REJECTS_UNAVAILABLE}
    (line,) = logged(caplog, GIVEN_BACK)
    (record_id,) = line["record_ids"]
    assert record_id.startswith("unread-")
    assert "cluster" not in line


def test_the_error_of_an_unreadable_message_is_freed_after_its_invocation() -> None:
    errors = []

    def read(message: Delivery) -> None:
        try:
            message.message()
        except Rejected as error:
            errors.append(weakref.ref(error))

    read(Delivery("message-x", "not json", NOON))
    gc.collect()
    assert [error() for error in errors] == [None]


def test_a_message_given_back_twice_keeps_its_first_reason(caplog: pytest.LogCaptureFixture) -> None:
    message, result = World().message(), IngestResult()
    result.give_back(message, Conflict("first"), GiveBackReason.STATE_UNAVAILABLE)
    result.give_back(message, Transient("second"), GiveBackReason.HEARTBEATS_UNAVAILABLE)
    assert result.failed == {message.id: GiveBackReason.CONFLICT}
    assert len(logged(caplog, GIVEN_BACK)) == 1


def test_processed_and_rejected_records_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    wire_ingest(world.app).ingest(
        [world.message(XID_79), world.message("no fault"), world.message(XID_79, node="unregistered")]
    )
    assert caplog.records == []


def test_a_commit_group_that_is_split_after_a_conflict_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World(nodes=("a", "b"))
    world.ports.seam.before = raise_once(("table.transact", Conflict("another writer")))
    result = wire_ingest(world.app).ingest([world.message(XID_79, node=node) for node in ("a", "b")])
    assert set(result.outcomes.values()) == {Outcome.RECORDED}
    (line,) = logged(caplog, "commit_group_split")
    assert (line["reason"], line["nodes"]) == ("another writer", ["train-a/a", "train-a/b"])


def test_processing_alone_and_the_rejection_of_a_poison_message_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    message = replace(world.message(XID_79), receives=ALONE_FROM_RECEIVES)
    for _ in range(MAX_ATTEMPTS):
        assert wire_ingest(world.app).poison_messages.start_attempt(message.id)
    assert list(wire_ingest(world.app).ingest([message]).reasons.values()) == ["kills_worker"]
    wire_ingest(world.app).ingest([message])
    (rejected,), (alone,) = logged(caplog, "poison_message_rejected"), logged(caplog, "message_processed_alone")
    assert (rejected["levelno"], rejected["message_id"], rejected["node"]) == (logging.WARNING, message.id, KEY.node)
    assert (alone["message_id"], alone["reason"]) == (message.id, f"received {ALONE_FROM_RECEIVES} times")


def test_a_record_that_goes_back_after_it_was_processed_alone_gets_its_outcome_at_the_next_delivery() -> None:
    world = World()
    message = replace(world.message(XID_79), receives=ALONE_FROM_RECEIVES)

    errors = [Transient("throttled")]

    def fail_deletion(call: Call) -> None:
        if isinstance(call.argument, Delete) and errors:
            raise errors.pop()

    world.ports.seam.before = fail_deletion
    first = wire_ingest(world.app).ingest([message])
    assert (first.failed, first.outcomes) == ({message.id: GiveBackReason.POISON_CHECK_UNAVAILABLE}, {})
    assert list(wire_ingest(world.app).ingest([message]).outcomes.values()) == [Outcome.DUPLICATE]


def test_the_metric_of_records_given_back_has_a_total_and_one_value_per_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World(nodes=("a", "b"))
    world.ports.seam.before = fail_commits_of("a", Transient("throttled"))
    records = [
        {"messageId": message.id, "body": message.text, "attributes": {"SentTimestamp": "1770120000000"}}
        for message in (world.message(XID_79, node="a"), world.message(XID_79, node="b"))
    ]
    failures = ingest({"Records": records}, world.app)["batchItemFailures"]
    assert failures == [{"itemIdentifier": records[0]["messageId"]}]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    total, by_reason = [line for line in lines if "RecordsGivenBack" in line]
    (dimensions,) = (set(names) for names in total["_aws"]["CloudWatchMetrics"][0]["Dimensions"])
    (with_reason,) = (set(names) for names in by_reason["_aws"]["CloudWatchMetrics"][0]["Dimensions"])
    assert with_reason == dimensions | {"reason"}
    assert total["RecordsGivenBack"] == by_reason["RecordsGivenBack"] == [1.0]
    assert by_reason["reason"] == "state_unavailable"


def test_lines_that_were_not_understood_are_counted_in_a_metric_and_logged_with_their_record(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    damaged = world.message("[ 1.0] NVRM: Xid (PCI:0000:c1:00): abc, pid=1", record_id="r-damaged")
    event = {"messageId": "m-1", "body": damaged.text, "attributes": {"SentTimestamp": "1770120000000"}}
    assert ingest({"Records": [event]}, world.app)["batchItemFailures"] == []
    (metrics,) = (json.loads(line) for line in capsys.readouterr().out.splitlines() if "LinesNotUnderstood" in line)
    assert metrics["LinesNotUnderstood"] == [1]
    (line,) = logged(caplog, "record_not_understood")
    assert (line["record_id"], line["lines"]) == ("r-damaged", 1)
