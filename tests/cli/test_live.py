"""A table that grows: its width on a terminal, and complete lines without one."""

from __future__ import annotations

import pytest

from faultbridge.cli.render.output import Columns, LiveTable, fields

COLUMNS: Columns = fields("TIME, WHAT, WHY")
ROW = {"time": "10:00", "what": "node healthy -> degraded", "why": "GPU has fallen off the bus."}


def lines(capsys: pytest.CaptureFixture[str], terminal: int | None) -> list[str]:
    LiveTable(COLUMNS, (8, 58), terminal=lambda: terminal).add(ROW)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("terminal", [80, 100, 120])
def test_the_last_column_is_complete_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str], terminal: int) -> None:
    heading, row = lines(capsys, terminal)
    assert ROW["why"] in row
    assert heading.index("WHY") == row.index(ROW["why"])
    assert len(row) <= terminal


def test_no_line_is_wider_than_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert [len(line) for line in lines(capsys, 40)][1] == 40


def test_without_a_terminal_every_line_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    _, row = lines(capsys, None)
    assert row.endswith(ROW["why"])
