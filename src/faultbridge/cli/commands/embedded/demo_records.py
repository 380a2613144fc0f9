"""The raw records that are bundled for the demo; their times are set to a few seconds ago."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.data import FOLDER
from faultbridge.domain.times import to_text
from faultbridge.ingest.send import RawInput

BUNDLE = FOLDER / "demo"
UNREGISTERED_NODE = "ip-192-0-2-99"
_TIME_OFFSET = re.compile(r"@(dmesg)?(-\d+\.\d)@")
"""Placeholder for a time: seconds relative to now; with `dmesg`, as `dmesg --time-format iso` writes it."""


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One raw record of the demo, with a short description."""

    raw_input: RawInput
    description: str


def demo_records(cluster: str, nodes: Sequence[str], now: datetime) -> list[DemoRecord]:
    """Read the bundled records and assign them to the nodes of a cluster.

    A record for which the bundle names no node gets the name of an unregistered node.
    """
    rows = json.loads((BUNDLE / "index.json").read_bytes())
    return [
        DemoRecord(
            RawInput(row["source"], cluster, _body(row["file"], node, now), node=node),
            row["says"],
        )
        for row in rows
        for node in [UNREGISTERED_NODE if row["node"] is None else nodes[row["node"]]]
    ]


def _body(file: str, node: str, now: datetime) -> bytes:
    text = (BUNDLE / file).read_text(encoding="utf-8").replace("@node@", node)

    def time(found: re.Match[str]) -> str:
        at = to_text(now + timedelta(seconds=float(found[2])))
        return f"{at.removesuffix('Z').replace('.', ',')}000+00:00" if found[1] else at

    return _TIME_OFFSET.sub(time, text).encode()
