"""Shared messages: their records are split unchanged, and a shared message that is not valid is rejected whole."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Rejected
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import (
    MAX_SHARED_RECORDS,
    MAX_UNPACKED_BYTES,
    OVERHEAD_BYTES,
    Message,
    encode_message,
    join_records,
    raw_key,
    unpacked_bytes,
)
from faultbridge.model.values import replace
from tests.builders import NOON


def message(number: int, body: bytes = b"NVRM: Xid") -> Message:
    return Message(f"r-{number}", "kernel-log", "train-a", NOON, node="gpu-1", body=body)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=MAX_SHARED_RECORDS))
def test_records_are_the_same_after_a_shared_message(bodies: list[bytes]) -> None:
    messages = [message(number, body) for number, body in enumerate(bodies)]
    text = join_records([encode_message(one, compact=True) for one in messages])
    assert [decode_message(one) for one in split_records(text)] == messages


def test_a_single_record_is_a_message_that_every_version_of_the_service_reads() -> None:
    text = encode_message(message(1))
    assert join_records([text]) == text
    assert split_records(text) == (text,)


def test_the_size_of_a_shared_message_is_that_of_its_records_and_a_little_more() -> None:
    texts = [encode_message(message(number)) for number in range(3)]
    assert len(join_records(texts)) == OVERHEAD_BYTES + sum(map(len, texts)) + 2


RECORD = encode_message(message(1))


def zipped(size: int) -> str:
    return encode_message(message(1, b"x" * size), compact=True)


def test_records_share_a_message_up_to_the_unpacked_size_of_one_message() -> None:
    half = MAX_UNPACKED_BYTES // 2
    assert unpacked_bytes(zipped(half)) == half
    assert len(split_records(join_records([zipped(half), zipped(half)]))) == 2
    too_much = [zipped(half), zipped(half + 1)]
    assert len(split_records(join_records(too_much))) == 1


@pytest.mark.parametrize("kept", [-4, None], ids=["in the size", "after the gzip data"])
def test_a_body_that_states_a_smaller_size_than_it_has_cannot_be_unpacked(kept: int | None) -> None:
    frame = json.loads(zipped(MAX_UNPACKED_BYTES))
    packed = base64.b64decode(frame["body"])
    forged = json.dumps(frame | {"body": base64.b64encode(packed[:kept] + b"\1\0\0\0").decode()})
    for text in split_records(join_records([forged] * MAX_SHARED_RECORDS)):
        with pytest.raises(Rejected) as rejected:
            decode_message(text)
        assert rejected.value.reason == "bad_body"


def test_a_record_in_the_object_store_shares_no_message() -> None:
    pointer = encode_message(replace(message(1), body=None, pointer=raw_key("train-a", NOON, b"much")))
    assert unpacked_bytes(pointer) is None
    assert len(split_records(join_records([RECORD, pointer]))) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"v":2}',
        '{"v":2,"records":[]}',
        '{"v":2,"records":{}}',
        f'{{"v":2,"records":[{",".join([RECORD] * (MAX_SHARED_RECORDS + 1))}]}}',
        '{"v":2,"records":' + "[" * 50_000,
    ],
)
def test_a_shared_message_that_is_not_valid_is_rejected_whole(text: str) -> None:
    (only,) = split_records(text)
    with pytest.raises(Rejected) as rejected:
        decode_message(only)
    assert rejected.value.reason in {"not_a_record", "bad_shared_message"}


@pytest.mark.parametrize("inner", ["1", "null", "[]", '{"v":2,"records":[{}]}', '{"v":1}'])
def test_a_part_of_a_shared_message_that_is_no_record_is_rejected_alone(inner: str) -> None:
    first, second = split_records(f'{{"v":2,"records":[{inner},{RECORD}]}}')
    with pytest.raises(Rejected):
        decode_message(first)
    assert decode_message(second) == message(1)


def test_a_record_whose_body_is_the_text_of_a_shared_message_is_one_record() -> None:
    text = encode_message(message(1, join_records([RECORD, RECORD]).encode()))
    assert split_records(text) == (text,)
    assert json.loads(split_records(text)[0])["v"] == 1
