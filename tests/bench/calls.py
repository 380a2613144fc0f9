"""Calls by our code, invocations and billed requests for 1,000 raw records, and how they grow.

    python -m tests.bench.calls

The real ingest, publish and react run on the fake table, which sees every call, in one warm worker each. A batch is
what the mapping in the template would make of the arrivals: 100 messages, or those of one window.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import yaml

from faultbridge.ingest.record_reader import Delivery
from faultbridge.simulation.deliveries import RINGS
from tests.bench.meter import Bill, Meter
from tests.bench.report import Row, report
from tests.world import XID_31, XID_79, World

TEMPLATE = Path(__file__).resolve().parents[2] / "infra" / "template.yaml"
THOUSAND = 1000
# A fleet is not new each minute: a quarter of an hour of records comes before those that are counted.
WARM_UP = timedelta(minutes=15)
COUNTED = timedelta(minutes=15)
EACH = 0.1
HEALTHY = b'{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'
WARNING = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, name=python, Row Remapper: New row marked for remapping"
TEXTS = {"info": XID_31, "fatal": XID_79, "warning": WARNING}
# Healthy, informational, fatal and warning records, per cent: a peer's production mix.
MIX = (("healthy", 64), ("info", 24), ("fatal", 8), ("warning", 4))

Record = tuple[str, str]


@dataclass(frozen=True)
class Mapping:
    """How the queue hands records over: at most so many at once, after at most so many seconds."""

    size: int
    window: float

    def batch(self, per_second: float) -> int:
        """Return how many records come together at a rate."""
        return max(1, min(self.size, round(per_second * self.window)))


def configured() -> Mapping:
    """Read the mapping of the raw queue from the template."""

    class Loader(yaml.SafeLoader):
        """Takes the template's own tags for what they stand on."""

    Loader.add_multi_constructor("!", lambda loader, tag, node: None)
    functions = yaml.load(TEMPLATE.read_text(encoding="utf-8"), Loader)["Resources"]  # noqa: S506 - a safe loader
    found = functions["IngestFunction"]["Properties"]["Events"]["RawRecords"]["Properties"]
    return Mapping(found["BatchSize"], found["MaximumBatchingWindowInSeconds"])


class Run:
    """One installation in memory, driven as its mappings would."""

    def __init__(self, nodes: int, per_second: float, mapping: Mapping) -> None:
        names = tuple(f"n{number}" for number in range(nodes))
        self.world = World(nodes=names, mode="observe", repair_owner="observe")
        ports = self.world.ports
        ports.sink.seam = ports.seam
        self.batch = mapping.batch(per_second)
        self.pause = self.batch / per_second
        self.meter = Meter(ports.seam.calls, ports.table)
        self.streamed = len(ports.table.stream)
        self.seconds = 0.0

    def take(self, records: Sequence[Record]) -> None:
        """Let records arrive evenly, and everything that follows from them happen."""
        for start in range(0, len(records), self.batch):
            batch = [self._message(kind, node) for kind, node in records[start : start + self.batch]]
            self.meter.invocations["ingest"] += 1
            self.seconds += self._timed(batch)
            self._follow()
            self.world.ports.clock.advance(self.pause)

    def _timed(self, batch: Sequence[Delivery]) -> float:
        """Ingest a batch; garbage is left for later, because what grows with each record is the fake table."""
        gc.disable()
        begun = time.process_time()
        self.world.app.ingestion.ingest(batch)
        took = time.process_time() - begun
        gc.enable()
        return took

    def measure(self, records: Sequence[Record]) -> tuple[Bill, float]:
        """Return the bill of records and the seconds of CPU that ingest took for them."""
        self.meter, self.seconds = Meter(self.world.ports.seam.calls, self.world.ports.table), 0.0
        self.take(records)
        return self.meter.bill(len(records)), self.seconds

    def _follow(self) -> None:
        """Publish and archive what came onto the record; what rings for `react` does so until nothing new comes."""
        while fresh := self._new_entries():
            app = self.world.app
            self.meter.invocations["publish"] += 1
            app.ledger.publish(fresh)
            app.archive.write(fresh)
            bells = {(str(one["cluster"]), one["node"]) for one in fresh if one["type"] in RINGS}
            if bells:
                self.meter.invocations["react"] += 1
                app.ops.react(bells)

    def _new_entries(self) -> list[dict[str, object]]:
        stream = self.world.ports.table.stream
        fresh = [one.new for one in stream[self.streamed :] if one.event == "INSERT" and one.new]
        self.streamed = len(stream)
        return [dict(item) for item in fresh if "event_id" in item]

    def _message(self, kind: str, node: str) -> Delivery:
        if kind == "healthy":
            return self.world.message(HEALTHY, source="dcgm-health", node=node)
        return self.world.message(TEXTS[kind], node=node)


def drawn(nodes: int, span: timedelta, seed: int) -> list[Record]:
    """Draw what so many nodes say in some time at 0.1 records a second each."""
    random = Random(seed)
    number = round(nodes * EACH * span.total_seconds())
    kinds = random.choices([kind for kind, _ in MIX], [share for _, share in MIX], k=number)
    return [(kind, f"n{random.randrange(nodes)}") for kind in kinds]


def mix(mapping: Mapping, *, nodes: int = 100, span: timedelta = COUNTED) -> Row:
    """The peer's mix, once the fleet has run for a while."""
    run = Run(nodes, nodes * EACH, mapping)
    run.take(drawn(nodes, WARM_UP, 1))
    counted = drawn(nodes, span, 2)
    return row(f"mix, {nodes} nodes, {len(counted):,} records, window {mapping.window:g} s", run, counted)


def chatty(mapping: Mapping) -> Row:
    """1,000 identical Xid 31 of one node, all there at once."""
    return row("one chatty node, 1,000 Xid 31", Run(1, 10 * THOUSAND, mapping), [("info", "n0")] * THOUSAND)


def burst(mapping: Mapping) -> Row:
    """1,000 nodes with a fatal fault each, within a second."""
    records = [("fatal", f"n{number}") for number in range(THOUSAND)]
    return row("burst, 1,000 nodes, 1 Xid 79 each", Run(THOUSAND, THOUSAND, mapping), records)


def row(what: str, run: Run, records: Sequence[Record]) -> Row:
    """Measure records and state everything for a thousand of them."""
    bill, seconds = run.measure(records)
    share = THOUSAND / len(records)
    return {
        "per 1,000 records": what,
        "calls": round(bill.ours * share, 1),
        "invocations": round(bill.invocations.total() * share, 1),
        "billed requests": round(bill.requests * share),
        "us a record": round(seconds / len(records) * 1e6),
        "USD a million": round(bill.dollars / len(records) * 1e6, 2),
        "by call": {name: round(number * share, 1) for name, number in sorted(bill.calls.items())},
        "by function": {name: round(number * share, 1) for name, number in sorted(bill.invocations.items())},
        "by unit": {name: round(number * share, 1) for name, number in sorted(bill.billed.items())},
    }


def main() -> None:
    """Measure and report."""
    mapping = configured()
    rows = [mix(mapping), chatty(mapping), burst(mapping)]
    windows = [mix(Mapping(mapping.size, window)) for window in (1, 5)]
    grown = [mix(mapping, nodes=1000, span=timedelta(minutes=1)), mix(mapping, span=10 * COUNTED)]
    report("calls", rows)
    report("windows", windows)
    report("growth", [rows[0], *grown])


if __name__ == "__main__":
    main()
