"""What a sender has in hand reaches the queue whole, in messages that the queue takes."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.errors import Rejected, Transient
from faultbridge.gateway.forward import Forward
from faultbridge.ingest.send import PIECE_BYTES, Parcel, Send, pieces
from faultbridge.simulation.fakes import FakeObjects, FakeQueue, FakeReceipts, ManualClock, raise_once
from faultbridge.storage.wire.message import MAX_MESSAGE_BYTES, Message, decode_message
from tests.builders import NOON

LOG = Parcel("kernel-log", "train-a", b"NVRM: Xid (PCI:0000:c1:00): 79\n", node="ip-10-0-0-7")


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


def test_a_record_arrives_with_all_that_is_known_of_it() -> None:
    send = sender()
    sent = send([Parcel("kernel-log", "train-a", b"line\n", "n-1", "i-0123456789abcdef0", "boot-7")])
    (message,) = map(decode_message, waiting(send))
    assert sent.accepted == ("record-1",)
    assert (message.source, message.cluster, message.node) == ("kernel-log", "train-a", "n-1")
    assert (message.instance_id, message.boot_id, message.body) == ("i-0123456789abcdef0", "boot-7", b"line\n")
    assert message.sent_at == send.clock.now()


def test_one_node_does_not_starve_another() -> None:
    send = sender()
    send([LOG, Parcel("kernel-log", "train-a", b"x", node="other")])
    assert isinstance(send.queue, FakeQueue)
    assert [message.group for message in send.queue.messages] == ["train-a/ip-10-0-0-7", "train-a/other"]


def test_the_receipt_names_exactly_what_the_queue_took() -> None:
    send = sender()
    sent = send([LOG] * 25)
    assert isinstance(send.receipts, FakeReceipts)
    assert [line for _, line in send.receipts.lines] == [
        {"kind": "sent", "sender": "test", "records": list(sent.accepted)}
    ]
    assert len(sent.accepted) == 25


def test_a_queue_that_refuses_a_message_has_not_accepted_it() -> None:
    class Refusing(FakeQueue):
        def send(self, messages: object) -> tuple[str, ...]:
            return tuple(body for _, body in messages if "record-2" in body)  # type: ignore[attr-defined] # pairs

    sent = sender(Refusing())([LOG, LOG, LOG])
    assert (sent.accepted, sent.refused) == (("record-1", "record-3"), ("record-2",))


def test_a_log_that_takes_no_receipt_does_not_make_anybody_send_twice() -> None:
    send = sender()
    assert isinstance(send.receipts, FakeReceipts)
    send.receipts.seam.before = raise_once(("receipts.write", Transient("throttled")))
    sent = send([LOG])
    assert (sent.accepted, sent.receipted) == (("record-1",), False)
    assert len(waiting(send)) == 1


def test_a_long_log_is_cut_at_line_ends() -> None:
    line = b"x" * 99 + b"\n"
    send = sender()
    send([Parcel("kernel-log", "train-a", line * 5000, node="n-1")])
    bodies = [decode_message(text).body or b"" for text in waiting(send)]
    assert len(bodies) == 3
    assert all(len(body) <= PIECE_BYTES and body.endswith(b"\n") for body in bodies)
    assert b"".join(bodies) == line * 5000


def test_a_document_is_never_cut() -> None:
    send = sender()
    send([Parcel("nvidia-smi-xml", "train-a", b"<gpu>\n</gpu>\n" * 50_000, node="n-1")])
    assert len(waiting(send)) == 1


def test_what_no_message_carries_is_kept_aside_and_pointed_at() -> None:
    body = Random(1).randbytes(400_000)
    send = sender()
    send([Parcel("nvidia-smi-xml", "train-a", body, node="n-1")])
    (message,) = map(decode_message, waiting(send))
    assert message.body is None
    assert message.pointer is not None
    assert send.objects.get(message.pointer) == body


@pytest.mark.parametrize("parcel", [Parcel("x", "bad#name", b""), Parcel("x", "c", b"", node="a b")])
def test_names_that_no_record_may_carry_are_refused_before_anything_is_sent(parcel: Parcel) -> None:
    send = sender()
    with pytest.raises(Rejected):
        send([parcel])
    assert waiting(send) == []


def test_progress_hears_of_every_message() -> None:
    heard: list[int] = []
    sender()([LOG] * 23, heard.append)
    assert heard == [10, 10, 3]


@given(st.lists(st.binary(max_size=70_000).map(lambda raw: raw.replace(b"\n", b" ") + b"\n"), max_size=12))
def test_the_pieces_of_a_log_are_the_log(lines: list[bytes]) -> None:
    body = b"".join(lines)
    cut = list(pieces("kernel-log", body))
    assert b"".join(cut) == body
    assert all(len(piece) <= PIECE_BYTES for piece in cut)
    assert all(piece.endswith(b"\n") for piece in cut[:-1])


def test_a_line_longer_than_a_piece_stays_whole() -> None:
    body = b"a\n" + b"x" * 200 * 1024 + b"\nb\n"
    assert b"x" * 200 * 1024 + b"\n" in list(pieces("kernel-log", body))
    assert MAX_MESSAGE_BYTES > PIECE_BYTES


def test_what_a_full_queue_did_not_take_is_said_to_whoever_forwards_it() -> None:
    class Full(FakeQueue):
        def send(self, messages):
            return tuple(body for _, body in messages[1:])

    records = [Message(f"r-{number}", "kernel-log", "train-a", NOON, body=b"x") for number in range(3)]
    with pytest.raises(Transient, match="2 of 3"):
        Forward(Full(), FakeObjects())(records)
    Forward(Full(), FakeObjects())(records[:1])
