"""Generates the page of the packages of the code from the table that the architecture test enforces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from infra.docs.markdown import code, page, table

TABLE = Path(__file__).resolve().parents[2] / "tests" / "architecture" / "layers.yaml"
INTRODUCTION = """\
Each package of `src/faultbridge` has one subject. The list, with the modules beside the packages, runs from the domain
outward: each imports only those above it, so there is no cycle. `tests/architecture/test_layers.py` enforces the table.
The docstring of each package names its modules in reading order."""


def generate() -> str:
    """Return the page of all packages, their purpose, and what each may import."""
    rooms: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    rows = [(code(room["room"]), room["purpose"], _allowed(room)) for room in rooms]
    return page("Packages of the code", INTRODUCTION, table(["package", "purpose", "may import"], rows))


def _allowed(room: dict[str, Any]) -> str:
    if room.get("free"):
        return "what it needs"
    names = [*room.get("imports", ()), *room.get("packages", ())]
    return " ".join(code(name) for name in names) or "the standard library"
