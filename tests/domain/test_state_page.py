"""docs/state-machine.md is generated from the transition tables of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def draw_states():
    spec = importlib.util.spec_from_file_location("draw_states", ROOT / "infra" / "draw_states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    draw = draw_states()
    page = draw.PAGE.read_text(encoding="utf-8")
    assert draw.drawn(page) == page, "run: python infra/draw_states.py"


def test_the_page_lists_every_transition():
    draw = draw_states()
    page = draw.PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.count("|") == 5 and not line.startswith(("| from", "|---"))]
    assert len(rows) == len(draw.NODE_EDGES) + len(draw.CASE_EDGES)
