"""A living fleet: what a calm fleet with heartbeats costs, what a burst costs in act mode, and what a sweep reads.

    python -m tests.bench.living_fleet [--large]

The agent's own code makes the messages of the calm fleet. In a burst every node of a cluster has one Xid 79 within a
second, and Faultbridge repairs the cluster: entries are published and archived, nodes are isolated, and the budget
decides which repairs start; the steps of those repairs are not included. Fakes take the place of AWS. Each call counts
as the calls of its adapter, and each page of a query is billed by its size. A key is a partition key. `--large` adds
fleets of 12,500 nodes, which take minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

from faultbridge.record.rulebook import rules_of
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.bench import node_minutes
from tests.bench.calls import THOUSAND, BatchingMapping, Run, configured
from tests.bench.dynamodb_meter import Meter
from tests.bench.fleet_cost import FleetRun, Sent
from tests.bench.report import Row, report
from tests.builders import NOON

NODES = (100, 1_000, 12_500)
DEVICES = 8
MINUTES, WARM_UP = 40, 20
SHARDED = 63
"""The nodes of a shard, so that a cluster of 1,000 nodes has sixteen shards."""

LIMITS = {
    "calls per 1,000 records of a calm fleet": 120,
    "calls of a burst, 1 shard": 900,
    "calls of a burst, 16 shards": 1_200,
    "read units a node in a burst": 8,
    "calls of an idle sweep": 60,
    "largest item of a burst, KB": 32,
    "read units of the hottest key of a burst": 1_000,
}


class CalmFleet(FleetRun):
    """A fleet whose nodes send heartbeats and the output of their probes, and whose sweep runs each minute."""

    swept_at = NOON

    def __init__(self, nodes: int, mapping: BatchingMapping) -> None:
        super().__init__(nodes, 1.0, mapping)
        self.mapping = mapping

    def deliver(self, messages: Iterable[Sent]) -> None:
        """Ingest messages in the batches of the event source mapping."""
        batch: list[Sent] = []
        for message in messages:
            if batch and (len(batch) == self.mapping.size or message.at > batch[0].at + self.mapping.window):
                self._ingest(batch)
                batch = []
            batch.append(message)
        self._ingest(batch)

    def _ingest(self, batch: Sequence[Sent]) -> None:
        super()._ingest(batch)
        if self.world.now - self.swept_at >= timedelta(minutes=1):
            self.swept_at = self.world.now
            self.meter.invocations["sweep"] += 1
            wire_sweep(self.world.app).run()


def calm(nodes: int, mapping: BatchingMapping) -> Row:
    """Measure the calls per 1,000 records of a fleet without faults; its nodes send at times of their own."""
    with tempfile.TemporaryDirectory() as folder:
        calls = node_minutes.record(Path(folder), devices=DEVICES, minutes=MINUTES, faults=())
    random, run = Random(1), CalmFleet(nodes, mapping)
    offsets = [random.uniform(0, 120) for _ in range(nodes)]
    sent = sorted(
        (
            Sent(call.at + offsets[node], node, message)
            for node in range(nodes)
            for call in calls
            for message in call.messages
        ),
        key=lambda one: one.at,
    )
    run.deliver(one for one in sent if one.at < 60 * WARM_UP)
    run.start()
    counted = [one for one in sent if one.at >= 60 * WARM_UP]
    run.deliver(counted)
    records = sum(len(message.records) for message in counted)
    bill = run.meter.bill(len(counted))
    return {
        "fleet": f"{nodes:,} nodes, {records:,} records in {len(counted):,} messages",
        "calls per 1,000 records": round(bill.call_count * THOUSAND / records, 1),
        "by call": {name: round(number * THOUSAND / records, 1) for name, number in sorted(bill.calls.items())},
    }


class Burst(Run):
    """A cluster in a mode, all of whose nodes fail within a second."""

    def __init__(self, nodes: int, mapping: BatchingMapping, mode: str, nodes_per_shard: int) -> None:
        owner = "faultbridge" if mode == "act" else "observe"
        super().__init__(
            nodes, max(nodes, mapping.size), mapping, mode=mode, repair_owner=owner, nodes_per_shard=nodes_per_shard
        )


def burst(nodes: int, mapping: BatchingMapping, *, mode: str = "act", nodes_per_shard: int = 800) -> Row:
    """Measure one Xid 79 of every node."""
    run = Burst(nodes, mapping, mode, nodes_per_shard)
    bill, seconds = run.measure([("fatal", f"n{number}") for number in range(nodes)])
    shards = rules_of(run.world.app.rulebook, run.world.config.cluster).config.shards
    hottest, units = max(run.meter.reads_by_partition().items(), key=lambda one: one[1])
    return {
        "burst": f"{nodes:,} nodes, {mode}, {shards} shards",
        "calls": bill.call_count,
        "read units a node": round(bill.billed["read_request_unit"] / nodes, 1),
        "write units a node": round(bill.billed["write_request_unit"] / nodes, 1),
        "largest item, KB": round(run.meter.max_item_bytes() / 1024, 1),
        "units of the hottest key": units,
        "us a record": round(seconds / nodes * 1e6),
        "where": {"hottest key": hottest},
        "by call": dict(sorted(bill.calls.items())),
        "by function": dict(sorted(bill.invocations.items())),
    }


def idle_sweep(nodes: int, mapping: BatchingMapping) -> Row:
    """Measure one sweep of a cluster of healthy nodes; the first sweep of a process warms its caches."""
    run = Run(nodes, 1.0, mapping)
    wire_sweep(run.world.app).run()
    run.world.ports.clock.advance(60)
    meter = Meter(run.world.ports.seam.calls, run.world.ports.table)
    wire_sweep(run.world.app).run()
    bill = meter.bill()
    return {
        "idle sweep": f"{nodes:,} nodes",
        "calls": bill.call_count,
        "read units": round(bill.billed["read_request_unit"]),
        "by call": dict(sorted(bill.calls.items())),
    }


def broken(calm_rows: list[Row], bursts: list[Row], sweeps: list[Row]) -> Iterator[str]:
    """Yield the limits that the rows of an act-mode cluster break."""
    acting = [row for row in bursts if ", act," in row["burst"]]
    thousand = [row for row in acting if row["burst"].startswith("1,000 nodes")]
    figures = {
        "calls per 1,000 records of a calm fleet": max(row["calls per 1,000 records"] for row in calm_rows),
        "calls of a burst, 1 shard": max(row["calls"] for row in thousand if " 1 shards" in row["burst"]),
        "calls of a burst, 16 shards": max(row["calls"] for row in thousand if " 16 shards" in row["burst"]),
        "read units a node in a burst": max(row["read units a node"] for row in acting),
        "calls of an idle sweep": max(row["calls"] for row in sweeps),
        "largest item of a burst, KB": max(row["largest item, KB"] for row in thousand),
        "read units of the hottest key of a burst": max(row["units of the hottest key"] for row in thousand),
    }
    yield from (f"{name}: {value}, limit {LIMITS[name]}" for name, value in figures.items() if value > LIMITS[name])


def main() -> None:
    """Run all measurements, report them, and end with exit code 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also fleets of 12,500 nodes")
    sizes = [nodes for nodes in NODES if nodes <= THOUSAND or parser.parse_args().large]
    mapping = configured()
    calm_rows = [calm(nodes, mapping) for nodes in sizes if nodes == THOUSAND]
    bursts = [
        burst(THOUSAND, mapping, mode="observe", nodes_per_shard=THOUSAND),
        burst(THOUSAND, mapping, nodes_per_shard=THOUSAND),
        burst(THOUSAND, mapping, nodes_per_shard=SHARDED),
        *(burst(nodes, mapping) for nodes in sizes),
    ]
    sweeps = [idle_sweep(nodes, mapping) for nodes in sizes]
    report("calm_fleet", calm_rows)
    report("bursts", bursts)
    report("idle_sweeps", sweeps)
    if lines := list(broken(calm_rows, bursts, sweeps)):
        raise SystemExit("\n".join(lines))


if __name__ == "__main__":
    main()
