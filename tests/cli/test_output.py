"""Tables on a terminal: complete ids, folded last column, no effect of control characters."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from faultbridge.cli import app
from faultbridge.cli.render.columns import ENTRIES, NODE, entry_document, node_document
from faultbridge.cli.render.output import (
    Columns,
    LiveTable,
    OutputFormat,
    fields,
    fitting_columns,
    notice,
    show,
    show_one,
)
from faultbridge.model.event_data import json_text
from faultbridge.record.timeline import Timeline, TimelineQuery
from tests.builders import KEY
from tests.world import World

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS: Columns = fields("CASE, NODE, WHY")
ROW = {"case": "c-abcdefghijklmnopqrstuvwxyz", "node": "ip-10-0-0-7", "why": "GPU has fallen off the bus. " * 4}


@pytest.mark.parametrize("terminal", [20, 40, 80, 120])
def test_an_id_is_complete_on_any_terminal_width(
    terminal: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(terminal))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, OutputFormat.TABLE)
    assert ROW["case"] in capsys.readouterr().out


def test_a_column_that_does_not_fit_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, OutputFormat.TABLE)
    out, err = capsys.readouterr()
    assert ROW["node"] in out
    assert "GPU has" not in out
    assert err == "faultbridge: columns that do not fit this terminal: WHY; --wide prints them\n"
    show([ROW], COLUMNS, OutputFormat.WIDE_TABLE)
    out, err = capsys.readouterr()
    assert "GPU has" in out
    assert err == ""


def test_a_column_without_values_is_left_out_before_one_with_values() -> None:
    titles = ("CASE", "WAITING FOR", "RESOLUTION", "AGE")
    assert fitting_columns(titles, [("c-1", "-", "replaced", "9.0s")], 40) == [0, 1, 2, 3]
    assert fitting_columns(titles, [("c-1", "-", "replaced", "9.0s")], 24) == [0, 2, 3]
    assert fitting_columns(titles, [("c-1", "-", "replaced", "9.0s")], 20) == [0, 2]
    assert fitting_columns(titles, [("c-1", "-", "replaced", "9.0s")], 1) == [0]


@pytest.mark.parametrize("status", ["quarantined", "failed", "degraded"])
def test_a_status_has_a_color_and_no_color_removes_every_style(
    status: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    columns: Columns = fields("STATUS")
    show([{"status": status}], columns, OutputFormat.TABLE)
    assert re.search(rf"\x1b\[(1;)?3[13]m{status}", capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    show([{"status": status}], columns, OutputFormat.TABLE)
    assert "\x1b" not in capsys.readouterr().out


def test_the_last_column_folds_where_the_others_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, OutputFormat.TABLE)
    lines = STYLE.sub("", capsys.readouterr().out).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80


HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x1b[31mALL HEALTHY\x1b[0m\u202e\x9b2J\r"
UNSAFE = ("\x1b]", "\x1b[2J", "\x1b[31mALL", "\x07", "\u202e", "\x9b", "\r")


@pytest.fixture
def documents() -> tuple[list[dict], dict]:
    """The entries and the node after records with hostile text."""
    world = World()
    world.outcomes(
        world.message(
            f"NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=py{HOSTILE}thon, GPU has fallen off the bus. {HOSTILE}"
        )
    )
    fault = {"code": "train.custom", "severity": "fatal", "message": f"m{HOSTILE}", "component": {"type": "gpu"}}
    world.outcomes(world.message(json.dumps(fault | {"kind": "fault"}), source="faultbridge"))
    timeline = Timeline(world.ports.table)
    entries = [entry_document(line) for line in timeline.entries(TimelineQuery(cluster=KEY.cluster))]
    assert any("\\u001b" in json_text(one) for one in entries)
    return entries, node_document(world.node())


@pytest.mark.parametrize("terminal", [False, True])
def test_text_of_a_record_has_no_effect_on_a_terminal(
    terminal: bool, documents, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, node = documents
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    for output in OutputFormat:
        show(entries, ENTRIES, output)
        show_one(node, NODE, output)
    table = LiveTable(ENTRIES, widths=(19, 16, 46))
    for entry in entries:
        table.add(entry)
    notice(f"unknown node: {HOSTILE}")
    printed = capsys.readouterr()
    assert "ALL HEALTHY" in printed.out
    assert [one for one in UNSAFE if one in printed.out + printed.err] == []


def test_the_command_line_prints_only_through_the_safe_printer() -> None:
    folder = Path(app.__file__).parent
    calls = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTERS
    ]
    assert {call.partition(":")[0] for call in calls} == {"render/output.py"}


PRINTERS = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
