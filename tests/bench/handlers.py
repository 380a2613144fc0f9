"""Run time of each function, cold and warm, with the built artifact and a local stub of AWS.

    python -m tests.bench.handlers

A new process imports the handler and handles one event (cold: from process start to the answer), then more events of
the same kind (warm: their median). The figures include the time of the stub, so they compare functions and versions but
do not predict AWS.
"""

from __future__ import annotations

import base64
import gzip
import json
import statistics
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from faultbridge.adapters.aws.dynamodb import to_typed_item
from faultbridge.model.events.wire import detail_of
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Item
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from tests.api.gateway import event as request
from tests.bench.cold_start import batch
from tests.bench.deployed import CLUSTER, Deployed, deployed
from tests.bench.report import Row, report

RUNS = 3
WARM = 10
NODES = 40

HANDLER = """
import json, sys, time
from handler import handler
imported = time.perf_counter()
class Context:
    aws_request_id = function_name = invoked_function_arn = "bench"
    memory_limit_in_mb = 512
took = []
for event in json.load(open(sys.argv[1])):
    begun = time.perf_counter()
    handler(event, Context())
    took.append((time.perf_counter() - begun) * 1000)
print("\\n" + json.dumps(took))
"""

Event = Mapping[str, Any]


def main() -> None:
    """Run all measurements and report them."""
    with deployed() as on:
        for number in range(NODES):
            on.add_node(f"node-{number}", number)
        entries = _report_faults(on)
        report("handlers", [_measure(on, name, make(entries)) for name, make in EVENTS.items()])


def _report_faults(on: Deployed) -> list[Item]:
    """Ingest a fault for half of the nodes; returns the resulting entries."""
    entries: list[Item] = []
    for number in range(NODES // 2):
        node = f"node-{number}"
        (record,) = batch(node)["Records"]
        wire_ingest(on.installation).ingest([Delivery(node, record["body"], datetime.now(UTC))])
        partition = keys.node_partition(NodeKey(CLUSTER, node))
        entries += on.installation.ports.table.query(partition, prefix="ENTRY#").items
    return [entry for entry in entries if entry["type"] == "Node Status Change"]


def _measure(on: Deployed, name: str, events: list[Event]) -> Row:
    """Measure a function with some events, in several new processes."""
    path = on.folder / f"{name}.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    cold, first, warm = [], [], []
    for _ in range(RUNS):
        process = on.run(HANDLER, on.path_of(name), str(path))
        each = json.loads(process.printed.rstrip().rpartition("\n")[2])
        cold.append(process.elapsed - sum(each[1:]))
        first.append(each[0])
        warm += each[1:]
    return {
        "function": name,
        "cold ms, process to answer": round(statistics.median(cold)),
        "of it the first event": round(statistics.median(first)),
        "warm ms": round(statistics.median(warm), 1),
        "least": round(min(warm), 1),
    }


def _ingest(_: list[Item]) -> list[Event]:
    return [batch(f"node-{NODES // 2 + number}") for number in range(WARM)]


def _stream(entries: list[Item]) -> list[Event]:
    """Return table stream events, one entry per batch."""
    return [
        {
            "Records": [
                {
                    "eventName": "INSERT",
                    "eventSource": "aws:dynamodb",
                    "dynamodb": {
                        "Keys": to_typed_item({"pk": entry["pk"], "sk": entry["sk"]}),
                        "NewImage": to_typed_item(entry),
                        "SequenceNumber": "1",
                    },
                }
            ]
        }
        for entry in entries[:WARM]
    ]


def _pager(entries: list[Item]) -> list[Event]:
    events = (
        {"detail-type": entry["type"], "detail": json.loads(detail_of(str(entry["body"]), ""))}
        for entry in entries[:WARM]
    )
    return [{"Records": [{"body": json.dumps(event)}]} for event in events]


def _replacement(_: list[Item]) -> list[Event]:
    """Return steps of a finished attempt, which answer `superseded`."""
    step = {"v": 1, "cluster": CLUSTER, "node": "node-0", "case": "c-none", "attempt": 1, "step": "drain"}
    return [step] * WARM


def _timeline(_: list[Item]) -> list[Event]:
    return [request("GET", f"/clusters/{CLUSTER}/nodes/node-{number}", "", b"", ["*"]) for number in range(WARM)]


def _console(_: list[Item]) -> list[Event]:
    return [
        request("GET", f"/console/clusters/{CLUSTER}/nodes/node-{number}", "", b"", ["*"]) for number in range(WARM)
    ]


def _intake(_: list[Item]) -> list[Event]:
    log_events = [{"id": "0", "timestamp": 1770119940000, "message": '{"level":"info"}'}]
    message = {
        "messageType": "DATA_MESSAGE",
        "logGroup": f"/aws/sagemaker/Clusters/{CLUSTER}/abc",
        "logStream": "SagemakerHealthMonitoringAgent/workers/i-00000000000000001",
        "logEvents": log_events,
    }
    data = base64.b64encode(gzip.compress(json.dumps(message).encode())).decode()
    return [{"awslogs": {"data": data}}] * WARM


def _scheduled(_: list[Item]) -> list[Event]:
    return [{}] * WARM


EVENTS: Mapping[str, Callable[[list[Item]], list[Event]]] = {
    "ingest": _ingest,
    "publish": _stream,
    "react": _stream,
    "pager": _pager,
    "replacement": _replacement,
    "sweep": _scheduled,
    "archive": _scheduled,
    "inventory": _scheduled,
    "timeline": _timeline,
    "console": _console,
    "intake": _intake,
}


if __name__ == "__main__":
    main()
