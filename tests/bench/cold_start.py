"""Time from the start of a process to its first committed record, with the built artifact.

    python -m tests.bench.cold_start

`make bench` builds first. Each run is a new process that ingests one batch of one record. For comparison, a new process
imports boto3, creates one client and makes one call, and another makes the same calls to the table as ingest: two reads
of some items and a transaction. The kinds alternate.
"""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime
from typing import Any

from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.message import Message, encode_message
from tests.bench.deployed import CLUSTER, Deployed, ProcessRun, deployed
from tests.bench.report import Row, report

RUNS = 9
XID = b"[12345.678901] NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"

INGEST = """
import json, sys
from handler import handler
answer = handler(json.load(open(sys.argv[1])), None)
assert answer == {"batchItemFailures": []}, answer
"""

BARE = """
import os, boto3
table = os.environ["FAULTBRIDGE_TABLE"]
boto3.client("dynamodb").get_item(TableName=table, Key={"pk": {"S": "-"}, "sk": {"S": "-"}})
"""

# The calls of ingest for a first record, with as many keys; the items are about as large.
SAME_CALLS = """
import os, sys, boto3
table = os.environ["FAULTBRIDGE_TABLE"]
client = boto3.client("dynamodb")
key = {"pk": {"S": sys.argv[1]}, "sk": {"S": "-"}}
three = [{**key, "sk": {"S": str(number)}} for number in range(3)]
client.batch_get_item(RequestItems={table: {"Keys": three, "ConsistentRead": False}})
client.batch_get_item(RequestItems={table: {"Keys": [key], "ConsistentRead": True}})
item = lambda number: {**three[number], "schema": {"N": "1"}, "text": {"S": "x" * 800}}
puts = [{"Put": {"TableName": table, "Item": item(number), "ConditionExpression": "attribute_not_exists(#0)",
                 "ExpressionAttributeNames": {"#0": "pk"}}} for number in range(3)]
client.transact_write_items(TransactItems=puts)
"""


def batch(node: str, body: bytes = XID) -> dict[str, Any]:
    """Return an SQS batch with one record of one node."""
    now = datetime.now(UTC)
    record_id = f"bench-{node}-{now.timestamp()}"
    message = Message(record_id=record_id, source="kernel-log", cluster=CLUSTER, sent_at=now, node=node, body=body)
    attributes = {"SentTimestamp": str(int(now.timestamp() * 1000)), "SenderId": "bench"}
    return {"Records": [{"messageId": node, "body": encode_message(message), "attributes": attributes}]}


def is_committed(on: Deployed, node: str) -> bool:
    """Return whether the record of a node has opened a condition."""
    found = on.installation.ports.table.get(keys.node_state(NodeKey(CLUSTER, node)))
    return bool(items.read_state(NodeKey(CLUSTER, node), found).conditions)


def measure(on: Deployed) -> list[Row]:
    """Register one node for each run, then run one process of each kind in turn."""
    ours: list[ProcessRun] = []
    bare: list[ProcessRun] = []
    same: list[ProcessRun] = []
    on.run(BARE, [on.runtime])  # AWS ships the runtime compiled; here the first import compiles it
    for number in range(RUNS):
        node = f"node-{number}"
        on.add_node(node, number)
        event = on.folder / f"{node}.json"
        event.write_text(json.dumps(batch(node)), encoding="utf-8")
        ours.append(on.run(INGEST, on.path_of("ingest"), str(event)))
        bare.append(on.run(BARE, [on.runtime]))
        same.append(on.run(SAME_CALLS, [on.runtime], f"BENCH#{number}"))
        if not is_committed(on, node):
            raise SystemExit(f"{node}: the record was not committed")
    return [
        row("ingest, first record committed", ours),
        row("bare boto3, first answer", bare),
        row("bare boto3, the same calls as ingest", same),
    ]


def row(name: str, runs: list[ProcessRun]) -> Row:
    """Return median and bounds of some runs; processor time excludes the stub and waiting time."""
    took, used = [run.elapsed for run in runs], [run.processor for run in runs]
    return {
        "ms from the start of a process": name,
        "median": round(statistics.median(took)),
        "least": round(min(took)),
        "most": round(max(took)),
        "processor, median": round(statistics.median(used)),
        "processor, least": round(min(used)),
    }


def main() -> None:
    """Run all measurements and report them."""
    with deployed() as on:
        report("cold_start", measure(on))


if __name__ == "__main__":
    main()
