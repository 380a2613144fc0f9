"""Dumps are untrusted input: nothing in them runs, and their size and depth are bounded."""

from __future__ import annotations

import builtins
import json
import os
import pickle
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultbridge.explain.dumps import dump
from faultbridge.explain.dumps.dump import MAX_BYTES, MAX_DEPTH, load_plain, read_dump
from faultbridge.model.errors import Rejected

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)


class Runs:
    """A pickle of this object runs a command when `pickle` loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo run > should-not-exist",)


@SETTINGS
@given(st.lists(PLAIN), st.sampled_from((2, 3, 4, 5)))
def test_plain_data_is_read_as_it_was_written(document: list[Any], protocol: int) -> None:
    assert load_plain(pickle.dumps(document, protocol)) == document


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [Runs(), builtins.eval, {"entries": [Runs()]}, {1, 2}, bytearray(b"x")])
def test_a_pickle_that_names_or_calls_anything_is_rejected(
    value: object, protocol: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Rejected):
        load_plain(pickle.dumps(value, protocol))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opcode", [b"cos\nsystem\n", b"\x82\x01", b"P1\n", b"ios\nsystem\n", b"Q"])
def test_extension_persistent_and_global_opcodes_are_rejected(opcode: bytes) -> None:
    with pytest.raises(Rejected):
        load_plain(b"\x80\x02](" + opcode + b"e.")


def test_a_huge_memo_index_allocates_nothing() -> None:
    assert load_plain(b"\x80\x02]r\xff\xff\xff\xff.") == []


def test_a_string_longer_than_the_file_is_rejected() -> None:
    with pytest.raises(Rejected, match="damaged"):
        load_plain(b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"x.")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("start", "repeated", "times", "end"),
    [
        (b"\x80\x04", b"}", 2_500_000, b"."),
        (b"\x80\x04", b"]", 2_500_000, b"."),
        (b"\x80\x04)", b"\x85", 2_500_000, b"."),
        (b"\x80\x04]", b"\x94", 2_500_000, b"."),
        (b"\x80\x04]\x94", b"h\x00", 10_500_000, b"."),
        (b'{"entries": [', b"[],", 2_500_000, b"[]]}"),
        (b'{"entries": [', b"1,", 4_500_000, b"1]}"),
    ],
    ids=["dicts", "lists", "tuples", "memo", "references", "JSON lists", "JSON numbers"],
)
def test_a_small_file_that_would_be_a_large_document_is_rejected_while_it_is_read(
    start: bytes, repeated: bytes, times: int, end: bytes
) -> None:
    with pytest.raises(Rejected) as rejected:
        read_dump("_dump_0", start + repeated * times + end)
    assert rejected.value.reason == "too_large"


def test_nesting_is_bounded() -> None:
    with pytest.raises(Rejected, match="levels"):
        load_plain(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
    assert load_plain(b"\x80\x02" + b"]" * MAX_DEPTH + b"a" * (MAX_DEPTH - 1) + b".")


def test_a_list_that_contains_itself_is_rejected() -> None:
    inner: list[Any] = []
    inner.append(inner)
    with pytest.raises(Rejected, match="levels"):
        load_plain(pickle.dumps(inner))


def test_a_pickle_that_repeats_one_list_exponentially_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "MAX_VALUES", 10_000)
    value: list[Any] = ["x"]
    for _ in range(30):
        value = [value] * 4
    with pytest.raises(Rejected, match="10000 values"):
        load_plain(pickle.dumps(value))


@SETTINGS
@given(st.binary(max_size=200))
def test_any_bytes_are_rejected_or_read(body: bytes) -> None:
    with suppress(Rejected):
        assert read_dump("_dump_0", body).rank == 0


@SETTINGS
@given(PLAIN)
def test_any_entry_is_rejected_or_read(entry: Any) -> None:
    for body in (pickle.dumps({"entries": [entry]}), json.dumps({"entries": [entry]}).encode()):
        with pytest.raises(Rejected):
            read_dump("_dump_0", body)


@pytest.mark.parametrize(
    ("file", "body", "reason"),
    [
        ("dump.json", b"{}", "unknown_rank"),
        ("_dump_0", b"", "not_pickle"),
        ("_dump_0", b"{", "not_json"),
        ("_dump_0", b"[" * 100_000, "not_json"),
        ("_dump_0", b'{"entries": 3}', "not_flight_recorder"),
        ("_dump_0", b'{"entries": [], "pg_config": {"0": {"ranks": 5}}}', "not_flight_recorder"),
        ("_dump_0", b'{"entries": [], "pg_config": {"0": {"ranks": [%d]}}}' % 2**61, "not_flight_recorder"),
    ],
)  # fmt: skip
def test_other_input_is_rejected_with_a_stable_reason(file: str, body: bytes, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        read_dump(file, body)
    assert rejected.value.reason == reason


def test_a_dump_above_the_limit_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        read_dump("_dump_0", b" " * (MAX_BYTES + 1))
    assert rejected.value.reason == "too_large"


EQUAL_HASH = 2**61 - 1
"""Python gives an integer and its sum with this number the same hash."""


@pytest.mark.parametrize(
    "keys",
    [
        [number * EQUAL_HASH for number in range(1, 40_000)],
        [(number * EQUAL_HASH,) for number in range(1, 40_000)],
        [-EQUAL_HASH],
        [1.5],
    ],
)
def test_a_pickle_whose_keys_could_all_have_one_hash_is_rejected_at_once(keys: list[Any]) -> None:
    body = b"\x80\x04}(" + b"".join(pickle.dumps(key, 2)[2:-1] + b"K\x01" for key in keys) + b"u."
    started = process_time()
    with pytest.raises(Rejected) as rejected:
        load_plain(body)
    assert rejected.value.reason == "unsafe_key"
    assert process_time() - started < 2


def test_a_pickle_whose_references_have_one_hash_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        load_plain(b"\x80\x04]p%d\n." % EQUAL_HASH)
    assert rejected.value.reason == "unsafe_key"


def test_a_dict_with_strings_and_numbers_as_keys_is_read() -> None:
    document = {"name": 1, 0: 2, -1: 3, EQUAL_HASH - 1: 4, True: 5}
    assert load_plain(pickle.dumps(document)) == document
