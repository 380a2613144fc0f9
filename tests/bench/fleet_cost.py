"""The AWS cost of a fleet in a month: what agents send, and what ingest does with it.

    python -m tests.bench.fleet_cost [--devices 32] [--heartbeat 140] [--hold 120] [--window 2]

The agent's own code reads the faults from a kernel log and sends them (`node_minutes`), and the real ingest takes its
messages on the fake table, in batches as the five pollers of the event source mapping form them: at most 40 messages,
each of another node. The hour that is counted follows two hours of the same load: the first faults of a node cost more
than their repetitions, and equal counters are stored once in two hours. What the sweep does with the heartbeats is
measured for each size of fleet. Processor time is that of one vCPU, and one warm worker is assumed for the caches. Each
fleet has two costs: if each receive returns ten messages, and if each returns one, the most that SQS bills.
Not included: storage and backups, data transfer, the inventory, the archive, and the repairs (`tests.bench.case`).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from faultbridge.adapters.aws.dynamodb import to_typed_item
from faultbridge.model.enums import EntryType
from faultbridge.model.storage.heartbeats import batch_put
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import encode_message, join_records
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.record.rulebook import rules_of
from faultbridge.serve.entrypoints.ingest import ingest
from faultbridge.serve.entrypoints.inventory import inventory
from faultbridge.serve.entrypoints.pager import pager
from faultbridge.serve.entrypoints.publish import publish
from faultbridge.serve.entrypoints.sweep import sweep
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_heartbeat_log
from tests.bench import node_minutes
from tests.bench.calls import CONCURRENT_BATCHES, MIX, TEMPLATE, TEXTS, BatchingMapping, Run, configured
from tests.bench.case import month_of_sweeps
from tests.bench.dynamodb_meter import PRICES, QUEUE_AT_ONCE, TIME, Meter
from tests.bench.report import Row, report
from tests.builders import KEY, NOON
from tests.pages import event
from tests.world import World

NODES, AGENTS = 40, 4
"""Most measured nodes, and agents whose random faults differ; the nodes repeat what these agents send."""
MINUTES, WARM_UP = 180, 120
MONTH = 30 * 24 * 60
FAULTS_PER_SECOND = 0.03
CHUNK = 64 * 1024  # SQS bills a call per chunk
INGEST_GIGABYTES = 1.0
VCPU_GIGABYTES = 1769 / 1024
"""With this memory a function has one vCPU; with less, the same work takes longer in proportion and costs as much."""
NODES_PER_SHARD = 800
SWEEPS, COUNTED_SWEEPS = 25, 15
"""Sweeps of a measurement, one a minute, and how many of the last ones are counted: three periods of five minutes."""
IO_SECONDS = 0.05
"""Assumed waiting for the table in one batch; processor time is measured."""
LINES_BYTES = 1_100
"""Log bytes for the metrics and the lines of Lambda of one batch; those of the receipts are measured."""
NODES_PER_CLUSTER = 1_250
POLLED_SECONDS = 20  # a poller asks an empty queue this often
IDLE_POLLERS = 5 + 3 * 2
"""Pollers of the raw queue, whose mapping has a limit of concurrency, and of the three queues that have none."""


@dataclass(frozen=True)
class Sent:
    """One message of the queue: when, from which node, and its records."""

    at: float
    node: int
    records: tuple[OutgoingRecord, ...]


class FleetRun(Run):
    """Ingests the messages of many nodes in batches, at the times at which the agents sent them."""

    def start(self) -> None:
        """Start to count."""
        self.meter, self.seconds = Meter(self.world.ports.seam.calls, self.world.ports.table), 0.0
        self.receipt_bytes = 0

    def deliver(self, messages: Iterable[Sent]) -> None:
        """Ingest messages, and publish, archive and react to the new entries."""
        batch: list[Sent] = []
        for message in messages:
            # In a large fleet, each message of a batch is of another node.
            if len(batch) == self.batch or any(message.node == other.node for other in batch):
                self._ingest(batch)
                batch = []
            batch.append(message)
        self._ingest(batch)

    def _ingest(self, batch: Sequence[Sent]) -> None:
        if batch:
            self.world.ports.clock.advance_to(max(self.world.now, NOON + timedelta(seconds=batch[-1].at)))
            self.meter.invocations["ingest"] += 1
            self.seconds += self._timed([self._delivery(message) for message in batch])
            self._follow()

    def _delivery(self, message: Sent) -> Delivery:
        texts = [_of_node(record.text, message.node) for record in message.records]
        # The queue received it when it was sent: the batches here wait longer for their messages than real ones do.
        return replace(self.world.message(), text=join_records(texts), received_at=NOON + timedelta(seconds=message.at))


def _of_node(text: str, number: int) -> str:
    """Return a recorded message as another node sends it."""
    message, node = decode_message(text), f"n{number}"
    body = (message.body or b"").replace(b'"node": "n0"', f'"node": "{node}"'.encode())
    record_id = f"{message.record_id[:-2]}{number:02}"
    return encode_message(replace(message, record_id=record_id, node=node, instance_id=None, body=body), compact=True)


def random_faults(rate: float, seed: int) -> list[tuple[float, str]]:
    """Return the times and kernel lines of the random faults of one node."""
    random, kinds, at = Random(seed), [(kind, share) for kind, share in MIX if kind in TEXTS], 0.0
    faults: list[tuple[float, str]] = []
    while rate and (at := at + random.expovariate(rate)) < 60 * MINUTES:
        (kind,) = random.choices([kind for kind, _ in kinds], [share for _, share in kinds])
        faults.append((at, TEXTS[kind]))
    return faults


def message_rate(agents: Sequence[Sequence[node_minutes.Call]]) -> float:
    """Return how many messages a node sends in a second."""
    counted = [call for calls in agents for call in calls if call.at >= 60 * WARM_UP]
    return sum(len(call.messages) for call in counted) / len(agents) / (60 * (MINUTES - WARM_UP))


def measure(agents: Sequence[Sequence[node_minutes.Call]], batch: int) -> dict[str, float]:
    """Return the billed units of one node in one minute, by kind, if a batch has so many messages.

    The nodes repeat what the agents sent. `received` is the number of messages, each of which is received once.
    """
    nodes = min(NODES, max(batch, AGENTS))
    of_node = [agents[node % len(agents)] for node in range(nodes)]
    sent = sorted(
        (
            Sent(call.at, node, message)
            for node, calls in enumerate(of_node)
            for call in calls
            for message in call.messages
        ),
        key=lambda one: one.at,
    )
    counted = [one for one in sent if one.at >= 60 * WARM_UP]
    run = FleetRun(nodes, 1.0, BatchingMapping(nodes, 1.0))
    run.batch = min(batch, nodes)
    run.deliver(one for one in sent if one.at < 60 * WARM_UP)
    run.start()
    run.deliver(counted)
    bill = run.meter.bill()
    calls = [call for calls in of_node for call in calls if call.at >= 60 * WARM_UP]
    batches = len(counted) / batch
    records = sum(len(one.records) for one in counted)
    log_bytes = run.receipt_bytes + batches * LINES_BYTES
    billed = bill.billed | {
        "lambda_request": bill.invocations.total() - bill.invocations["ingest"] + batches,
        "sqs_request": sum(-(-call.size // CHUNK) for call in calls)
        + batches * -(-batch // QUEUE_AT_ONCE),  # sent, and deleted in tens
        "received": float(len(counted)),
        TIME: run.seconds * VCPU_GIGABYTES + batches * IO_SECONDS * INGEST_GIGABYTES,
        "log_gigabyte": log_bytes / 1e9,
    }
    share = nodes * (MINUTES - WARM_UP)
    units = {kind: number / share for kind, number in billed.items()}
    return units | {"records": records / share, "messages": len(counted) / share, "calls": len(calls) / share}


def heartbeat_sweeps(nodes: int, mapping: BatchingMapping, seconds: int) -> dict[str, float]:
    """Return the units of a month in which the sweep reads and stores the last heartbeats of a fleet once a minute."""
    world = World(nodes=("n0",), mode="observe", repair_owner="observe")
    log, table, clock = wire_heartbeat_log(world.app), world.ports.table, world.ports.clock
    config = rules_of(world.app.rulebook, KEY.cluster).config
    config = replace(config, shards=-(-nodes // NODES_PER_SHARD))
    size = mapping.batch(nodes / seconds)
    billed = {"read_request_unit": 0.0, "write_request_unit": 0.0}
    sent = 0.0
    for number in range(SWEEPS):
        due = range(int(sent), int(sent := sent + 60 * nodes / seconds))
        for first in range(0, len(due), size):
            clock.advance(60 * size / max(size, len(due)))
            names = (f"ip-10-{one % nodes // 256}-{one % 256}" for one in due[first : first + size])
            table.write(batch_put(KEY.cluster, dict.fromkeys(names, clock.now()), clock.now()))
        meter = Meter(world.ports.seam.calls, table)
        log.store(log.read(config))
        if number >= SWEEPS - COUNTED_SWEEPS:
            bill = meter.bill()
            billed = {kind: number + bill.billed.get(kind, 0.0) for kind, number in billed.items()}
    return {kind: number / COUNTED_SWEEPS * MONTH for kind, number in billed.items()}


def metrics_with_data(faults: float) -> int:
    """Return how many custom metrics of one cluster have data in an hour; CloudWatch charges no others."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        run_once(World(mode="observe", repair_owner="observe"), faulty=bool(faults))
    lines = [json.loads(line) for line in printed.getvalue().splitlines() if '"_aws"' in line]
    found = {
        (line.get("code"), line["service"], metric["Name"])
        for line in lines
        for directive in line["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
    }
    return len(found)


def run_once(world: World, *, faulty: bool) -> None:
    """Run the functions of an idle hour, with a fault of a node if `faulty`."""
    messages = [world.message(one) for one in TEXTS.values()] if faulty else [world.message(b"", source="heartbeat")]
    attributes = {"SentTimestamp": str(int(world.now.timestamp() * 1000))}
    canary = {"detail-type": EntryType.NOTE, "detail": event(EntryType.NOTE, facts={"sent_at": to_text(world.now)})}
    records = [{"messageId": one.id, "body": one.text, "attributes": attributes} for one in messages]

    def entries() -> dict[str, Any]:
        new = [one.new for one in world.ports.table.stream if one.event == "INSERT" and one.new]
        images = [{"dynamodb": {"NewImage": to_typed_item(one)}} for one in new if "event_id" in one]
        return {"Records": images}

    functions: Mapping[str, Callable[[], object]] = {
        "ingest": lambda: ingest({"Records": records}, world.app),
        "sweep": lambda: (sweep({}, world.app), sweep(canary, world.app)),
        "publish": lambda: publish(entries(), world.app),
        "pager": lambda: pager({"detail-type": "Scheduled Event"}, world.app),
        "inventory": lambda: inventory({}, world.app),
    }
    for service, run in functions.items():
        os.environ["POWERTOOLS_SERVICE_NAME"] = service
        run()


def fixed(nodes: int, metrics: int) -> float:
    """Return the monthly cost of an installation that does not depend on what its nodes send."""
    alarms = TEMPLATE.read_text(encoding="utf-8").count("Type: AWS::CloudWatch::Alarm")
    price = PRICES["month"]
    sweeps = float(str(month_of_sweeps()["USD"]))
    polls = IDLE_POLLERS * MONTH * 60 / POLLED_SECONDS * PRICES["requests"]["sqs_request"]
    metrics *= -(-nodes // NODES_PER_CLUSTER)
    return float(sweeps + polls + alarms * price["alarm"] + price["dashboard"] + metrics * price["metric"])


def row(nodes: int, load: str, units: Mapping[str, float], base: float, sweeps: Mapping[str, float]) -> Row:
    """Return the monthly cost of a fleet, by what AWS charges for; `sweeps` are units of a month of the whole fleet.

    The cost assumes that each receive returns ten messages; `one a receive` is the cost if each returns one.
    """
    prices = PRICES["requests"]
    monthly = {kind: number * nodes * MONTH + sweeps.get(kind, 0.0) for kind, number in units.items() if kind in prices}
    dollars = {kind: prices[kind] * number for kind, number in monthly.items()}
    received = units["received"] * nodes * MONTH * prices["sqs_request"]
    parts = {
        "queue": dollars.pop("sqs_request") + received / QUEUE_AT_ONCE,
        "functions": dollars.pop(TIME) + dollars.pop("lambda_request"),
        "table": dollars.pop("write_request_unit", 0.0) + dollars.pop("read_request_unit", 0.0),
        "logs": dollars.pop("log_gigabyte"),
    }
    others = sum(dollars.values())
    return {
        "nodes": f"{nodes:,} {load}",
        "USD a month": round(base + sum(parts.values()) + others, 2),
        "one a receive": round(base + sum(parts.values()) + others + received * (1 - 1 / QUEUE_AT_ONCE), 2),
        "fixed": round(base, 2),
        **{name: round(value, 2) for name, value in parts.items()},
        "others": round(others, 2),
        "sweeps": round(sum(prices[kind] * number for kind, number in sweeps.items()), 2),
        "by unit": {kind: round(number, 4) for kind, number in units.items()},
    }


def _record(devices: int, faults: float, seed: int, heartbeat: int, hold: int) -> list[node_minutes.Call]:
    with tempfile.TemporaryDirectory() as folder:
        return node_minutes.record(
            Path(folder),
            devices=devices,
            minutes=MINUTES,
            faults=random_faults(faults, seed),
            heartbeat=heartbeat,
            hold=hold,
        )


def main() -> None:
    """Measure fleets of 1 to 12,500 nodes, idle and with faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=32, help="network devices of a node")
    parser.add_argument("--heartbeat", type=int, default=140, help="seconds between two heartbeats of a node")
    parser.add_argument("--hold", type=int, default=120, help="seconds that unchanged output and mild faults wait")
    parser.add_argument("--window", type=float, default=configured().window, help="IngestWindowSeconds")
    parser.add_argument("--pollers", type=int, default=CONCURRENT_BATCHES, help="pollers of the raw queue")
    asked = parser.parse_args()
    mapping, rows = BatchingMapping(configured().size, asked.window, asked.pollers), []
    for faults, load in ((0.0, "idle"), (FAULTS_PER_SECOND, "at 0.03 events/s")):
        agents = [
            _record(asked.devices, faults, seed, asked.heartbeat, asked.hold) for seed in range(AGENTS if faults else 1)
        ]
        measured: dict[int, dict[str, float]] = {}
        for nodes in (1, 100, 1_000, 12_500):
            batch = mapping.batch(nodes * message_rate(agents))
            if batch not in measured:
                measured[batch] = measure(agents, batch)
            sweeps = heartbeat_sweeps(nodes, mapping, asked.heartbeat)
            rows.append(row(nodes, load, measured[batch], fixed(nodes, metrics_with_data(faults)), sweeps))
    report(f"fleet_cost_{asked.devices}_devices_{asked.heartbeat}_seconds_window_{asked.window:g}", rows)


if __name__ == "__main__":
    main()
