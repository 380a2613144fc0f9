"""Messages: a record is decoded unchanged, and any other text is rejected."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Rejected
from faultbridge.model.records import SentValues
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import (
    MAX_MESSAGE_BYTES,
    MAX_UNPACKED_BYTES,
    Message,
    encode_message,
    fits,
    raw_key,
)
from faultbridge.model.values import replace

SENT = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
RECORD = Message("r-1", "kernel-log", "train-a", SENT, node="ip-10-0-0-7", body=b"NVRM: Xid")


def frame(**changes: Any) -> str:
    """Return a valid message with some fields changed; None removes a field."""
    fields = json.loads(encode_message(RECORD)) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


@given(
    body=st.binary(max_size=2000) | st.text(max_size=2000).map(lambda text: text.encode(errors="replace")),
    node=st.none() | st.just("ip-10-0-0-7"),
    instance=st.none() | st.just("i-0123456789abcdef0"),
    first=st.none() | st.just(SENT + timedelta(seconds=1)),
    values=st.none()
    | st.just(SentValues("0123456789abcdef"))
    | st.just(SentValues(None, {"0" * 16: SENT}))
    | st.just(SentValues("0" * 16, {f"{one:016x}": SENT for one in range(4)})),
)
def test_any_message_is_decoded_unchanged(
    body: bytes, node: str | None, instance: str | None, first: Any, values: SentValues | None
) -> None:
    message = Message("r-1", "kernel-log", "train-a", SENT, node, instance, "boot-1", first, body, values=values)
    assert decode_message(encode_message(message)) == message


def test_a_pointer_is_decoded_without_a_body() -> None:
    pointer = raw_key("train-a", SENT, b"much")
    message = Message("r-1", "kernel-log", "train-a", SENT, pointer=pointer)
    assert decode_message(encode_message(message)) == message


def test_a_text_body_is_sent_as_readable_text() -> None:
    assert json.loads(encode_message(RECORD))["body"] == "NVRM: Xid"


def test_a_long_text_is_compressed_if_it_then_fits() -> None:
    long = Message("r-1", "nvidia-smi-xml", "train-a", SENT, body=b"<gpu>healthy</gpu>\n" * 20_000)
    text = encode_message(long)
    assert json.loads(text)["encoding"] == "gzip+base64"
    assert len(text) < MAX_MESSAGE_BYTES
    assert decode_message(text) == long


def test_a_body_too_large_for_a_message_does_not_fit() -> None:
    incompressible = Random(1).randbytes(400_000)
    assert not fits(Message("r-1", "kernel-log", "train-a", SENT, body=incompressible))
    assert fits(RECORD)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_a_record"),
        ("\x00\x01", "not_a_record"),
        ("[]", "not_a_record"),
        ("{}", "not_a_record"),
        ("[" * 100_000, "not_a_record"),
        (frame(v=2), "bad_shared_message"),
        (frame(v=3), "unsupported_version"),
        (frame(v="1"), "unsupported_version"),
        (frame(record_id=None), "not_a_record"),
        (frame(record_id="a#b"), "bad_record_id"),
        (frame(record_id="../x y"), "bad_record_id"),
        (frame(source="Kernel Log"), "unknown_source"),
        (frame(cluster="a#REJECT"), "bad_cluster_name"),
        (frame(cluster=7), "not_a_record"),
        (frame(node="a node"), "bad_node_name"),
        (frame(node=7), "not_a_record"),
        (frame(instance_id="i-nonsense"), "bad_instance_id"),
        (frame(boot_id="x" * 200), "bad_boot_id"),
        (frame(digest="0" * 15), "bad_digest"),
        (frame(digest="0" * 16, last_sent=["0" * 16]), "bad_digest"),
        (frame(last_sent=["0" * 16]), "bad_digest"),
        (frame(digest="0" * 16, last_sent={f"{one:016x}": "2026-02-03T04:05:06Z" for one in range(5)}), "bad_digest"),
        (frame(digest="0" * 16, last_sent={"0" * 16: "yesterday"}), "bad_time"),
        (frame(sent_at="yesterday"), "bad_time"),
        (frame(sent_at="2026-02-03T04:05:06"), "bad_time"),
        (frame(received_at="0000-01-01T00:00:00Z"), "bad_time"),
        (frame(body=None), "not_a_record"),
        (frame(body={"a": 1}), "not_a_record"),
        (frame(encoding="rot13"), "unsupported_encoding"),
        (frame(encoding="base64", body="***"), "bad_body"),
        (frame(encoding="gzip+base64", body=base64.b64encode(b"no gzip").decode()), "bad_body"),
        (frame(encoding="gzip+base64", body=base64.b64encode(gzip.compress(b"cut" * 99)[:-12]).decode()), "bad_body"),
        (frame(pointer="verify/secret"), "bad_pointer"),
        (frame(pointer=raw_key("train-b", SENT, b"of another cluster")), "bad_pointer"),
        (frame(pointer="raw/train-a/2026-02-03/../../x"), "bad_pointer"),
    ],
)
def test_an_invalid_message_is_rejected_with_a_stable_reason(text: str, reason: str) -> None:
    with pytest.raises(Rejected) as caught:
        decode_message(text)
    assert caught.value.reason == reason


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
def test_any_other_text_is_rejected(text: str) -> None:
    with pytest.raises(Rejected):
        decode_message(text)


def test_a_compression_bomb_is_rejected_before_it_is_unpacked() -> None:
    bomb = frame(encoding="gzip+base64", body=base64.b64encode(gzip.compress(b"0" * (MAX_UNPACKED_BYTES + 1))).decode())
    with pytest.raises(Rejected, match="too_large"):
        decode_message(bomb)


def test_a_body_that_would_be_too_large_after_decompression_is_not_put_into_a_message() -> None:
    message = decode_message(frame())
    assert fits(replace(message, body=b"0" * MAX_UNPACKED_BYTES))
    assert not fits(replace(message, body=b"0" * (MAX_UNPACKED_BYTES + 1)))
