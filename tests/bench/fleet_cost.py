"""The AWS cost of a fleet in a month: what agents send, and what ingest does with it.

    python -m tests.bench.fleet_cost [--devices 32]

The agent's own code sends (`node_minutes`), and the real ingest takes its records on the fake table, in batches as the
event source mapping forms them. One node and 40 nodes are measured. Larger fleets are multiples of the 40: in a large
fleet each record of a batch is from another node, so the batches of the measurement hold 40 records, and invocations
are counted as if they were full. Not included: storage, data transfer, the repairs themselves (`tests.bench.case`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from faultbridge.ingest.record_reader import Delivery
from faultbridge.storage.wire.message import decode_message
from tests.bench import node_minutes
from tests.bench.calls import MIX, TEMPLATE, TEXTS, BatchingMapping, Record, Run, configured
from tests.bench.case import month_of_sweeps
from tests.bench.dynamodb_meter import PRICES, QUEUE_AT_ONCE, TIME
from tests.bench.report import Row, report

NODES = 40
MINUTES, WARM_UP = 32, 2
MONTH = 30 * 24 * 60
FAULTS_PER_SECOND = 0.03
CHUNK = 64 * 1024  # SQS bills a call per chunk
INGEST_GIGABYTES = 1.0
IO_SECONDS = 0.05
"""Assumed waiting for the table in one batch; processor time is measured."""
RECEIPT_BYTES, LINES_BYTES = 52, 1_100
"""Log bytes for the outcome of one record, and for the metrics and the lines of Lambda of one batch."""
METRICS = 40
"""Custom metrics that have data in an installation with one cluster, rounded up."""

Body = tuple[str, bytes]


class FleetRun(Run):
    """Ingests recorded probe output and random faults of many nodes."""

    bodies: Mapping[str, Body]

    def _message(self, kind: str, node: str) -> Delivery:
        if kind in TEXTS:
            return self.world.message(TEXTS[kind], node=node)
        source, body = self.bodies[kind]
        if source == "heartbeat":
            fields = json.loads(body) | {"node": node, "instance_id": None, "boot_id": None}
            body = json.dumps(fields | {"at": self.world.now.isoformat()}).encode()
        return self.world.message(body, source=source, node=node)


def records_of(
    calls: Sequence[node_minutes.Call], nodes: int, faults: float
) -> tuple[dict[str, Body], list[list[Record]]]:
    """Return the bodies by name, and the records of all nodes by minute."""
    bodies: dict[str, Body] = {}
    minutes: list[list[Record]] = [[] for _ in range(MINUTES)]
    for call in calls:
        for record in call.records:
            message = decode_message(record.text)
            name = f"r{len(bodies)}"
            bodies[name] = (message.source, message.body or b"")
            minutes[min(int(call.at // 60), MINUTES - 1)] += [(name, f"n{node}") for node in range(nodes)]
    random, kinds = Random(1), [(kind, share) for kind, share in MIX if kind in TEXTS]
    for minute in minutes:
        drawn = random.choices([kind for kind, _ in kinds], [share for _, share in kinds], k=round(60 * faults * nodes))
        minute += [(kind, f"n{random.randrange(nodes)}") for kind in drawn]
    return bodies, minutes


def measure(
    calls: Sequence[node_minutes.Call], nodes: int, faults: float, mapping: BatchingMapping
) -> dict[str, float]:
    """Return the billed units of one node in one minute, by kind."""
    bodies, minutes = records_of(calls, nodes, faults)
    counted = [record for minute in minutes[WARM_UP:] for record in minute]
    run = FleetRun(nodes, len(counted) / 60 / (MINUTES - WARM_UP), BatchingMapping(nodes, mapping.window))
    run.bodies = bodies
    run.take([record for minute in minutes[:WARM_UP] for record in minute])
    bill, seconds = run.measure(counted)
    sent = [call for call in calls if call.at >= 60 * WARM_UP]
    units = sum(-(-call.size // CHUNK) for call in sent) * nodes + faults * 60 * nodes * (MINUTES - WARM_UP)
    batches = bill.invocations["ingest"] * run.batch / (mapping.size if nodes > 1 else 1)
    billed = bill.billed | {
        "lambda_request": bill.invocations.total() - bill.invocations["ingest"] + batches,
        "sqs_request": units + 2 * len(counted) / (QUEUE_AT_ONCE if nodes > 1 else 1),
        TIME: seconds * INGEST_GIGABYTES + batches * IO_SECONDS * INGEST_GIGABYTES,
        "log_gigabyte": (len(counted) * RECEIPT_BYTES + batches * LINES_BYTES) / 1e9,
    }
    share = nodes * (MINUTES - WARM_UP)
    return {kind: number / share for kind, number in billed.items()} | {"records": len(counted) / share}


def fixed() -> float:
    """Return the monthly cost of an installation without nodes."""
    alarms = TEMPLATE.read_text(encoding="utf-8").count("Type: AWS::CloudWatch::Alarm")
    price = PRICES["month"]
    return float(month_of_sweeps()["USD"]) + alarms * price["alarm"] + price["dashboard"] + METRICS * price["metric"]


def row(nodes: int, faults: float, units: Mapping[str, float], base: float) -> Row:
    """Return the monthly cost of a fleet, by what AWS charges for."""
    dollars = {
        kind: PRICES["requests"][kind] * number * nodes * MONTH for kind, number in units.items() if kind != "records"
    }
    parts = {
        "queue": dollars.pop("sqs_request"),
        "functions": dollars.pop(TIME) + dollars.pop("lambda_request"),
        "table": dollars.pop("write_request_unit", 0.0) + dollars.pop("read_request_unit", 0.0),
        "logs": dollars.pop("log_gigabyte"),
    }
    others = sum(dollars.values())
    return {
        "nodes": f"{nodes:,} {'at 0.03 events/s' if faults else 'idle'}",
        "USD a month": round(base + sum(parts.values()) + others, 2),
        "fixed": round(base, 2),
        **{name: round(value, 2) for name, value in parts.items()},
        "others": round(others, 2),
        "by unit": {kind: round(number, 4) for kind, number in units.items()},
    }


def main() -> None:
    """Measure fleets of 1 to 12,500 nodes, idle and with faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=32, help="network devices of a node")
    devices = parser.parse_args().devices
    with tempfile.TemporaryDirectory() as folder:
        calls = node_minutes.record(Path(folder), devices=devices, minutes=MINUTES)
    mapping, base, rows = configured(), fixed(), []
    for faults in (0.0, FAULTS_PER_SECOND):
        alone, full = (measure(calls, nodes, faults, mapping) for nodes in (1, NODES))
        rows += [row(nodes, faults, alone if nodes == 1 else full, base) for nodes in (1, 100, 1_000, 12_500)]
    report(f"fleet_cost_{devices}_devices", rows)


if __name__ == "__main__":
    main()
