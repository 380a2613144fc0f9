"""Calls, invocations and billed requests for 1,000 raw records, and how they grow with nodes and time.

    python -m tests.bench.calls

The real ingest, publish and react run in one warm worker each, on the fake table, which records every call. Batches
are as large as the template's event source mappings permit: `ingest` gets 100 messages or those of one batching window;
`publish` and `react` get up to `BatchSize` of the new entries that their filters accept.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from faultbridge.adapters.aws.receipts import receipt_line
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.publish import wire_archive_writer, wire_publish
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.ingest.outcomes import outcome_line
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ops.react import status_causes
from infra.docs.template import template
from tests.bench.dynamodb_meter import Bill, Meter
from tests.bench.report import Row, report
from tests.sim.deliveries import REACT_ENTRY_TYPES
from tests.world import XID_31, XID_79, World

TEMPLATE = Path(__file__).resolve().parents[2] / "infra" / "template.yaml"
THOUSAND = 1000
CONCURRENT_BATCHES = 5
"""How many pollers of a queue collect a batch each before Lambda scales further, which takes up to a minute.

Source: "Configuring scaling behavior for SQS event source mappings" in the developer guide of AWS Lambda. That each of
them gets an equal share of the messages is inferred.
"""
# The records of 15 minutes warm the caches before the measurement.
WARM_UP = timedelta(minutes=15)
COUNTED = timedelta(minutes=15)
RECORDS_PER_SECOND = 0.1
HEALTHY = b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'
WARNING = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, name=python, Row Remapper: New row marked for remapping"
TEXTS = {"info": XID_31, "fatal": XID_79, "warning": WARNING}
# Healthy, informational, fatal and warning records in percent, as in another operator's production.
MIX = (("healthy", 64), ("info", 24), ("fatal", 8), ("warning", 4))

Record = tuple[str, str]


@dataclass(frozen=True)
class BatchingMapping:
    """The batching of the queue's mapping: maximum batch size, window in seconds, and how many pollers collect."""

    size: int
    window: float
    pollers: int = 1

    def batch(self, per_second: float) -> int:
        """Return the batch size at a rate of records per second."""
        return max(1, min(self.size, round(per_second * self.window / self.pollers)))


def configured() -> BatchingMapping:
    """Read the mapping of the raw queue from the template."""
    found = event_source("IngestFunction", "RawRecords")
    window = found["MaximumBatchingWindowInSeconds"]
    return BatchingMapping(found["BatchSize"], template()["Parameters"][window["Ref"]]["Default"])


@cache
def event_source(function: str, event: str) -> dict[str, Any]:
    """Read the properties of an event source mapping from the template."""
    properties: dict[str, Any] = template()["Resources"][function]["Properties"]["Events"][event]["Properties"]
    return properties


class Run:
    """One installation on fakes, with batches as its event source mappings would form them.

    The cluster is observed, unless `registered` says otherwise.
    """

    def __init__(self, nodes: int, per_second: float, mapping: BatchingMapping, **registered: Any) -> None:
        names = tuple(f"n{number}" for number in range(nodes))
        self.world = World(nodes=names, **({"mode": "observe", "repair_owner": "observe"} | registered))
        ports = self.world.ports
        ports.sink.seam = ports.seam
        self.batch = mapping.batch(per_second)
        self.concurrent = CONCURRENT_BATCHES if self.batch == mapping.size else 1
        self.pause = self.batch / per_second
        self.meter = Meter(ports.seam.calls, ports.table)
        self.streamed = len(ports.table.stream)
        self.seconds = 0.0
        self.receipt_bytes = 0

    def take(self, records: Sequence[Record]) -> None:
        """Ingest records at an even rate, and publish, archive and react to the new entries.

        If the rate fills batches, their entries are in the stream together with those of the batches that Lambda
        processes at the same time.
        """
        for first in range(0, len(records), self.batch):
            batch = [self._message(kind, node) for kind, node in records[first : first + self.batch]]
            self.meter.invocations["ingest"] += 1
            self.seconds += self._timed(batch)
            if (first // self.batch + 1) % self.concurrent == 0:
                self._follow()
            self.world.ports.clock.advance(self.pause)
        self._follow()

    def _timed(self, batch: Sequence[Delivery]) -> float:
        """Ingest a batch and return its CPU seconds, measured without garbage collection."""
        gc.disable()
        start = time.process_time()
        result = wire_ingest(self.world.app).ingest(batch)
        took = time.process_time() - start
        gc.enable()
        self.receipt_bytes += len(receipt_line(outcome_line(result.outcomes)))
        return took

    def measure(self, records: Sequence[Record]) -> tuple[Bill, float]:
        """Return the bill of records and the CPU seconds of ingest."""
        self.meter, self.seconds = Meter(self.world.ports.seam.calls, self.world.ports.table), 0.0
        self.take(records)
        return self.meter.bill(len(records)), self.seconds

    def _follow(self) -> None:
        """Publish and archive new entries and run `react` for them, until there are no new entries."""
        app = self.world.app
        while entries := self._new_entries():
            for batch in _stream_batches("PublishFunction", entries):
                self.meter.invocations["publish"] += 1
                wire_publish(app).publish(batch)
                wire_archive_writer(app).write(batch)
            for batch in _stream_batches("ReactFunction", [one for one in entries if one["type"] in REACT_ENTRY_TYPES]):
                self.meter.invocations["react"] += 1
                wire_react(app).run({(str(one["cluster"]), one["node"]) for one in batch}, status_causes(batch))

    def _new_entries(self) -> list[dict[str, Any]]:
        stream = self.world.ports.table.stream
        new = [one.new for one in stream[self.streamed :] if one.event == "INSERT" and one.new]
        self.streamed = len(stream)
        return [dict(item) for item in new if "event_id" in item]

    def _message(self, kind: str, node: str) -> Delivery:
        if kind == "healthy":
            return self.world.message(HEALTHY, source="dcgm-health", node=node)
        return self.world.message(TEXTS[kind], node=node)


def _stream_batches(function: str, entries: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    """Split entries into batches of the size that a function's mapping of the table's stream permits."""
    size = event_source(function, "Entries")["BatchSize"]
    return (entries[first : first + size] for first in range(0, len(entries), size))


def draw_records(nodes: int, span: timedelta, seed: int) -> list[Record]:
    """Draw the records of a number of nodes in a time span, at 0.1 records a second each."""
    random = Random(seed)
    number = round(nodes * RECORDS_PER_SECOND * span.total_seconds())
    kinds = random.choices([kind for kind, _ in MIX], [share for _, share in MIX], k=number)
    return [(kind, f"n{random.randrange(nodes)}") for kind in kinds]


def mix(mapping: BatchingMapping, *, nodes: int = 100, span: timedelta = COUNTED) -> Row:
    """Measure the production mix with warm caches."""
    run = Run(nodes, nodes * RECORDS_PER_SECOND, mapping)
    run.take(draw_records(nodes, WARM_UP, 1))
    counted = draw_records(nodes, span, 2)
    return row(
        f"mix, {nodes} nodes, {len(counted):,} records, window {mapping.window:g} s, pollers {mapping.pollers}",
        run,
        counted,
    )


def repeated_fault(mapping: BatchingMapping) -> Row:
    """Measure 1,000 identical Xid 31 of one node, all at once."""
    return row("one node, 1,000 times Xid 31", Run(1, 10 * THOUSAND, mapping), [("info", "n0")] * THOUSAND)


def burst(mapping: BatchingMapping) -> Row:
    """Measure 1,000 nodes with one fatal fault each within a second."""
    records = [("fatal", f"n{number}") for number in range(THOUSAND)]
    return row("burst, 1,000 nodes, 1 Xid 79 each", Run(THOUSAND, THOUSAND, mapping), records)


def row(name: str, run: Run, records: Sequence[Record]) -> Row:
    """Measure records and return the figures per thousand of them."""
    bill, seconds = run.measure(records)
    share = THOUSAND / len(records)
    return {
        "per 1,000 records": name,
        "calls": round(bill.call_count * share, 1),
        "invocations": round(bill.invocations.total() * share, 1),
        "billed requests": round(bill.requests * share),
        "us a record": round(seconds / len(records) * 1e6),
        "USD a million": round(bill.dollars / len(records) * 1e6, 2),
        "by call": {name: round(number * share, 1) for name, number in sorted(bill.calls.items())},
        "by function": {name: round(number * share, 1) for name, number in sorted(bill.invocations.items())},
        "by unit": {name: round(number * share, 1) for name, number in sorted(bill.billed.items())},
    }


def main() -> None:
    """Run all measurements and report them."""
    mapping = configured()
    five = replace(mapping, pollers=CONCURRENT_BATCHES)
    rows = [mix(mapping), mix(five), repeated_fault(mapping), burst(mapping)]
    windows = [mix(BatchingMapping(mapping.size, window)) for window in (1, 5)]
    grown = [mix(mapping, nodes=1000, span=timedelta(minutes=1)), mix(mapping, span=10 * COUNTED)]
    report("calls", rows)
    report("windows", windows)
    report("growth", [rows[0], *grown])


if __name__ == "__main__":
    main()
