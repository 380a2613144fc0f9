"""The released samples, for tests."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from faultbridge.model.events.json_schema import EVENT_MODELS
from infra.schemas import SchemaFolder, load

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = SchemaFolder(ROOT / "schemas")
FILES = [path for name in EVENT_MODELS for path in SCHEMAS.samples(name)]


def sample(name: str, which: str = "ordinary") -> dict[str, Any]:
    """Return a copy of a sample of the current version."""
    return copy.deepcopy(load(SCHEMAS.root / name / "samples" / EVENT_MODELS[name].version / f"{which}.json"))


def name_of(path: Path) -> str:
    """Return the event name of a sample file."""
    return path.relative_to(SCHEMAS.root).parts[0]


def label(path: Path) -> str:
    """Return a short name of a sample for test ids."""
    return f"{name_of(path)}-{path.stem}"
