"""Packaged detectors of gray failures: counters to compare, and how far a node may exceed its group."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from faultbridge.model.findings import Detector

_FILE = Path(__file__).parent / "detectors.json"


@cache
def detectors() -> tuple[Detector, ...]:
    """Return every packaged detector of gray failures."""
    return tuple(
        Detector(**{**row, "counters": tuple(row["counters"]), "proved_by": tuple(row["proved_by"])})
        for row in json.loads(_FILE.read_bytes())
    )
