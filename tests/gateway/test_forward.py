"""Forward: refused records are reported and logged; a large body is stored separately."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import Message
from faultbridge.serve.gateway.log_subscription import Forward
from tests.builders import NOON
from tests.sim.fakes import FakeObjects, FakeQueue


def record(number: int, body: bytes = b"x") -> Message:
    return Message(f"r-{number}", "kernel-log", "train-a", NOON, body=body)


def test_records_that_the_queue_refused_raise_transient_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    class FullQueue(FakeQueue):
        def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
            return tuple(body for _, body in messages[1:])

    with pytest.raises(Transient, match="refused 2 of 3 records"):
        Forward(FullQueue(), FakeObjects()).forward([record(number) for number in range(3)])
    (logged,) = [vars(one) for one in caplog.records if one.message == "records_not_queued"]
    assert logged["first_record_id"] == "r-0"


def test_a_body_that_is_too_large_for_the_queue_is_stored_and_referenced() -> None:
    queue, objects, body = FakeQueue(), FakeObjects(), Random(1).randbytes(1_100_000)
    Forward(queue, objects).forward([record(1, body)])
    message = decode_message(queue.messages[0].body)
    assert message.body is None
    assert message.pointer is not None
    assert objects.get(message.pointer) == body
