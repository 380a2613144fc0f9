"""The bundled records of the demo: our own, in the shapes of real ones, with times of a moment ago."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.data import FOLDER
from faultbridge.domain.times import to_text
from faultbridge.ingest.send import Parcel

BUNDLE = FOLDER / "demo"
STRANGER = "ip-192-0-2-99"
_MOMENT = re.compile(r"@(-\d+\.\d)@")


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One record to send, and what it says in a few words."""

    parcel: Parcel
    says: str


def demo_records(cluster: str, nodes: Sequence[str], now: datetime) -> list[DemoRecord]:
    """Read the bundle for the nodes of a cluster; a record of no node of it is about a stranger."""
    rows = json.loads((BUNDLE / "index.json").read_bytes())
    return [
        DemoRecord(
            Parcel(row["source"], cluster, _body(row["file"], node, now), node=node),
            row["says"],
        )
        for row in rows
        for node in [STRANGER if row["node"] is None else nodes[row["node"]]]
    ]


def _body(file: str, node: str, now: datetime) -> bytes:
    text = (BUNDLE / file).read_text(encoding="utf-8").replace("@node@", node)
    return _MOMENT.sub(lambda found: to_text(now + timedelta(seconds=float(found[1]))), text).encode()
