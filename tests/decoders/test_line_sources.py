"""Each file of `data/log_sources` is one source: its rows match their own lines, and no similar line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import FOLDER, load_catalog
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.decode.line_source import decoder_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault

SOURCES = {file.stem: json.loads(file.read_bytes()) for file in sorted((FOLDER / "log_sources").glob("*.json"))}
ROWS = [(name, row) for name, document in SOURCES.items() for row in document["rows"]]


def codes(source: str, text: str) -> list[str]:
    return [one.code for one in registry.decode(source, text.encode()) if isinstance(one, Fault)]


@pytest.mark.parametrize(("source", "row"), ROWS, ids=[f"{name}-{row['code']}" for name, row in ROWS])
def test_a_row_reads_its_line_and_not_a_similar_one(source: str, row: dict[str, Any]) -> None:
    (code,) = codes(source, row["line"])
    assert code in load_catalog().rows or code.startswith("xid.")
    try:
        assert codes(source, f"{row['line']}\n{row['near']}") == [code]
    except Rejected as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("source", SOURCES)
def test_the_line_of_a_row_is_recognized_and_the_file_names_its_origin(source: str) -> None:
    assert SOURCES[source]["source"]
    for row in SOURCES[source]["rows"]:
        assert registry.recognize(row["line"].encode()) == source


SLOW = "my-tool: GPU c1:00.0 slow"
LOST = "my-tool: GPU c1:00.0 of n-7 lost: 79, abc"
OWN = decoder_of(
    "my-tool",
    {
        "summary": "the log of a tool",
        "framing": "{tool}",
        "fragments": {"tool": "my-tool: "},
        "rows": [
            {
                "code": "xid.{number}",
                "component": "gpu",
                "contains": "lost: ",
                "pattern": r"{tool}GPU (?P<pci>.{7}) of (?P<node>\S{1,64}) lost: (?P<number>\d\d), (?P<why>\w{3})",
                "line": LOST,
            },
            {"code": "a.slow", "component": "gpu", "contains": "", "pattern": "GPU (?P<pci>.{7}) slow", "weaker": True},
            {"code": "a.fan", "component": "node", "contains": "fan ", "pattern": r"fan (?P<name>\w)(?P<index>\d) off"},
        ],
    },
)


def read(text: str) -> tuple[Fault, ...]:
    decoded = OWN.decode(text.encode(), Hints(datetime(2026, 3, 1, tzinfo=UTC)))
    assert isinstance(decoded, Decoded)
    return tuple(one for one in decoded.observations if isinstance(one, Fault))


def test_the_groups_of_a_row_name_the_component_the_node_and_the_attributes() -> None:
    lost, fan = read(f"my-tool: starts\n2026-02-03 04:05:06 {LOST}\nmy-tool: fan A3 off")
    assert (lost.code, lost.node, lost.component.pci, lost.attributes) == (
        "xid.79",
        "n-7",
        "0000:c1:00",
        {"why": "abc"},
    )
    assert lost.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (fan.code, fan.component.name, fan.component.index, fan.node) == ("a.fan", "A", 3, None)


def test_a_weaker_row_gives_no_fault_beside_a_stronger_one_of_the_same_component() -> None:
    assert [fault.code for fault in read(SLOW)] == ["a.slow"]
    assert [fault.code for fault in read(f"{SLOW}\n{LOST}")] == ["xid.79"]
    with pytest.raises(Rejected, match="no line of the source my-tool"):
        read("other text")
