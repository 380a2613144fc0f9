"""Records a second through the pure core on one core, by format, beside the least that reading the same bytes takes.

    python -m tests.bench.core

The core decodes, settles times, folds and decides, a hundred records of one node at a time. Beside it stands
`json.loads` of the same bytes, or a loop over their lines that looks for one word. Each figure is the best of several
rounds in processor time: no turn of others is in it, but a busy machine is still slower than a free one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime

from faultbridge import data
from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Hints
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.limit import limit
from faultbridge.pipeline.normalize.timestamp import settle
from faultbridge.pipeline.observe import observe
from tests.bench.report import Row, report
from tests.builders import after, node, rules
from tests.decoders.captures import HERE, SAMPLES, expected

BATCH = 100
ROUNDS = 7
XIDS = 10_000
MIN_XIDS = 20_000
BYTES_A_ROUND = 300_000
Record = tuple[str, datetime, bytes]
XID = "2026-02-03T{:02d}:{:02d}:{:02d},000000+00:00 NVRM: Xid (PCI:0000:c1:00): {}, pid={}, name=python, Ch 00000008"
FOLDERS = (SAMPLES, HERE / "samples_platform")


def xids(count: int) -> list[Record]:
    """Kernel log records of one Xid line each at its own time, half of them an application's fault, half the node's."""
    lines = (XID.format(12 + n // 3600, n // 60 % 60, n % 60, 31 if n % 2 else 63, n) for n in range(count))
    return [(f"r-{n}", after(seconds=n), line.encode()) for n, line in enumerate(lines)]


def samples() -> dict[str, list[bytes]]:
    """Our own samples by the source whose format they have."""
    found: dict[str, list[bytes]] = {}
    for folder in FOLDERS:
        for capture in expected(folder / "expectations.toml"):
            found.setdefault(capture.source, []).append((folder / capture.file).read_bytes())
    return dict(sorted(found.items()))


def core(source: str, records: list[Record]) -> None:
    """Decode, settle, fold and decide, a hundred records of one node at a time."""
    catalog = data.load_catalog()
    judged = rules(catalog=catalog.version)
    state = node()
    for start in range(0, len(records), BATCH):
        arrivals: list[Arrival] = []
        at = records[start][1]
        for name, at, body in records[start : start + BATCH]:
            decoded = limit(registry.decode(source, body, Hints(at, "n", "c")), source)
            seen = settle(decoded, sent_at=at, received_at=at)
            arrivals += [Arrival(one, one.observed_at or at, name) for one in seen]
        state = observe(state, arrivals, rebooted=False, rules=judged, catalog=catalog, now=at).state


def least(bodies: list[bytes]) -> tuple[str, Callable[[], object]]:
    """Name the least that reading some bytes takes, and do it."""
    try:
        for body in bodies:
            json.loads(body)
    except ValueError:
        texts = [body.decode("utf-8", "replace") for body in bodies]
        return "line loop", lambda: [line for text in texts for line in text.splitlines() if "Xid" in line]
    return "json.loads", lambda: [json.loads(body) for body in bodies]


def fastest(work: Callable[[], object]) -> float:
    """Seconds of CPU of the fastest of a few rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def row(what: str, source: str, records: list[Record]) -> Row:
    """Measure records of one source."""
    bodies = [body for _, _, body in records]
    size, (name, read) = sum(map(len, bodies)), least(bodies)
    ours, theirs = fastest(lambda: core(source, records)), fastest(read)
    return {
        "format": what,
        "bytes a record": round(size / len(records)),
        "records a second": round(len(records) / ours),
        "MB a second": round(size / ours / 1e6, 1),
        "beside": name,
        "its records a second": round(len(records) / theirs),
        "times slower": round(ours / theirs),
    }


def repeated(bodies: list[bytes]) -> list[Record]:
    """The same samples again and again, sent a second apart: what carries its own time is a duplicate from then on."""
    count = max(BATCH, BYTES_A_ROUND // (sum(map(len, bodies)) // len(bodies)))
    return [(f"r-{n}", after(seconds=n), bodies[n % len(bodies)]) for n in range(count)]


def main() -> int:
    """Measure and report; returns 1 when kernel-log Xids are slower than they may be."""
    rows = [row("kernel-log, one Xid a record", "kernel-log", xids(XIDS))]
    rows += [row(source, source, repeated(bodies)) for source, bodies in samples().items()]
    report("core", rows)
    reached = int(rows[0]["records a second"])
    print(f"  kernel-log Xids: at least {MIN_XIDS:,} a second: {'kept' if reached >= MIN_XIDS else 'broken'}")
    return int(reached < MIN_XIDS)


if __name__ == "__main__":
    sys.exit(main())
