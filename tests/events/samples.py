"""The released samples, as tests want them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from faultbridge.events.library import Library, load
from faultbridge.events.models import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Library(ROOT / "schemas")
FILES = [path for name in BY_NAME for path in LIBRARY.samples(name)]


def sample(name: str, which: str = "ordinary") -> dict[str, Any]:
    """One sample of today's version, free to be changed."""
    return copy.deepcopy(load(LIBRARY.root / name / "samples" / BY_NAME[name].version / f"{which}.json"))


def name_of(path: Path) -> str:
    """The event whose sample a file is."""
    return path.relative_to(LIBRARY.root).parts[0]


def label(path: Path) -> str:
    """A short name of a sample for the list of tests."""
    return f"{name_of(path)}-{path.stem}"
