"""JSON documents of many lines, each line wrapped by a collector: read whole, or counted as not understood."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames import chain
from faultbridge.decode.frames.collector import unwrapped
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.decode.frames.documents import MAX_JSON_BYTES
from faultbridge.decode.frames.line import Item
from faultbridge.model.fault_enums import Action
from faultbridge.model.faults import Fault

XID = "NVRM: Xid (PCI:0000:c1:00): {}, pid=1234, name=python, GPU has fallen off the bus."
AT = datetime(2026, 2, 3, 4, 5, 6, 502716, tzinfo=UTC)
JOURNAL = {"__REALTIME_TIMESTAMP": "1770091506502716", "_TRANSPORT": "kernel", "_HOSTNAME": "gpu-1"}
WRAPPED_AT = "2026-02-03T09:00:00.000000000Z"

Wrap = Callable[[str], str]
WRAPPERS: dict[str, Wrap] = {
    "Docker": lambda line: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": WRAPPED_AT}),
    "Fluent Bit": lambda line: json.dumps({"date": 1770109200.5, "log": line, "kubernetes": {"host": "gpu-9"}}),
    "Fluent Bit, msg": lambda line: json.dumps({"msg": line}),
    "Container Insights": lambda line: json.dumps({"host": "gpu-9", "ident": "reader", "message": line}),
    "CRI": lambda line: f"{WRAPPED_AT} stdout F {line}",
    "Docker in Fluent Bit": lambda line: json.dumps({"log": json.dumps({"log": f"{line}\n", "stream": "stdout"})}),
}


def journal(message: str, **fields: str) -> dict[str, str]:
    return {**JOURNAL, **fields, "MESSAGE": message}


def pretty(*records: Any, indent: int | str = 8) -> str:
    return "\n".join(json.dumps(one, indent=indent) for one in records)


def read(body: str) -> Decoded:
    return registry.read("kernel-log", body.encode(), Hints(received_at=datetime(2026, 3, 1, tzinfo=UTC)))


def faults(decoded: Decoded) -> list[Fault]:
    return [one for one in decoded.observations if isinstance(one, Fault)]


def codes(decoded: Decoded) -> list[str]:
    return [one.code for one in faults(decoded)]


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("indent", [8, 1, "\t"])
def test_the_records_of_a_spread_journal_have_their_own_time_and_node(wrap: Wrap, indent: int | str) -> None:
    text = pretty(journal("audit: x"), journal(XID.format(79)), journal(XID.format(48)), indent=indent)
    body = "\n".join(map(wrap, text.split("\n")))
    assert registry.recognize(body.encode()) == "kernel-log"
    found = read(body)
    assert [(one.code, one.observed_at, one.node) for one in faults(found)] == [
        ("xid.79", AT, "gpu-1"),
        ("xid.48", AT, "gpu-1"),
    ]
    assert found.unparsed == 0


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_spread_dmesg_document_is_read_whole(wrap: Wrap) -> None:
    text = pretty(
        {"dmesg": [{"pri": 3, "time": 8123.6 + at, "msg": XID.format(xid)} for at, xid in ((0, 79), (9, 48))]}
    )
    assert codes(read("\n".join(map(wrap, text.split("\n"))))) == ["xid.79", "xid.48"]


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_spread_record_that_a_program_wrote_is_no_fault_of_the_kernel(wrap: Wrap) -> None:
    text = pretty(journal(XID.format(79), _TRANSPORT="stdout", SYSLOG_IDENTIFIER="train"))
    assert {one.action for one in faults(read("\n".join(map(wrap, text.split("\n")))))} == {Action.NONE}


def test_plain_lines_around_and_lines_of_another_node_between_are_read_too() -> None:
    wrap = WRAPPERS["Fluent Bit"]
    other = json.dumps({"log": f"[ 1.0] {XID.format(95)}", "kubernetes": {"host": "gpu-2"}})
    lines = [wrap(one) for one in pretty(journal(XID.format(79))).split("\n")]
    body = "\n".join([wrap("reader starts"), *f"\n{other}\n".join(lines[:3]).split("\n"), *lines[3:], wrap("ends")])
    assert sorted(set(codes(read(body)))) == ["xid.79", "xid.95"]


@pytest.mark.parametrize("wrap", [str, *WRAPPERS.values()], ids=["bare", *WRAPPERS])
@pytest.mark.parametrize("cut", [5, 20, 60])
def test_a_record_behind_a_cut_is_reported_or_counted_as_not_understood(wrap: Wrap, cut: int) -> None:
    text = pretty(journal(XID.format(79)), journal(XID.format(48)))[:-cut]
    found = read("\n".join(map(wrap, text.split("\n"))))
    assert codes(found)[0] == "xid.79"
    assert len(codes(found)) + found.unparsed == 2


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_spread_document_in_a_file_that_is_read_in_pieces_is_read_whole(wrap: Wrap) -> None:
    text = pretty(*(journal(XID.format(xid)) for xid in (79, 48, 95)))
    body = "".join(f"{wrap(line)}\n" for line in text.split("\n")).encode()
    pieces = (body[at : at + 700] for at in range(0, len(body), 700))
    found = registry.read_pieces("kernel-log", pieces)
    assert [(one.code, one.node) for one in faults(found)] == [(f"xid.{xid}", "gpu-1") for xid in (79, 48, 95)]


def test_text_after_a_document_is_read() -> None:
    assert codes(read(f"{pretty(journal(XID.format(79)))}\n[ 1.0] {XID.format(48)}\n")) == ["xid.79", "xid.48"]


@pytest.mark.parametrize("wrap", [str, WRAPPERS["Docker"]], ids=["bare", "Docker"])
def test_a_document_spread_over_the_events_of_an_envelope_is_read(wrap: Wrap) -> None:
    lines = [wrap(one) for one in pretty(journal("audit: x"), journal(XID.format(79))).split("\n")]
    events = [{"id": "1", "timestamp": 1770109200000 + at, "message": line} for at, line in enumerate(lines)]
    packed = gzip.compress(json.dumps({"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events}).encode())
    body = json.dumps({"awslogs": {"data": base64.b64encode(packed).decode()}})
    assert [(one.code, one.observed_at, one.node) for one in faults(read(body))] == [("xid.79", AT, "gpu-1")]


PADDING = "x" * 65536
OPEN_DOCUMENTS: dict[str, Callable[[int], str]] = {
    "wide wrappers": lambda number: json.dumps({"log": '"a": 1,' if number else "{", "labels": PADDING}),
    "many hosts": lambda number: json.dumps({"log": "{", "host": f"gpu-{number}", "labels": PADDING}),
    "blank text": lambda number: f"{WRAPPED_AT} stdout F " + (" " * 65536 if number else "{"),
    "small documents of hosts": lambda number: json.dumps({"log": "{", "host": f"gpu-{number}"}),
    "long records": lambda number: json.dumps({"log": ["{", f'"MESSAGE": "{PADDING}"', "}"][number % 3]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", OPEN_DOCUMENTS.values(), ids=OPEN_DOCUMENTS)
def test_lines_of_open_documents_are_kept_up_to_a_limit_of_all_together(line: Callable[[int], str]) -> None:
    sizes: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in count():
            sizes.append(len(piece := f"{line(number)}\n".encode()))
            if number * sizes[-1] > 2 * MAX_JSON_BYTES:
                return
            yield piece

    first = next(chain.framed_pieces(pieces()))
    assert len(first if isinstance(first, str | bytes) else first.text) <= 2 * len(PADDING)
    assert sum(sizes) <= MAX_JSON_BYTES + 2 * 1024 * 1024


def test_a_body_is_searched_for_wrappers_only_up_to_its_first_line_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Item] = []

    def counted(line: Item, depth: int) -> Any:
        searched.append(line)
        return unwrapped(line, depth)

    monkeypatch.setattr(chain, "unwrapped", counted)
    wrapped = WRAPPERS["Docker"]("one")
    body = "\n".join([wrapped, *["plain"] * 100, wrapped])
    assert list(chain.versions(body.encode())) == []
    assert set(searched) == {wrapped, "plain"}
    assert searched.count("plain") == 2  # once for each number of wrappers
