"""How long from the start of a process to its first record committed, out of the built artefact.

`make bench` builds first. Each run is a fresh process that sees the artefact of ingest, the layer and the AWS runtime's
own packages, and nothing else; beside it, in turn, a fresh process that imports boto3, makes one client and makes
one call. Both talk to a moto server on loopback: a stub, whose own time is in both figures.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from moto.server import ThreadedMotoServer

from faultbridge.adapters.aws import AwsPorts
from faultbridge.adapters.clients import Clients
from faultbridge.bootstrap import Application
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import NodeKey
from faultbridge.services.append import Stack
from faultbridge.services.registration import NewNode, Registration
from faultbridge.settings import Settings
from faultbridge.storage import items, keys
from faultbridge.storage.message import Message, encode_message
from tests.contracts.aws import CREDENTIALS, REGION, make_table
from tests.packaging.runtime import link_runtime

BUILD = Path(__file__).resolve().parents[2] / ".aws-sam" / "build"
RUNS = 5
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


def batch(node: str) -> dict[str, object]:
    """One SQS batch with one record of one node."""
    now = datetime.now(UTC)
    message = Message(record_id=f"bench-{node}", source="kernel-log", cluster="bench", sent_at=now, node=node, body=XID)
    attributes = {"SentTimestamp": str(int(now.timestamp() * 1000)), "SenderId": "bench"}
    return {"Records": [{"messageId": node, "body": encode_message(message), "attributes": attributes}]}


def milliseconds(program: str, path: list[Path], variables: dict[str, str], *arguments: str) -> float:
    """Run a program in a process of its own, to its end."""
    script = f"import sys; sys.path += {[str(p) for p in path]!r}\n{program}"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return (time.perf_counter() - began) * 1000


def committed(application: Application, node: str) -> bool:
    """Whether the record of a node left an entry besides its registration."""
    found = application.ports.table.get(keys.node_state(NodeKey("bench", node)))
    return bool(items.read_state(NodeKey("bench", node), found).conditions)


def main() -> None:
    """Measure both in turn and print the medians."""
    if not (BUILD / "IngestFunction" / "handler.py").exists():
        raise SystemExit("no artefact (make build)")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with tempfile.TemporaryDirectory() as folder:
            measure(f"http://{host}:{port}", Path(folder))
    finally:
        server.stop()


def measure(endpoint: str, folder: Path) -> None:
    """Register one node a run, then start the processes."""
    os.environ.update(CREDENTIALS)
    clients = Clients(region=REGION, endpoint_url=endpoint)
    deployed = {
        "FAULTBRIDGE_STACK_ID": "bench",
        "FAULTBRIDGE_TABLE": make_table(clients),
        "FAULTBRIDGE_BUCKET": "bench",
        "FAULTBRIDGE_QUEUE_URL": f"{endpoint}/123456789012/bench",
    }
    application = Application(AwsPorts(Settings(deployed), clients), Stack("bench", "bench"))
    registration = Registration(application.ports.table, application.append, application.ports.clock)
    registration.add_cluster(ClusterConfig("bench"))
    variables = {**CREDENTIALS, **deployed, "AWS_ENDPOINT_URL": endpoint, "PATH": os.environ["PATH"]}
    runtime = link_runtime(folder)
    path = [BUILD / "IngestFunction", BUILD / "DependenciesLayer" / "python", runtime]
    figures: dict[str, list[float]] = {"ingest, first record committed": [], "bare boto3, first answer": []}
    milliseconds(BARE, [runtime], variables)  # the runtime comes compiled on AWS; here its first import compiles it
    for number in range(RUNS):
        node = f"node-{number}"
        registration.add_node("bench", NewNode(node, instance_id=f"i-{number:017x}"))
        event = folder / f"{node}.json"
        event.write_text(json.dumps(batch(node)), encoding="utf-8")
        runs: list[Callable[[], float]] = [
            partial(milliseconds, INGEST, path, variables, str(event)),
            partial(milliseconds, BARE, [runtime], variables),
        ]
        for figure, run in zip(figures.values(), runs, strict=True):
            figure.append(run())
        if not committed(application, node):
            raise SystemExit(f"{node}: the record was not committed")
    for name, figure in figures.items():
        print(f"{name:32} median {statistics.median(figure):6.0f} ms   {min(figure):.0f} to {max(figure):.0f}")


if __name__ == "__main__":
    main()
