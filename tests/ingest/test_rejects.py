"""What nobody can use is kept whole, said why, and comes back when the cause is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Rejected, Transient
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ingest.rejects import MAX_AN_HOUR, Rejects
from faultbridge.simulation.fakes import FakeObjects, FakeQueue, FakeTable, ManualClock, raise_once
from faultbridge.storage import keys
from faultbridge.storage.wire.message import Message, decode_message, encode_message, raw_key
from faultbridge.storage.writes import WORK, Key
from tests.races import run_before_write

UNKNOWN = Rejected("unknown_node", "ip-10-0-0-9")
GARBLED = Rejected("not_xml", "no element found")


def made() -> Rejects:
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
    """Do as the sweep does."""
    rows = (row for timers in keys.TIMERS for row in rejects.table.query(timers, up_to=now(rejects), index=WORK).items)
    return sum(rejects.retry_at(Key(str(row["pk"]), str(row["sk"]))) for row in rows)


def now(rejects: Rejects) -> str:
    return to_text(rejects.clock.now())


def test_a_reject_says_what_why_and_where_the_bytes_are() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, GARBLED)
    (reject,) = rejects.list("train-a")
    assert (reject.record_id, reject.reason, reject.detail) == ("r-1", "not_xml", "no element found")
    assert (reject.message.source, reject.message.node, reject.size) == ("nvidia-smi-xml", "n-1", 5)
    assert rejects.raw(reject) == b"<oops"


def test_a_redelivery_of_a_reject_is_one_reject() -> None:
    rejects = made()
    came = delivery(rejects, message(rejects))
    rejects(came, None, GARBLED)
    pass_time(rejects, minutes=6)
    rejects(came, None, GARBLED)
    assert len(list(rejects.list("train-a"))) == 1


def test_a_message_that_is_none_is_kept_with_its_whole_text() -> None:
    rejects = made()
    rejects(Delivery("1", "not json", rejects.clock.now()), None, Rejected("not_a_record", "no JSON"))
    (reject,) = rejects.list("-")
    assert reject.record_id.startswith("unread-")
    assert rejects.raw(reject) == b"not json"
    rejects.retry(reject)
    assert queued(rejects) == ["not json"]


def test_a_record_of_a_cluster_that_nobody_registered_is_found_without_knowing_its_name() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, Rejected("unknown_cluster", "train-a"))
    assert [reject.message.cluster for reject in rejects.list("-")] == ["train-a"]


def test_a_large_record_is_not_kept_twice() -> None:
    rejects = made()
    key = raw_key("train-a", rejects.clock.now(), b"large")
    rejects.objects.put(key, b"large")
    sent = Message("r-1", "nvidia-smi-xml", "train-a", rejects.clock.now(), pointer=key)
    rejects(delivery(rejects, sent), None, GARBLED)
    (reject,) = rejects.list("train-a")
    assert (reject.raw, rejects.raw(reject)) == (key, b"large")


def test_a_retry_sends_the_same_record_with_its_own_id_and_times_and_takes_the_row_away() -> None:
    rejects = made()
    sent = message(rejects)
    came = delivery(rejects, sent)
    rejects(came, None, UNKNOWN)
    pass_time(rejects, hours=1)
    rejects.retry(next(rejects.list("train-a")))
    (again,) = map(decode_message, queued(rejects))
    assert (again.record_id, again.sent_at, again.body) == (sent.record_id, sent.sent_at, sent.body)
    assert again.received_at == came.received_at
    assert list(rejects.list("train-a")) == []


def test_a_retry_that_is_rejected_again_before_the_row_is_gone_stays_a_reject() -> None:
    rejects = made()
    came = delivery(rejects, message(rejects))
    rejects(came, None, UNKNOWN)
    (first,) = rejects.list("train-a")
    pass_time(rejects, seconds=1)
    rejects(came, None, UNKNOWN)
    rejects.retry(first)
    assert [one.record_id for one in rejects.list("train-a")] == ["r-1"]


def test_a_queue_that_takes_nothing_leaves_the_row() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.queue, FakeQueue)
    rejects.queue.seam.before = raise_once(("queue.send", Transient("down")))
    with pytest.raises(Transient):
        rejects.retry(next(rejects.list("train-a")))
    assert len(list(rejects.list("train-a"))) == 1


def test_a_record_that_the_queue_refuses_stays_a_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, UNKNOWN)
    monkeypatch.setattr(rejects.queue, "send", lambda messages: tuple(body for _, body in messages))
    (reject,) = rejects.list("train-a")
    with pytest.raises(Transient):
        rejects.retry(reject)
    assert list(rejects.list("train-a")) == [reject]


def test_a_slow_worker_does_not_write_over_what_a_quicker_one_found_later() -> None:
    rejects = made()
    assert isinstance(rejects.table, FakeTable)
    came = delivery(rejects, message(rejects))

    def quicker() -> None:
        pass_time(rejects, minutes=6)
        rejects(came, None, Rejected("not_xml", "found later"))

    run_before_write(rejects.table.seam, lambda _: True, quicker)
    rejects(came, None, Rejected("not_xml", "found first"))
    assert [(one.detail, one.rejected_at) for one in rejects.list("train-a")] == [("found later", rejects.clock.now())]


def test_a_retry_without_the_raw_record_says_so() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.objects, FakeObjects)
    rejects.objects.stored.clear()
    with pytest.raises(Rejected, match="raw_gone"):
        rejects.retry(next(rejects.list("train-a")))
    assert queued(rejects) == []


def test_a_reject_whose_raw_record_is_gone_stays_and_is_not_tried_again_by_itself() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert isinstance(rejects.objects, FakeObjects)
    rejects.objects.stored.clear()
    pass_time(rejects, hours=1)
    assert retry_due(rejects) == 0
    assert len(list(rejects.list("train-a"))) == 1
    assert [row for timers in keys.TIMERS for row in rejects.table.query(timers, index=WORK).items] == []


def test_a_node_that_is_registered_later_gets_its_records_by_itself() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, UNKNOWN)
    assert retry_due(rejects) == 0
    pass_time(rejects, minutes=2)
    assert retry_due(rejects) == 1
    assert retry_due(rejects) == 0
    assert len(queued(rejects)) == 1


def test_bad_input_is_never_tried_again_by_itself() -> None:
    rejects = made()
    rejects(delivery(rejects, message(rejects)), None, GARBLED)
    pass_time(rejects, hours=3)
    assert retry_due(rejects) == 0


def test_a_node_that_stays_unknown_is_asked_for_ever_less_often_and_not_after_a_day() -> None:
    rejects = made()
    text, received = encode_message(message(rejects)), rejects.clock.now()
    rejects(Delivery("1", text, received), None, UNKNOWN)
    tries = 0
    for _ in range(2000):
        pass_time(rejects, minutes=1)
        if retry_due(rejects):
            tries += 1
            rejects(Delivery("2", queued(rejects)[-1], rejects.clock.now()), None, UNKNOWN)
    assert tries == 12
    assert [one.due_at for one in rejects.list("train-a")] == [None]


def test_a_broken_agent_fills_neither_the_table_nor_the_bucket() -> None:
    rejects = made()
    for number in range(MAX_AN_HOUR + 50):
        sent = message(rejects, f"r-{number}", body=f"bad {number}".encode())
        rejects(delivery(rejects, sent), None, GARBLED)
    assert isinstance(rejects.objects, FakeObjects)
    assert len(list(rejects.list("train-a"))) == MAX_AN_HOUR
    assert len(rejects.objects.stored) == MAX_AN_HOUR
    assert rejects.dropped("train-a") == 50
    pass_time(rejects, hours=1)
    rejects(delivery(rejects, message(rejects, "next-hour")), None, GARBLED)
    assert rejects.find("next-hour", "train-a") is not None


def test_a_broken_agent_does_not_hide_another_node() -> None:
    rejects = made()
    for number in range(MAX_AN_HOUR + 1):
        rejects(delivery(rejects, message(rejects, f"r-{number}")), None, GARBLED)
    rejects(delivery(rejects, message(rejects, "other", node="n-2")), None, GARBLED)
    assert rejects.find("other", "train-a") is not None


def test_a_lost_race_that_kept_nothing_is_tried_again() -> None:
    rejects = made()
    assert isinstance(rejects.table, FakeTable)
    rejects.table.seam.before = raise_once(("table.transact", Conflict("interference")))
    came = delivery(rejects, message(rejects))
    with pytest.raises(Transient):
        rejects(came, None, GARBLED)
    rejects(came, None, GARBLED)
    assert len(list(rejects.list("train-a"))) == 1


def test_a_list_over_many_pages_is_whole() -> None:
    clock = ManualClock()
    rejects = Rejects(FakeTable(clock, page_size=7), FakeObjects(), FakeQueue(clock), clock)
    for number in range(40):
        rejects(delivery(rejects, message(rejects, f"r-{number:02d}")), None, GARBLED)
    assert [one.record_id for one in rejects.list("train-a")] == [f"r-{number:02d}" for number in range(40)]
