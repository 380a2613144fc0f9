"""One record that cannot be sent does not stop the others: it is postponed, then put into quarantine and reported."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from faultbridge.decode import registry
from faultbridge.model.fault_enums import Severity
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.values import replace
from faultbridge.node.agent.delivery.outbox import BLOCK_BYTES, Outbox, QuarantineNotice, Spool
from faultbridge.node.agent.delivery.records import OutgoingRecord, RecordPacker, Wait
from faultbridge.node.agent.delivery.sender import (
    MAX_ACCESS_BACKOFF_SECONDS,
    Failure,
    PostponedRecords,
    Sender,
    ServiceClock,
)
from faultbridge.node.agent.delivery.transport import AwsTransport, Call, Credentials, HttpResponse
from tests.agent.fakes import ManualClock

PACKER = RecordPacker("train-a", "n-1", "i-0123456789abcdef0", "b1", has_bucket=True)
ACCEPTED = HttpResponse(200, b"{}")
MINUTE, HOUR = 60, 3600


class Site:
    """An agent's sender with a scripted AWS: `refuse` returns the response to a call, or None to accept it."""

    def __init__(self, folder: Path, refuse) -> None:
        self.clock, self.refuse = ManualClock(), refuse
        self.accepted: list[str] = []
        self.calls = self.object_calls = self.heartbeats = 0
        keys = Credentials("A", "S", "T")
        transport = AwsTransport(
            "https://sqs.us-east-1.amazonaws.com/1/q", "bkt", "us-east-1", lambda: keys, ServiceClock(self.clock),
            http_call=self._call, environment={},
        )  # fmt: skip
        self.outbox = Outbox(Spool(folder, 64 << 20))
        self.notice = QuarantineNotice(PACKER, self.outbox, self.clock)
        self.sender = Sender(
            self.outbox, transport, self.clock, self._heartbeat, random=random.Random(1), report=self.notice
        )

    def _heartbeat(self) -> OutgoingRecord:
        self.heartbeats += 1
        return self.pack("heartbeat", b'{"heartbeat":1}')

    def _call(self, call: Call, _headers: object) -> HttpResponse:
        self.calls += 1
        self.object_calls += ".s3." in call.url
        refused = self.refuse(call)
        if refused is None and ".s3." not in call.url:
            self.accepted += [entry["MessageBody"] for entry in json.loads(call.body)["Entries"]]
        return refused or ACCEPTED

    def pack(self, source: str, body: bytes, wait: Wait = Wait.NONE) -> OutgoingRecord:
        record = PACKER.pack(source, body, self.clock.now(), wait=wait)
        assert record is not None
        return record

    def store(self, *records: OutgoingRecord) -> None:
        for record in records:
            assert self.outbox.store(record)

    def large(self) -> OutgoingRecord:
        """A record whose body needs an object in the bucket."""
        return self.pack("nvidia-smi-xml", random.Random(1).randbytes(400_000))

    def lines(self, count: int = 20) -> list[OutgoingRecord]:
        return [self.pack("kernel-log", b"NVRM: Xid 79 %d" % number) for number in range(count)]

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            while self.sender.send_due():
                pass
            self.clock.advance(1)

    def bodies(self, source: str) -> list[bytes]:
        messages = [decode_message(text) for message in self.accepted for text in split_records(message)]
        return [one.body or b"" for one in messages if one.source == source]


def poison(call: Call) -> HttpResponse | None:
    """SQS refuses the whole call because of one message."""
    if b"POISON" in call.body:
        return HttpResponse(400, b'{"__type": "com.amazonaws.sqs#InvalidMessageContents"}')
    return None


def s3_response(status: int, code: str):
    """The bucket gives this response to every object."""
    response = HttpResponse(status, f"<Error><Code>{code}</Code></Error>".encode())
    return lambda call: response if ".s3." in call.url else None


s3_refuses = s3_response(400, "InvalidRequest")
s3_denies = s3_response(403, "AccessDenied")


def poisoned(record: OutgoingRecord) -> OutgoingRecord:
    return OutgoingRecord(record.record_id, record.group, "POISON" + record.text)


@pytest.mark.parametrize("place", [0, 7, 20])
def test_a_message_that_the_queue_refuses_with_its_batch_does_not_stop_the_others(tmp_path, place):
    site = Site(tmp_path, poison)
    records = site.lines()
    records.insert(place, poisoned(site.pack("kernel-log", b"x")))
    site.store(*records)
    site.run(5)
    assert len(site.bodies("kernel-log")) == 20
    site.run(2 * MINUTE)
    assert (site.outbox.quarantined, site.outbox.waiting) == (1, 0)


def test_an_object_that_the_bucket_refuses_does_not_stop_the_others(tmp_path):
    site = Site(tmp_path, s3_refuses)
    site.store(site.large(), *site.lines())
    site.run(5)
    assert len(site.bodies("kernel-log")) == 20
    site.run(2 * MINUTE)
    assert (site.outbox.quarantined, site.outbox.waiting) == (1, 0)
    assert "InvalidRequest" in site.outbox.refusal


def test_a_record_in_quarantine_is_reported_as_a_notice_of_the_node(tmp_path):
    site = Site(tmp_path, s3_refuses)
    site.store(site.large())
    site.run(3 * MINUTE)
    (notice,) = site.bodies("faultbridge")
    (found,) = registry.decode("faultbridge", notice)
    assert (found.code, found.severity) == ("agent.notice", Severity.INFO)
    assert "a record cannot be sent and is kept on the node" in found.message


def test_a_refused_notice_causes_no_other_notices(tmp_path):
    def refuse_notices(call: Call) -> HttpResponse | None:
        return poison(call) or (HttpResponse(400, b"?") if rb"\"faultbridge\"" in call.body else None)

    site = Site(tmp_path, refuse_notices)
    site.store(poisoned(site.lines()[0]))
    site.outbox.spool.store(site.lines()[0])
    site.run(HOUR // 2)
    assert site.outbox.waiting == 0
    assert site.outbox.quarantined == 2
    assert site.bodies("faultbridge") == []


@pytest.mark.parametrize(
    "response",
    [
        HttpResponse(503, b""),
        HttpResponse(403, b'{"__type": "AccessDeniedException"}'),
        HttpResponse(400, b'{"__type": "com.amazonaws.sqs#QueueDoesNotExist"}'),
        HttpResponse(400, b'{"__type": "ExpiredTokenException"}'),
        HttpResponse(400, b'{"__type": "ThrottlingException"}'),
    ],
)
def test_a_queue_that_refuses_everything_puts_nothing_into_quarantine(tmp_path, response):
    down = [True]
    site = Site(tmp_path, lambda _call: response if down[0] else None)
    site.store(*site.lines())
    site.run(HOUR)
    assert (site.outbox.quarantined, site.outbox.waiting) == (0, 20)
    assert site.calls < 250
    down[0] = False
    site.run(2 * MINUTE)
    assert len(site.bodies("kernel-log")) == 20


def test_an_unknown_refusal_of_every_call_puts_nothing_into_quarantine(tmp_path):
    down = [True]
    site = Site(tmp_path, lambda _call: HttpResponse(400, b"?") if down[0] else None)
    site.store(*site.lines())
    site.run(10 * MINUTE)
    assert (site.outbox.quarantined, site.outbox.waiting) == (0, 20)
    down[0] = False
    site.run(2 * MINUTE)
    assert len(site.bodies("kernel-log")) == 20


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (403, "RequestTimeTooSkewed"),
        (403, "SignatureDoesNotMatch"),
        (403, "InvalidAccessKeyId"),
        (400, "ExpiredToken"),
        (400, "RequestTimeout"),
        (400, "AuthorizationHeaderMalformed"),
        (400, "KMS.DisabledException"),
        (404, "NoSuchBucket"),
    ],
)
def test_a_bucket_that_refuses_access_postpones_its_records_and_gets_them_after_the_repair(tmp_path, status, code):
    denies, down = s3_response(status, code), [True]
    site = Site(tmp_path, lambda call: denies(call) if down[0] else None)
    site.store(site.large(), *site.lines())
    site.run(HOUR)
    assert (len(site.bodies("kernel-log")), site.outbox.waiting, site.outbox.quarantined) == (20, 1, 0)
    down[0] = False
    site.run(int(MAX_ACCESS_BACKOFF_SECONDS) + MINUTE)
    assert (len(site.bodies("nvidia-smi-xml")), site.outbox.waiting) == (1, 0)


def test_a_bucket_that_refuses_access_gets_few_calls_for_each_record(tmp_path):
    site = Site(tmp_path, s3_denies)
    site.store(*(site.large() for _ in range(3)))
    site.run(HOUR)
    assert site.object_calls <= 3 * 20
    before = site.object_calls
    site.run(HOUR)
    assert site.object_calls - before <= 3 * 8


def test_the_pauses_of_a_record_send_neither_held_records_nor_an_early_heartbeat(tmp_path):
    site = Site(tmp_path, s3_denies)
    site.sender.heartbeat_seconds = site.sender.hold_seconds = 200
    site.store(site.large())
    site.run(1)
    site.store(site.pack("kernel-log", b"NVRM: Xid 31", Wait.HOLD))
    site.run(100)
    assert site.object_calls > 5
    assert (site.bodies("kernel-log"), site.heartbeats) == ([], 1)


def test_a_new_line_is_sent_before_records_whose_pauses_are_over(tmp_path):
    site = Site(tmp_path, s3_denies)
    site.store(*(site.large() for _ in range(30)))
    site.run(MINUTE)
    site.clock.advance(MAX_ACCESS_BACKOFF_SECONDS)
    before = site.object_calls
    site.store(site.pack("kernel-log", b"NVRM: Xid 79"))
    site.sender.send_due()
    assert (len(site.bodies("kernel-log")), site.object_calls) == (1, before)


def test_only_a_refusal_puts_a_record_into_quarantine_that_was_refused_often_before():
    records = PostponedRecords(random.Random(1))
    for _ in range(5):
        assert not records.add("1", 0.0, Failure.REFUSAL, 0), "the queue accepted no other record"
    assert not records.add("1", 0.0, Failure.OTHER, 1)
    assert not records.add("1", 0.0, Failure.ACCESS, 1)
    assert records.add("1", 0.0, Failure.REFUSAL, 1)


def test_a_record_in_memory_that_gets_another_name_on_disk_is_sent_again_and_no_name_remains(tmp_path):
    site = Site(tmp_path, s3_denies)
    held = site.large()
    site.outbox.hold_in_memory(held)
    site.run(1)
    assert site.outbox.is_safe(held)
    site.run(HOUR // 2)
    site.refuse = lambda _call: None
    site.run(int(MAX_ACCESS_BACKOFF_SECONDS) + MINUTE)
    assert len(site.bodies("nvidia-smi-xml")) == 1
    changed = site.pack("nvidia-smi-xml", b"<changed/>", Wait.SHORT)
    site.store(changed)
    site.run(20)
    assert len(site.bodies("nvidia-smi-xml")) == 2


def test_a_record_that_waits_for_the_access_to_the_bucket_is_reported_as_a_notice_of_the_node(tmp_path):
    site = Site(tmp_path, s3_denies)
    site.store(site.large())
    site.run(HOUR // 2)
    (notice,) = site.bodies("faultbridge")
    (found,) = registry.decode("faultbridge", notice)
    assert "a record cannot be sent yet and is sent again" in found.message
    assert "AccessDenied" in found.message


def test_each_kind_of_notice_is_sent_once_in_an_hour(tmp_path):
    def refuse(call: Call) -> HttpResponse | None:
        return poison(call) or s3_denies(call)

    site = Site(tmp_path, refuse)
    site.store(site.large(), site.large())
    site.run(10 * MINUTE)
    site.store(poisoned(site.lines(1)[0]), poisoned(site.lines(1)[0]))
    site.run(HOUR // 2)
    postponed, quarantined = site.bodies("faultbridge")
    assert b"a record cannot be sent yet and is sent again" in postponed
    assert b"a record cannot be sent and is kept on the node" in quarantined
    assert site.outbox.quarantined == 2


def test_records_that_wait_for_the_access_to_the_bucket_leave_disk_space_for_probe_output(tmp_path):
    site = Site(tmp_path, s3_denies)
    site.outbox = site.sender.outbox = site.notice.outbox = Outbox(Spool(tmp_path, 4 << 20))
    while site.outbox.store_repeatable(site.large()):
        pass
    site.run(10 * MINUTE)
    assert site.outbox.store_repeatable(site.lines(1)[0])
    assert site.outbox.quarantined > 0
    quarantined, postponed = site.bodies("faultbridge")
    assert b"a record cannot be sent and is kept on the node" in quarantined
    assert b"a record cannot be sent yet and is sent again" in postponed


def test_a_notice_that_the_disk_has_no_room_for_is_stored_when_the_next_record_is_refused(tmp_path):
    site = Site(tmp_path, s3_refuses)
    full = Outbox(Spool(tmp_path / "full", 0))
    site.notice.outbox = full
    site.notice("a record cannot be sent", "first")
    assert full.dropped == 1
    site.notice.outbox = site.outbox
    site.notice("a record cannot be sent", "second")
    assert site.outbox.waiting == 1


def test_a_bucket_that_does_not_respond_postpones_its_records_and_stops_no_others(tmp_path):
    down = [True]
    site = Site(tmp_path, lambda call: HttpResponse(503, b"") if down[0] and ".s3." in call.url else None)
    site.store(site.large(), *site.lines())
    site.run(HOUR)
    assert (len(site.bodies("kernel-log")), site.outbox.waiting, site.outbox.quarantined) == (20, 1, 0)
    down[0] = False
    site.run(2 * MINUTE)
    assert site.outbox.waiting == 0


def test_a_restart_sends_the_records_in_quarantine_again(tmp_path):
    site = Site(tmp_path, s3_refuses)
    site.store(site.large())
    site.run(2 * MINUTE)
    assert site.outbox.quarantined == 1
    fixed = Site(tmp_path, lambda _call: None)
    fixed.run(MINUTE)
    assert len(fixed.bodies("nvidia-smi-xml")) == 1
    assert list(tmp_path.iterdir()) == []


def test_records_in_quarantine_use_at_most_an_eighth_of_the_disk_limit(tmp_path):
    spool = Spool(tmp_path, 80 * BLOCK_BYTES)
    for number in range(20):
        spool.store(OutgoingRecord(f"r-{number}", "g", "{}"))
    kept = [spool.quarantine(f"{number:016d}") for number in range(1, 21)]
    assert all(kept)
    assert spool.used_bytes == 10 * BLOCK_BYTES == BLOCK_BYTES * sum(1 for _ in tmp_path.iterdir())


def test_the_waiting_bytes_are_those_of_the_waiting_records(tmp_path):
    outbox, waits = Outbox(Spool(tmp_path, 64 << 20)), OutgoingRecord("r-1", "g", "{}")
    assert (outbox.waiting, outbox.waiting_bytes) == (0, 0)
    for number in (1, 2, 3):
        outbox.store(replace(waits, record_id=f"r-{number}"))
    assert (outbox.waiting, outbox.waiting_bytes) == (3, 3 * BLOCK_BYTES)
    outbox.quarantine(f"{1:016d}", "refused")
    assert (outbox.waiting, outbox.waiting_bytes) == (2, 2 * BLOCK_BYTES)
    outbox.hold_in_memory(replace(waits, record_id="r-4", object_body=b"x" * 98))
    assert (outbox.waiting, outbox.waiting_bytes) == (3, 2 * BLOCK_BYTES + 100)


def test_a_refused_record_that_is_only_in_memory_is_counted_and_stops_no_others(tmp_path):
    site = Site(tmp_path, poison)
    site.outbox = site.sender.outbox = Outbox(Spool(tmp_path, 0))
    site.outbox.hold_in_memory(poisoned(site.lines()[0]))
    site.outbox.hold_in_memory(site.lines()[1])
    site.run(3 * MINUTE)
    assert (site.outbox.quarantined, site.outbox.waiting, len(site.bodies("kernel-log"))) == (1, 0, 1)
