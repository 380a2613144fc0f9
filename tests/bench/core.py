"""Records a second through the pure core on one core, beside `json.loads` and a plain loop over the same bytes.

python -m tests.bench.core
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime

from faultbridge import data
from faultbridge.decoders import registry
from faultbridge.decoders.base import Hints
from faultbridge.pipeline import observe
from faultbridge.stages.changes import Arrival
from faultbridge.stages.limit import limit
from faultbridge.stages.timestamp import settle
from tests.builders import after, node, rules

BATCH = 100
ROUNDS = 5
Record = tuple[str, datetime, bytes]
SMI = b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'


def xids(count: int) -> list[Record]:
    """Kernel log records of one Xid line each, half of them an application's fault, half the node's."""
    line = "2026-02-03T12:{:02d}:{:02d},000000+00:00 NVRM: Xid (PCI:0000:c1:00): {}, pid={}, name=python, Ch 00000008"
    return [
        (f"r-{n}", after(seconds=n), line.format(n // 60 % 60, n % 60, 31 if n % 2 else 63, n).encode())
        for n in range(count)
    ]


def healthy(count: int) -> list[Record]:
    """DCGM health reports that find nothing wrong."""
    return [(f"r-{n}", after(seconds=n), SMI) for n in range(count)]


def core(source: str, records: list[Record]) -> None:
    """Decode, settle, fold and decide, a hundred records of one node at a time."""
    catalogue = data.catalogue()
    judged = rules(catalogue=catalogue.version)
    state = node()
    for start in range(0, len(records), BATCH):
        arrivals: list[Arrival] = []
        at = records[start][1]
        for name, at, body in records[start : start + BATCH]:
            decoded = limit(registry.decode(source, body, Hints(at, "n", "c")), source)
            seen = settle(decoded, sent_at=at, received_at=at)
            arrivals += [Arrival(one, one.observed_at or at, name) for one in seen]
        state = observe(state, arrivals, rebooted=False, rules=judged, catalogue=catalogue, now=at).state


def fastest(work: Callable[[], object]) -> float:
    """Seconds of CPU of the fastest of a few rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def main() -> None:
    """Print each figure as a line of JSON."""
    count = 10_000
    logs, reports = xids(count), healthy(count)
    lines = b"\n".join(body for _, _, body in logs).decode()
    parsed = [json.dumps({"line": body.decode()}) for _, _, body in logs]
    for what, work in (
        ("pure core, kernel-log", lambda: core("kernel-log", logs)),
        ("pure core, dcgm-health", lambda: core("dcgm-health", reports)),
        ("json.loads of the same bytes", lambda: [json.loads(one) for one in parsed]),
        ("plain line loop", lambda: [line for line in lines.splitlines() if "Xid" in line]),
    ):
        print(json.dumps({"what": what, "records_a_second": round(count / fastest(work))}))


if __name__ == "__main__":
    main()
