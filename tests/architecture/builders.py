"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from faultbridge.model.storage.writes import Item
from tests.architecture.project import ROOT

ROW = re.compile(r"^\| (?P<role>\w+) \| (?P<sid>\w+) \| (?P<may>`.+?) \| (?P<on>.+?) \| (?P<by>.+?) \|$", re.MULTILINE)


class Grant(NamedTuple):
    """One statement of one role."""

    role: str
    sid: str
    actions: frozenset[str]


def documented() -> dict[Grant, str]:
    """Return the grants in the table, each with the reason for it."""
    rows = ROW.finditer((ROOT / "docs" / "permissions.md").read_text(encoding="utf-8"))
    return {Grant(r["role"], r["sid"], frozenset(re.findall(r"`([^`]+)`", r["may"]))): r["by"].strip("`") for r in rows}


def entry(body: dict[str, Any]) -> Item:
    """Return the item of an event, as the table's stream delivers it."""
    metadata = body["metadata"]
    return {
        **{name: metadata[name] for name in ("event_id", "cluster", "recorded_at")},
        "pk": "NODE#train-a#n",
        "sk": f"ENTRY#{metadata['sequence']}",
        "epoch": metadata["epoch"],
        "sequence": metadata["sequence"],
        "hash": "0" * 64,
        "type": metadata["event_type"],
        "body": json.dumps(body),
    }
