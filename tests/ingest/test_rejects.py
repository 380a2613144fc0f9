"""Rejects: an unusable record is stored with its reason and bytes, and can be retried."""

from __future__ import annotations

import logging
from datetime import timedelta
from random import Random

import pytest

from faultbridge.decide.normalize.trust import Trust
from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.records import CANARY
from faultbridge.model.storage import keys
from faultbridge.model.storage.rejects import Reject, counter
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import Message, encode_message, raw_key
from faultbridge.model.storage.writes import WORK, Key, Work
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ingest.rejects import MAX_PER_HOUR, Rejects
from tests.races import run_before_write
from tests.sim.fakes import FakeObjects, FakeQueue, FakeTable, ManualClock, raise_once

UNKNOWN = Rejected("unknown_node", "ip-10-0-0-9")
GARBLED = Rejected("not_xml", "no element found")


def new_rejects() -> Rejects:
    clock = ManualClock()
    return Rejects(FakeTable(clock), FakeObjects(), FakeQueue(clock), clock)


def message(rejects: Rejects, record_id: str = "r-1", body: bytes = b"<oops", node: str | None = "n-1") -> Message:
    return Message(record_id, "nvidia-smi-xml", "train-a", rejects.clock.now(), node=node, body=body)


def delivery(rejects: Rejects, sent: Message) -> Delivery:
    return Delivery("1", encode_message(sent), rejects.clock.now())


def queued(rejects: Rejects) -> list[str]:
    assert isinstance(rejects.queue, FakeQueue)
    return [waiting.body for waiting in rejects.queue.messages]


def pass_time(rejects: Rejects, **units: float) -> None:
    assert isinstance(rejects.clock, ManualClock)
    rejects.clock.advance(timedelta(**units))


def retry_due(rejects: Rejects) -> int:
    """Retry the rejects whose timer is due, as the sweep does."""
    rows = (
        row
        for timers in Work.RETRY.partitions()
        for row in rejects.table.query(timers, up_to=now(rejects), index=WORK).items
    )
    return sum(rejects.retry_at(Key(str(row["pk"]), str(row["sk"]))) for row in rows)


def now(rejects: Rejects) -> str:
    return to_text(rejects.clock.now())


def test_a_reject_has_its_record_its_reason_and_its_bytes() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, GARBLED)
    (reject,) = rejects.list("train-a")
    assert (reject.record_id, reject.reason, reject.detail) == ("r-1", "not_xml", "no element found")
    assert (reject.message.source, reject.message.node, reject.size) == ("nvidia-smi-xml", "n-1", 5)
    assert rejects.raw(reject) == b"<oops"


def test_a_record_rejected_again_is_one_reject() -> None:
    rejects = new_rejects()
    received = delivery(rejects, message(rejects))
    rejects.reject(received, None, GARBLED)
    pass_time(rejects, minutes=6)
    rejects.reject(received, None, GARBLED)
    assert len(list(rejects.list("train-a"))) == 1


def test_a_message_without_the_record_format_is_stored_with_its_text() -> None:
    rejects = new_rejects()
    rejects.reject(Delivery("1", "not json", rejects.clock.now()), None, Rejected("not_a_record", "no JSON"))
    (reject,) = rejects.list("-")
    assert reject.record_id.startswith("unread-")
    assert rejects.raw(reject) == b"not json"
    rejects.retry(reject)
    assert queued(rejects) == ["not json"]


def test_a_record_of_an_unregistered_cluster_is_listed_under_a_dash() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, Rejected("unknown_cluster", "train-a"))
    assert [reject.message.cluster for reject in rejects.list("-")] == ["train-a"]


def test_a_large_record_is_not_stored_twice() -> None:
    rejects = new_rejects()
    key = raw_key("train-a", rejects.clock.now(), b"large")
    rejects.objects.put(key, b"large")
    sent = Message("r-1", "nvidia-smi-xml", "train-a", rejects.clock.now(), pointer=key)
    rejects.reject(delivery(rejects, sent), None, GARBLED)
    (reject,) = rejects.list("train-a")
    assert (reject.raw, rejects.raw(reject)) == (key, b"large")


def test_a_large_record_is_retried_by_its_pointer() -> None:
    rejects = new_rejects()
    body = Random(7).randbytes(400_000)
    key = raw_key("train-a", rejects.clock.now(), body)
    rejects.objects.put(key, body)
    sent = Message("r-1", "nvidia-smi-xml", "train-a", rejects.clock.now(), pointer=key)
    rejects.reject(delivery(rejects, sent), None, UNKNOWN)
    rejects.retry(next(rejects.list("train-a")))
    (again,) = map(decode_message, queued(rejects))
    assert (again.record_id, again.pointer, again.body) == ("r-1", key, None)


def test_a_retry_sends_the_record_with_its_id_and_times_and_deletes_the_reject() -> None:
    rejects = new_rejects()
    sent = message(rejects)
    received = delivery(rejects, sent)
    rejects.reject(received, None, UNKNOWN)
    pass_time(rejects, hours=1)
    rejects.retry(next(rejects.list("train-a")))
    (again,) = map(decode_message, queued(rejects))
    assert (again.record_id, again.sent_at, again.body) == (sent.record_id, sent.sent_at, sent.body)
    assert again.received_at == received.received_at
    assert list(rejects.list("train-a")) == []


def test_a_record_rejected_again_during_its_retry_stays_a_reject(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rejects = new_rejects()
    received = delivery(rejects, message(rejects))
    rejects.reject(received, None, UNKNOWN)
    (first,) = rejects.list("train-a")
    pass_time(rejects, seconds=1)
    rejects.reject(received, None, UNKNOWN)
    rejects.retry(first)
    assert [one.record_id for one in rejects.list("train-a")] == ["r-1"]
    assert [record.message for record in caplog.records] == ["retried_reject_not_deleted"]


def test_a_failing_queue_leaves_the_reject() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.queue, FakeQueue)
    rejects.queue.seam.before = raise_once(("queue.send", Transient("down")))
    with pytest.raises(Transient):
        rejects.retry(next(rejects.list("train-a")))
    assert len(list(rejects.list("train-a"))) == 1


def test_a_record_that_the_queue_refuses_stays_a_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    monkeypatch.setattr(rejects.queue, "send", lambda messages: tuple(body for _, body in messages))
    (reject,) = rejects.list("train-a")
    with pytest.raises(Transient):
        rejects.retry(reject)
    assert list(rejects.list("train-a")) == [reject]


def test_an_older_rejection_does_not_replace_a_newer_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rejects = new_rejects()
    assert isinstance(rejects.table, FakeTable)
    received = delivery(rejects, message(rejects))

    def reject_later() -> None:
        pass_time(rejects, minutes=6)
        rejects.reject(received, None, Rejected("not_xml", "found later"))

    run_before_write(rejects.table.seam, lambda _: True, reject_later)
    rejects.reject(received, None, Rejected("not_xml", "found first"))
    assert [(one.detail, one.rejected_at) for one in rejects.list("train-a")] == [("found later", rejects.clock.now())]
    assert [record.message for record in caplog.records] == ["reject_not_stored"]


def test_a_retry_without_the_bytes_is_rejected() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.objects, FakeObjects)
    rejects.objects.stored.clear()
    with pytest.raises(Rejected, match="raw_gone"):
        rejects.retry(next(rejects.list("train-a")))
    assert queued(rejects) == []


def test_bytes_that_were_replaced_after_the_reject_are_not_retried() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    (reject,) = rejects.list("train-a")
    rejects.objects.put(reject.raw, b"<other")
    with pytest.raises(Rejected, match="body_changed"):
        rejects.retry(reject)
    assert queued(rejects) == []


def test_a_reject_without_its_bytes_stays_and_is_not_retried_automatically(caplog: pytest.LogCaptureFixture) -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.objects, FakeObjects)
    rejects.objects.stored.clear()
    pass_time(rejects, hours=1)
    assert retry_due(rejects) == 0
    (line,) = [vars(record) for record in caplog.records if record.message == "reject_retries_stopped"]
    assert (line["reason"], line["cluster"], line["record_ids"]) == ("raw_gone", "train-a", ["r-1"])
    assert len(list(rejects.list("train-a"))) == 1
    assert [row for timers in Work.RETRY.partitions() for row in rejects.table.query(timers, index=WORK).items] == []


def test_a_record_of_an_unknown_node_is_retried_automatically() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert retry_due(rejects) == 0
    pass_time(rejects, minutes=2)
    assert retry_due(rejects) == 1
    assert retry_due(rejects) == 0
    assert len(queued(rejects)) == 1


@pytest.mark.parametrize("hours", [-25, 25])
def test_a_node_cannot_state_when_its_rejected_record_arrived(hours: int) -> None:
    rejects = replace(new_rejects(), trust=Trust(required=True))
    arrived = rejects.clock.now()
    sent = replace(message(rejects), received_at=arrived + timedelta(hours=hours))
    rejects.reject(replace(delivery(rejects, sent), sender="AROANODE:i-0123456789abcdef0"), None, UNKNOWN)
    (reject,) = rejects.list("train-a")
    assert (reject.message.received_at, reject.due_at) == (arrived, arrived + timedelta(minutes=1))


def test_invalid_input_is_never_retried_automatically() -> None:
    rejects = new_rejects()
    rejects.reject(delivery(rejects, message(rejects)), None, GARBLED)
    pass_time(rejects, hours=3)
    assert retry_due(rejects) == 0


def test_retries_of_an_unknown_node_become_rarer_and_stop_after_a_day() -> None:
    rejects = new_rejects()
    text, received = encode_message(message(rejects)), rejects.clock.now()
    rejects.reject(Delivery("1", text, received), None, UNKNOWN)
    retries = 0
    for _ in range(2000):
        pass_time(rejects, minutes=1)
        if retry_due(rejects):
            retries += 1
            rejects.reject(Delivery("2", queued(rejects)[-1], rejects.clock.now()), None, UNKNOWN)
    assert retries == 12
    assert [one.due_at for one in rejects.list("train-a")] == [None]


def test_a_faulty_agent_does_not_fill_the_table_or_the_bucket() -> None:
    rejects = new_rejects()
    for number in range(MAX_PER_HOUR + 50):
        sent = message(rejects, f"r-{number}", body=f"bad {number}".encode())
        rejects.reject(delivery(rejects, sent), None, GARBLED)
    assert isinstance(rejects.objects, FakeObjects)
    assert len(list(rejects.list("train-a"))) == MAX_PER_HOUR
    assert len(rejects.objects.stored) == MAX_PER_HOUR
    assert rejects.dropped("train-a") == 50
    pass_time(rejects, hours=1)
    rejects.reject(delivery(rejects, message(rejects, "next-hour")), None, GARBLED)
    assert rejects.find("next-hour", "train-a") is not None


def test_a_faulty_agent_does_not_hide_the_rejects_of_another_node() -> None:
    rejects = new_rejects()
    for number in range(MAX_PER_HOUR + 1):
        rejects.reject(delivery(rejects, message(rejects, f"r-{number}")), None, GARBLED)
    rejects.reject(delivery(rejects, message(rejects, "other", node="n-2")), None, GARBLED)
    assert rejects.find("other", "train-a") is not None


@pytest.mark.parametrize("reason", ["untrusted", "unknown_cluster", "unknown_source"])
def test_an_untrusted_user_fills_no_table_whatever_nodes_and_sources_it_names(reason: str) -> None:
    rejects = new_rejects()
    for number in range(130):
        sent = replace(message(rejects, f"r-{number}", node=f"n-{number}"), source=f"source-{number}")
        rejects.reject(replace(delivery(rejects, sent), sender="AIDAUSER"), None, Rejected(reason, "train-a"))
    assert len([*rejects.list("train-a"), *rejects.list("-")]) == 100
    assert rejects.dropped("train-a") + rejects.dropped("-") == 30


def test_a_conflict_that_stored_nothing_raises_and_a_retry_succeeds() -> None:
    rejects = new_rejects()
    assert isinstance(rejects.table, FakeTable)
    rejects.table.seam.before = raise_once(("table.transact", Conflict("interference")))
    received = delivery(rejects, message(rejects))
    with pytest.raises(Transient):
        rejects.reject(received, None, GARBLED)
    rejects.reject(received, None, GARBLED)
    assert len(list(rejects.list("train-a"))) == 1


def test_a_list_of_many_pages_is_complete() -> None:
    clock = ManualClock()
    rejects = Rejects(FakeTable(clock, page_size=7), FakeObjects(), FakeQueue(clock), clock)
    for number in range(40):
        rejects.reject(delivery(rejects, message(rejects, f"r-{number:02d}")), None, GARBLED)
    assert [one.record_id for one in rejects.list("train-a")] == [f"r-{number:02d}" for number in range(40)]


def test_the_number_of_records_that_were_only_counted_is_complete_over_many_pages() -> None:
    clock = ManualClock()
    rejects = Rejects(FakeTable(clock, page_size=2), FakeObjects(), FakeQueue(clock), clock)
    for node in range(5):
        for number in range(MAX_PER_HOUR + 1):
            rejects.reject(delivery(rejects, message(rejects, f"r-{node}-{number}", node=f"n-{node}")), None, GARBLED)
    assert rejects.dropped("train-a") == 5


def test_a_rejected_canary_is_counted_for_its_sender_with_those_of_unregistered_clusters() -> None:
    message = Message("r-1", CANARY, "train-a", ManualClock().now())
    canary = Reject("train-a", message, "unknown_node", "", message.sent_at, sender="arn:1")
    node = replace(canary, message=replace(message, source="kernel-log"))
    partitions = [counter(one, message.sent_at, by_sender=True).pk for one in (canary, node)]
    assert partitions == [keys.reject_partition(keys.NO_CLUSTER), keys.reject_partition("train-a")]
