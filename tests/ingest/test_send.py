"""Send: raw inputs reach the queue completely, in messages of a size that the queue accepts."""

from __future__ import annotations

import logging
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import MAX_MESSAGE_BYTES, Message
from faultbridge.serve.gateway.log_subscription import Forward
from faultbridge.serve.ingest.send import MAX_PIECE_BYTES, RawInput, Send, split_body
from tests.builders import NOON
from tests.sim.fakes import FakeObjects, FakeQueue, FakeReceipts, ManualClock, raise_once

LOG = RawInput("kernel-log", "train-a", b"NVRM: Xid (PCI:0000:c1:00): 79\n", node="ip-10-0-0-7")


def sender(queue: FakeQueue | None = None) -> Send:
    clock = ManualClock()
    numbers = count(1)
    return Send(
        queue=queue or FakeQueue(clock),
        objects=FakeObjects(),
        receipts=FakeReceipts(clock),
        clock=clock,
        new_id=lambda: f"record-{next(numbers)}",
        sender="test",
    )


def waiting(send: Send) -> list[str]:
    assert isinstance(send.queue, FakeQueue)
    return [message.body for message in send.queue.messages]


def test_a_message_contains_every_field_of_its_raw_input() -> None:
    send = sender()
    sent = send([RawInput("kernel-log", "train-a", b"line\n", "n-1", "i-0123456789abcdef0", "boot-7")])
    (message,) = map(decode_message, waiting(send))
    assert sent.accepted == ("record-1",)
    assert (message.source, message.cluster, message.node) == ("kernel-log", "train-a", "n-1")
    assert (message.instance_id, message.boot_id, message.body) == ("i-0123456789abcdef0", "boot-7", b"line\n")
    assert message.sent_at == send.clock.now()


def test_each_node_has_its_own_message_group() -> None:
    send = sender()
    send([LOG, RawInput("kernel-log", "train-a", b"x", node="other")])
    assert isinstance(send.queue, FakeQueue)
    assert [message.group for message in send.queue.messages] == ["train-a/ip-10-0-0-7", "train-a/other"]


def test_the_receipt_lists_exactly_the_accepted_records() -> None:
    send = sender()
    sent = send([LOG] * 25)
    assert isinstance(send.receipts, FakeReceipts)
    assert [line for _, line in send.receipts.lines] == [
        {"kind": "sent", "sender": "test", "records": list(sent.accepted)}
    ]
    assert len(sent.accepted) == 25


def test_a_refused_message_is_reported_as_refused() -> None:
    class Refusing(FakeQueue):
        def send(self, messages: object) -> tuple[str, ...]:
            return tuple(body for _, body in messages if "record-2" in body)  # type: ignore[attr-defined] # pairs

    sent = sender(Refusing())([LOG, LOG, LOG])
    assert (sent.accepted, sent.refused) == (("record-1", "record-3"), ("record-2",))


def test_a_failed_receipt_does_not_fail_the_send(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    send = sender()
    assert isinstance(send.receipts, FakeReceipts)
    send.receipts.seam.before = raise_once(("receipts.write", Transient("throttled")))
    sent = send([LOG])
    assert (sent.accepted, sent.receipts_written) == (("record-1",), False)
    assert len(waiting(send)) == 1
    assert [record.message for record in caplog.records] == ["receipts_not_written"]


def test_a_long_log_is_split_at_line_ends() -> None:
    line = b"x" * 99 + b"\n"
    send = sender()
    send([RawInput("kernel-log", "train-a", line * 5000, node="n-1")])
    bodies = [decode_message(text).body or b"" for text in waiting(send)]
    assert len(bodies) == 3
    assert all(len(body) <= MAX_PIECE_BYTES and body.endswith(b"\n") for body in bodies)
    assert b"".join(bodies) == line * 5000


def test_a_document_is_never_split() -> None:
    send = sender()
    send([RawInput("nvidia-smi-xml", "train-a", b"<gpu>\n</gpu>\n" * 50_000, node="n-1")])
    assert len(waiting(send)) == 1


def test_a_body_too_large_for_a_message_is_stored_and_the_message_points_to_it() -> None:
    body = Random(1).randbytes(400_000)
    send = sender()
    send([RawInput("nvidia-smi-xml", "train-a", body, node="n-1")])
    (message,) = map(decode_message, waiting(send))
    assert message.body is None
    assert message.pointer is not None
    assert send.objects.get(message.pointer) == body


@pytest.mark.parametrize("raw_input", [RawInput("x", "bad#name", b""), RawInput("x", "c", b"", node="a b")])
def test_invalid_names_are_rejected_before_anything_is_sent(raw_input: RawInput) -> None:
    send = sender()
    with pytest.raises(Rejected):
        send([raw_input])
    assert waiting(send) == []


def test_progress_is_called_for_every_batch() -> None:
    batches: list[int] = []
    sender()([LOG] * 23, batches.append)
    assert batches == [10, 10, 3]


@given(st.lists(st.binary(max_size=70_000).map(lambda raw: raw.replace(b"\n", b" ") + b"\n"), max_size=12))
def test_the_pieces_of_a_log_join_to_the_log(lines: list[bytes]) -> None:
    body = b"".join(lines)
    pieces = list(split_body("kernel-log", body))
    assert b"".join(pieces) == body
    assert all(len(piece) <= MAX_PIECE_BYTES for piece in pieces)
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])


def test_a_line_longer_than_a_piece_stays_whole() -> None:
    body = b"a\n" + b"x" * 200 * 1024 + b"\nb\n"
    assert b"x" * 200 * 1024 + b"\n" in list(split_body("kernel-log", body))
    assert MAX_MESSAGE_BYTES > MAX_PIECE_BYTES


def test_forward_raises_with_the_number_of_records_that_the_queue_refused() -> None:
    class Full(FakeQueue):
        def send(self, messages):
            return tuple(body for _, body in messages[1:])

    records = [Message(f"r-{number}", "kernel-log", "train-a", NOON, body=b"x") for number in range(3)]
    with pytest.raises(Transient, match="2 of 3"):
        Forward(Full(), FakeObjects()).forward(records)
    Forward(Full(), FakeObjects()).forward(records[:1])
