"""Calls made by our code for 1,000 raw records: the peer's mix, one chatty node, and what a million cost.

    python -m tests.bench.calls

The real ingest and publish run on the fake table, which sees every call. Arrivals are as the mapping would batch them:
100 messages or one second, whichever comes first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from faultbridge.services.records import Delivery
from faultbridge.storage.codec import dump
from tests.world import XID_31, XID_79, World

PRICES = json.loads((Path(__file__).parent / "prices.json").read_text())
BATCH = 100
# Ten minutes of records before the thousand that are counted: a fleet is not new each minute.
WARMED_BY = 6000
HEALTHY = b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'
WARNING = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, name=python, Row Remapper: New row marked for remapping"
# Healthy, informational, fatal and warning records, per cent: a peer's production mix.
MIX = (("healthy", 64), ("info", 24), ("fatal", 8), ("warning", 4))


@dataclass(frozen=True)
class Counted:
    """Calls by name, invocations and write units of one run of 1,000 records."""

    calls: Mapping[str, int]
    invocations: int
    write_units: int

    @property
    def ours(self) -> int:
        """All calls that our code made."""
        return sum(self.calls.values())


def mix(window: float, seed: int = 1) -> Counted:
    """1,000 records of 100 nodes at 0.1 a second each."""
    random = Random(seed)
    nodes = [f"n{number}" for number in range(100)]
    kinds = random.choices([kind for kind, _ in MIX], [share for _, share in MIX], k=WARMED_BY + 1000)
    world = World(nodes=tuple(nodes), mode="observe", repair_owner="observe")
    per_batch = min(BATCH, max(1, round(10 * window)))
    return run(world, [(kind, random.choice(nodes)) for kind in kinds], per_batch, per_batch / 10)


def chatty() -> Counted:
    """1,000 identical Xid 31 of one node, all there at once."""
    return run(World(), [("info", World().node().key.node)] * 1000, BATCH, 0.1)


def run(world: World, records: list[tuple[str, str]], per_batch: int, seconds: float) -> Counted:
    """Drive ingest and publish as the mappings would, and count."""
    seam, stream = world.ports.seam, world.ports.table.stream
    begun = streamed = units = invocations = 0
    for start in range(0, len(records), per_batch):
        if start == len(records) - 1000:
            begun, units, invocations = len(seam.calls), 0, 0
        batch = [_message(world, kind, node) for kind, node in records[start : start + per_batch]]
        world.app.ingest(batch)
        invocations += 1
        fresh = [record for record in stream[streamed:] if record.new and "event_id" in record.new]
        units += sum(_units(record.new) for record in stream[streamed:] if record.new)
        inserted = [record.new for record in fresh if record.event == "INSERT"]
        streamed = len(stream)
        if inserted:
            world.app.publish(inserted)
            invocations += 1
        world.ports.clock.advance(seconds)
    calls = Counter(call.name for call in seam.calls[begun:])
    return Counted(calls, invocations, units)


def _message(world: World, kind: str, node: str) -> Delivery:
    if kind == "healthy":
        return world.message(HEALTHY, source="dcgm-health", node=node)
    return world.message({"info": XID_31, "fatal": XID_79, "warning": WARNING}[kind], node=node)


def _units(item: Mapping[str, Any]) -> int:
    return -(-len(json.dumps(dump(dict(item)))) // 1024)


def cost_per_million(counted: Counted) -> float:
    """Price of a million records in USD: writes, reads, invocations, queue, events."""
    calls = counted.calls
    requests = {
        "write_request_unit": counted.write_units,
        "read_request_unit": calls.get("table.get_many", 0) * 10 + calls.get("table.get", 0),
        "lambda_request": counted.invocations,
        "sqs_request": 1000 / 10 + counted.invocations * 2,
        "eventbridge_event": calls.get("bus.put", 0),
    }
    return sum(PRICES[name] * number for name, number in requests.items()) * 1000


def main() -> None:
    """Print each figure, as a table and as JSON."""
    rows: Iterator[tuple[str, Counted]] = iter(
        [
            ("mix, window 1 s", mix(1)),
            ("mix, window 5 s", mix(5)),
            ("mix, window 10 s", mix(10)),
            ("chatty node", chatty()),
        ]
    )
    for name, counted in rows:
        told = {
            "what": name,
            "calls_by_our_code": counted.ours,
            "invocations": counted.invocations,
            "usd_a_million_records": round(cost_per_million(counted), 2),
            "by_call": dict(sorted(counted.calls.items())),
        }
        print(json.dumps(told))


if __name__ == "__main__":
    main()
