"""Tables on a terminal: complete ids, folded last column."""

from __future__ import annotations

import re
import sys

import pytest

from faultbridge.cli.render.output import Columns, OutputFormat, show

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS: Columns = {
    "CASE": lambda one: one["case"],
    "NODE": lambda one: one["node"],
    "WHY": lambda one: one["why"],
}
ROW = {"case": "c-abcdefghijklmnopqrstuvwxyz", "node": "ip-10-0-0-7", "why": "GPU has fallen off the bus. " * 4}


@pytest.mark.parametrize("terminal", [40, 80, 120])
def test_an_id_is_complete_on_any_terminal_width(
    terminal: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(terminal))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert ROW["case"] in out
    assert ROW["node"] in out


def test_the_last_column_folds_where_the_others_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, OutputFormat.TABLE)
    lines = STYLE.sub("", capsys.readouterr().out).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
