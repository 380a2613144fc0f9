"""Tables on a terminal."""

from __future__ import annotations

import re
import sys

import pytest

from faultbridge.cli.output import Columns, Form, show

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS: Columns = {
    "CASE": lambda one: one["case"],
    "NODE": lambda one: one["node"],
    "WHY": lambda one: one["why"],
}
ROW = {"case": "c-abcdefghijklmnopqrstuvwxyz", "node": "ip-10-0-0-7", "why": "GPU has fallen off the bus. " * 4}


@pytest.mark.parametrize("terminal", [40, 80, 120])
def test_an_id_is_whole_however_narrow_the_terminal(
    terminal: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(terminal))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, Form.PEOPLE)
    told = capsys.readouterr().out
    assert ROW["case"] in told
    assert ROW["node"] in told


def test_a_reason_folds_where_the_rest_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([ROW], COLUMNS, Form.PEOPLE)
    lines = STYLE.sub("", capsys.readouterr().out).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
