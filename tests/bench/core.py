"""Records a second through the pure pipeline on one core, by format, compared with only reading them.

    python -m tests.bench.core

The pipeline decodes, sets times, folds and decides, a hundred records of one node at a time. The comparison is
`json.loads` of the same bytes, or of an object with the one line of a record, expat for XML, or a loop over the lines
that searches for a word. Each figure is the best of several rounds in processor time, which alternate with those of the
comparison; a busy machine still gives lower figures than an idle one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from xml.parsers import expat

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.normalize.oversized_records import MAX_FAULTS, limit_faults
from faultbridge.decide.normalize.timestamp import assign_times
from faultbridge.decide.observe import observe
from faultbridge.decode import data, registry
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.faults import faults_of
from tests.bench.decoders import best_of_each
from tests.bench.report import Row, report
from tests.builders import after, node, rules
from tests.decoders.captures import HERE, SAMPLES, expected

BATCH = 100
XIDS = 10_000
MIN_XIDS = 20_000
BYTES_A_ROUND = 300_000
Record = tuple[str, datetime, bytes]
XID = "2026-02-03T{:02d}:{:02d}:{:02d},000000+00:00 NVRM: Xid (PCI:0000:c1:00): {}, pid={}, name=python, Ch 00000008"
FOLDERS = (SAMPLES, HERE / "samples_platform")


def xids(count: int) -> list[Record]:
    """Return kernel log records of one Xid line each, half application faults, half node faults."""
    lines = (XID.format(12 + n // 3600, n // 60 % 60, n % 60, 31 if n % 2 else 63, n) for n in range(count))
    return [(f"r-{n}", after(seconds=n), line.encode()) for n, line in enumerate(lines)]


def samples() -> dict[str, list[bytes]]:
    """Return the test samples by source."""
    found: dict[str, list[bytes]] = {}
    for folder in FOLDERS:
        for capture in expected(folder / "expectations.toml"):
            found.setdefault(capture.source, []).append((folder / capture.file).read_bytes())
    return dict(sorted(found.items()))


def core(source: str, records: list[Record]) -> None:
    """Run records through the pipeline, a hundred of one node at a time."""
    catalog = data.load_catalog()
    used_rules = rules(catalog=catalog)
    state = node()
    for start in range(0, len(records), BATCH):
        arrivals: list[Arrival] = []
        at = records[start][1]
        for name, at, body in records[start : start + BATCH]:
            decoded = registry.decode(source, body, Hints(at, "n", "c"))
            if sum(len(faults_of(one)) for one in decoded) > MAX_FAULTS:
                decoded = limit_faults(decoded, source, data.load_catalog())
            seen = assign_times(decoded, sent_at=at, received_at=at)
            arrivals += [Arrival(one, one.observed_at or at, name) for one in seen]
        state = observe(state, arrivals, rules=used_rules, catalog=catalog, now=at).state


def baseline(bodies: list[bytes]) -> tuple[str, Callable[[], object]]:
    """Return the name of the comparison for some bodies, and a function that runs it."""
    try:
        for body in bodies:
            json.loads(body)
    except ValueError:
        if all(body.startswith(b"<") for body in bodies):
            return "expat", lambda: [expat.ParserCreate().Parse(body, True) for body in bodies]
        texts = [body.decode("utf-8", "replace") for body in bodies]
        if not any("\n" in text for text in texts):
            documents = [json.dumps({"line": text}).encode() for text in texts]
            return "json.loads", lambda: [json.loads(document) for document in documents]
        return "line loop", lambda: [line for text in texts for line in text.splitlines() if "Xid" in line]
    return "json.loads", lambda: [json.loads(body) for body in bodies]


def row(name: str, source: str, records: list[Record]) -> Row:
    """Measure the records of one source."""
    bodies = [body for _, _, body in records]
    size, (compared, read) = sum(map(len, bodies)), baseline(bodies)
    ours, theirs = best_of_each(lambda: core(source, records), read)
    return {
        "format": name,
        "bytes a record": round(size / len(records)),
        "records a second": round(len(records) / ours),
        "MB a second": round(size / ours / 1e6, 1),
        "compared with": compared,
        "its records a second": round(len(records) / theirs),
        "times slower": round(ours / theirs, 1),
    }


def repeated(bodies: list[bytes]) -> list[Record]:
    """Repeat samples a second apart; samples with a timestamp become duplicates after the first round."""
    count = max(BATCH, BYTES_A_ROUND // (sum(map(len, bodies)) // len(bodies)))
    return [(f"r-{n}", after(seconds=n), bodies[n % len(bodies)]) for n in range(count)]


def main() -> int:
    """Run all measurements; returns 1 if kernel-log Xids are slower than the minimum."""
    rows = [row("kernel-log, one Xid a record", "kernel-log", xids(XIDS))]
    rows += [row(source, source, repeated(bodies)) for source, bodies in samples().items()]
    report("core", rows)
    reached = int(rows[0]["records a second"])
    print(f"  kernel-log Xids: at least {MIN_XIDS:,} a second: {'met' if reached >= MIN_XIDS else 'missed'}")
    return int(reached < MIN_XIDS)


if __name__ == "__main__":
    sys.exit(main())
