"""Reads the meanings of statuses and metrics: sentences that generated pages need and the code does not contain."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("meanings.yaml")


@cache
def meanings(kind: str) -> dict[str, str]:
    """Return the meanings of one kind by name; a name without a meaning raises `KeyError`."""
    loaded: dict[str, dict[str, str]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return loaded[kind]
