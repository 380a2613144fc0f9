"""Waiting: which records share a message and a call, how long they wait for it, and what no wait delays."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model import names
from faultbridge.model.storage.wire.decode_message import split_records
from faultbridge.model.storage.wire.message import (
    MAX_MESSAGE_BYTES,
    MAX_SHARED_RECORDS,
    MAX_UNPACKED_BYTES,
    Message,
    encode_message,
    raw_key,
)
from faultbridge.model.values import replace
from faultbridge.node.agent.delivery.outbox import Outbox, Spool
from faultbridge.node.agent.delivery.records import OutgoingRecord, Wait, new_record_id
from faultbridge.node.agent.delivery.sender import SHARE_SECONDS, Sender
from faultbridge.node.agent.delivery.transport import text_of, to_messages
from tests.agent.fakes import FakeTransport, ManualClock
from tests.builders import NOON

HOLD, INTERVAL = 100.0, 120.0


class Node:
    """The sender of one node, after it sent what an earlier run left; `sent` are the ids of each call with its time."""

    def __init__(self, folder: Path, hold: float = HOLD) -> None:
        self.clock, self.transport = ManualClock(), FakeTransport()
        self.outbox = Outbox(Spool(folder, 64_000_000))
        self.beats = 0
        self.sender = Sender(
            self.outbox, self, self.clock, self._heartbeat, INTERVAL, hold, random=random.Random(1)
        )  # fmt: skip
        self.sent: list[tuple[float, list[str]]] = []
        self.start = self.clock.uptime
        self.seconds(1)
        self.sent.clear()

    def send_batch(self, records):
        self.sent.append((self.clock.uptime - self.start, [one.record_id for one in records]))
        return self.transport.send_batch(records)

    put_object = None

    def _heartbeat(self) -> OutgoingRecord:
        self.beats += 1
        return OutgoingRecord(f"beat-{self.beats}", "g", '{"v":1}')

    def store(self, name: str, wait: Wait) -> None:
        assert self.outbox.store(OutgoingRecord(name, "g", '{"v":1}', wait=wait))

    def seconds(self, number: float) -> None:
        for _ in range(int(number)):
            while self.sender.send_due():
                pass
            self.clock.advance(1)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_an_urgent_record_is_sent_at_once_and_takes_the_waiting_ones_along_in_their_order(node: Node) -> None:
    node.store("mild", Wait.HOLD)
    node.store("changed", Wait.SHORT)
    node.seconds(3)
    assert node.sent == []
    node.store("xid 79", Wait.NONE)
    node.seconds(1)
    assert [names for _, names in node.sent] == [["mild", "changed", "xid 79"]]


def test_a_record_that_may_be_held_waits_for_the_heartbeat(node: Node) -> None:
    node.seconds(60)
    node.store("mild", Wait.HOLD)
    node.seconds(70)
    assert node.sent == [(INTERVAL, ["beat-2", "mild"])]


def test_a_record_waits_no_longer_than_the_hold_time(node: Node) -> None:
    node.store("first", Wait.HOLD)
    node.seconds(50)
    node.store("second", Wait.HOLD)
    node.seconds(60)
    assert node.sent == [(1 + HOLD, ["beat-2", "first", "second"])]


def test_a_hold_time_of_zero_holds_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, hold=0)
    node.store("mild", Wait.HOLD)
    node.seconds(1)
    assert [names for _, names in node.sent] == [["mild"]]


def test_changed_output_of_a_probe_waits_only_for_some_seconds_behind_one_that_is_held(node: Node) -> None:
    node.store("mild", Wait.HOLD)
    node.seconds(10)
    node.store("changed", Wait.SHORT)
    node.seconds(SHARE_SECONDS + 2)
    ((at, names),) = node.sent
    assert (at, names) == (11 + SHARE_SECONDS, ["mild", "changed"])


def test_changed_output_whose_call_failed_is_sent_after_the_pause_and_not_after_the_hold_time(node: Node) -> None:
    node.store("changed", Wait.SHORT)
    node.transport.down = True
    node.seconds(SHARE_SECONDS + 2)
    node.transport.down = False
    node.seconds(3)
    assert [one.record_id for one in node.transport.accepted] == ["beat-1", "changed"]


def test_ten_records_are_sent_before_the_hold_time(node: Node) -> None:
    for number in range(11):
        node.store(f"mild-{number}", Wait.HOLD)
    node.seconds(1)
    assert [len(names) for _, names in node.sent] == [10]


def test_a_node_that_sends_anyway_makes_no_call_for_its_heartbeat(node: Node) -> None:
    for number in range(20):
        node.seconds(32)
        node.store(f"xid-{number}", Wait.NONE)
    node.seconds(1)
    assert [len(names) for _, names in node.sent] == [2] * 20, "each call has a record and a heartbeat"


def test_a_call_shortly_after_a_heartbeat_has_none(node: Node) -> None:
    node.seconds(20)
    node.store("xid", Wait.NONE)
    node.seconds(1)
    assert [names for _, names in node.sent] == [["xid"]]
    node.seconds(120)
    assert [names for _, names in node.sent[1:]] == [["beat-2"]]


def test_a_heartbeat_that_was_not_accepted_is_due_again_after_a_minute(node: Node) -> None:
    node.seconds(INTERVAL - 2)
    node.transport.down = True
    node.seconds(5)
    node.transport.down = False
    node.seconds(60)
    accepted = [one.record_id for one in node.transport.accepted]
    assert accepted == ["beat-1", "beat-3"]
    assert node.sent[-1][0] == INTERVAL + 60


def test_after_a_restart_every_record_is_sent_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.store("mild", Wait.HOLD)
    again = Node(tmp_path)
    assert [one.record_id for one in again.transport.accepted] == ["beat-1", "mild"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 9) | st.integers(60_000, MAX_MESSAGE_BYTES - 2)),
        max_size=30,
    )
)
def test_every_record_is_in_one_message_of_its_group_within_the_limits_and_in_order(drawn) -> None:
    records = [OutgoingRecord(f"r-{n}", group, json.dumps("x" * size)) for n, (group, size) in enumerate(drawn)]
    messages = to_messages(records)
    assert sorted((one for message in messages for one in message), key=records.index) == records
    for message in messages:
        assert len({one.group for one in message}) == 1
        assert len(message) <= MAX_SHARED_RECORDS
        assert len(text_of(message)) <= MAX_MESSAGE_BYTES
    for group in ("a", "b"):
        in_order = [one for message in messages for one in message if one.group == group]
        assert in_order == [one for one in records if one.group == group]


def _packed(number: int, size: int, pointer: str | None = None) -> OutgoingRecord:
    body = None if pointer else b"x" * size
    message = Message(f"r-{number}", "kernel-log", "train-a", NOON, body=body, pointer=pointer)
    return OutgoingRecord(message.record_id, "g", encode_message(message, compact=True))


def test_the_records_of_a_message_are_unpacked_as_small_as_one_record() -> None:
    half = MAX_UNPACKED_BYTES // 2
    records = [_packed(1, half), _packed(2, half), _packed(3, half), _packed(4, 1), _packed(5, half)]
    messages = to_messages(records)
    assert [[one.record_id for one in message] for message in messages] == [["r-1", "r-2"], ["r-3", "r-4"], ["r-5"]]
    assert [len(split_records(text_of(message))) for message in messages] == [2, 2, 1]


def test_a_record_whose_body_is_in_the_bucket_shares_no_message() -> None:
    stored = _packed(2, 0, pointer=raw_key("train-a", NOON, b"much"))
    messages = to_messages([_packed(1, 9), stored, _packed(3, 9), _packed(4, 9)])
    assert [[one.record_id for one in message] for message in messages] == [["r-1"], ["r-2"], ["r-3", "r-4"]]


def test_records_of_one_call_share_a_message() -> None:
    records = [OutgoingRecord(f"r-{n}", "g", f'{{"v":1,"n":{n}}}') for n in range(3)]
    (message,) = to_messages(records)
    assert split_records(text_of(message)) == tuple(one.text for one in records)


def test_a_record_that_the_queue_refuses_within_a_message_is_put_into_quarantine_alone(node: Node) -> None:
    refuse = node.transport.send_batch

    def send_batch(records):
        """Refuse the message that contains the bad record."""
        bad = any(one.record_id == "bad" for one in records)
        return (set(), {one.record_id for one in records}) if bad else refuse(records)

    node.transport.send_batch = send_batch
    for name in ("one", "bad", "two"):
        node.store(name, Wait.NONE)
    node.seconds(3)
    assert [one.record_id for one in node.transport.accepted[1:]] == ["one", "two"]
    assert (node.outbox.quarantined, node.outbox.waiting) == (1, 0)


def test_the_wait_of_a_record_is_not_part_of_its_file() -> None:
    record = OutgoingRecord("r", "g", '{"v":1}', wait=Wait.HOLD)
    assert OutgoingRecord.from_bytes(record.to_bytes()).wait is Wait.NONE
    assert replace(record, wait=Wait.NONE) == record


def test_record_ids_are_short_valid_and_different() -> None:
    ids = {new_record_id() for _ in range(5_000)}
    assert len(ids) == 5_000
    assert {len(names.record_id(one)) for one in ids} == {16}
