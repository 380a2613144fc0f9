"""The page about states is drawn from the tables that the code runs on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def drawer():
    spec = importlib.util.spec_from_file_location("draw_states", ROOT / "infra" / "draw_states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_code_does():
    draw = drawer()
    page = draw.PAGE.read_text(encoding="utf-8")
    assert draw.drawn(page) == page, "run: python infra/draw_states.py"


def test_every_move_is_in_the_tables_of_the_page():
    draw = drawer()
    page = draw.PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.count("|") == 5 and not line.startswith(("| from", "|---"))]
    assert len(rows) == len(draw.NODE_EDGES) + len(draw.CASE_EDGES)
