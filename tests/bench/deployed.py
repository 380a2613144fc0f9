"""An installation on a local moto server, and the built artifacts run as new processes that use it.

A process sees the artifact of one function, the layer and the packages of the AWS runtime, and nothing else. The time
of moto is part of every figure.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from moto.server import ThreadedMotoServer

from faultbridge.adapters.aws.clients import Clients
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.settings import Settings
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.installation import Installation, on_aws
from faultbridge.serve.wiring.services import wire_registration
from tests.contracts.aws import CREDENTIALS, REGION, fresh, make_table
from tests.packaging.runtime import link_runtime

BUILD = Path(__file__).resolve().parents[2] / ".aws-sam" / "build"
CLUSTER = "bench"
ACCOUNT = "123456789012"
STATE_MACHINE = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}


@dataclass(frozen=True)
class ProcessRun:
    """One process: elapsed time and processor time in milliseconds, and its output."""

    elapsed: float
    processor: float
    printed: str


@dataclass(frozen=True)
class Deployed:
    """The environment of the processes, and the same installation within this process."""

    clients: Clients
    variables: Mapping[str, str]
    installation: Installation
    folder: Path
    runtime: Path

    def add_node(self, node: str, number: int) -> None:
        """Register a node."""
        instance = f"i-{number:017x}"
        wire_registration(self.installation).add_node(CLUSTER, NewNode(node, instance_id=instance))

    def run(self, program: str, path: list[Path], *arguments: str) -> ProcessRun:
        """Run a program in a new process until it ends."""
        script = f"import sys; sys.path += {[str(p) for p in path]!r}\n{program}"
        command = [sys.executable, "-I", "-S", "-c", script, *arguments]
        start, used = time.perf_counter(), _processor()
        done = subprocess.run(command, env=dict(self.variables), capture_output=True, text=True, check=False)
        elapsed = (time.perf_counter() - start) * 1000
        if done.returncode:
            raise SystemExit(done.stderr)
        return ProcessRun(elapsed, _processor() - used, done.stdout)

    def path_of(self, function: str) -> list[Path]:
        """Return the import paths of a function's process."""
        layers = ["DependenciesLayer", *(["ConsoleLayer"] if function == "console" else [])]
        return [BUILD / f"{function.capitalize()}Function", *(BUILD / name / "python" for name in layers), self.runtime]


def _processor() -> float:
    """Return the processor time of all finished child processes, in milliseconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


@contextmanager
def deployed() -> Iterator[Deployed]:
    """Create an installation with one cluster, and remove it at the end of the context."""
    if not (BUILD / "IngestFunction" / "handler.py").exists():
        raise SystemExit("no built artifact: .aws-sam/build; run `make build`")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with tempfile.TemporaryDirectory() as folder:
            yield _deploy(f"http://{host}:{port}", Path(folder))
    finally:
        server.stop()


def _deploy(endpoint: str, folder: Path) -> Deployed:
    os.environ.update(CREDENTIALS)
    clients = Clients(region=REGION, endpoint_url=endpoint)
    named = _resources(clients, endpoint)
    installation = on_aws(Settings({**named, "FAULTBRIDGE_STACK_ID": "bench", "FAULTBRIDGE_STACK": "bench"}), clients)
    wire_registration(installation).add_cluster(ClusterConfig(CLUSTER))
    variables = {**CREDENTIALS, **named, "AWS_ENDPOINT_URL": endpoint, "PATH": os.environ["PATH"]}
    return Deployed(clients, variables, installation, folder, link_runtime(folder))


def _resources(clients: Clients, endpoint: str) -> dict[str, str]:
    """Create the AWS resources of the functions; returns the environment variables that name them."""
    buckets = {name: fresh("bucket") for name in ("BUCKET", "ARCHIVE_BUCKET")}
    for bucket in buckets.values():
        clients.s3.create_bucket(Bucket=bucket)
    vault = fresh("bucket")
    clients.s3.create_bucket(Bucket=vault, ObjectLockEnabledForBucket=True)
    queues = {
        name: clients.sqs.create_queue(QueueName=fresh("queue"))["QueueUrl"]
        for name in ("QUEUE_URL", "DEAD_LETTER_QUEUE_URL", "EVENTS_QUEUE_URL", "EVENTS_DEAD_LETTER_QUEUE_URL")
    }
    topics = {
        name: clients.sns.create_topic(Name=fresh("topic"))["TopicArn"] for name in ("URGENT_TOPIC", "NOTICE_TOPIC")
    }
    bus = fresh("bus")
    clients.events.create_event_bus(Name=bus)
    state_machine = clients.stepfunctions.create_state_machine(
        name=fresh("machine"), definition=json.dumps(STATE_MACHINE), roleArn=f"arn:aws:iam::{ACCOUNT}:role/bench"
    )
    others = {
        "STACK": "bench",
        "STACK_ID": "bench",
        "TABLE": make_table(clients),
        "VAULT_BUCKET": vault,
        "BUS": bus,
        "EVENT_SOURCE": "bench",
        "STATE_MACHINE": state_machine["stateMachineArn"],
        "TOKEN_SECRET": "bench",
        "OUTPUT_PREFIX": "verify",
        "SENDER_PROOF": "off",
    }
    return {f"FAULTBRIDGE_{name}": value for name, value in {**buckets, **queues, **topics, **others}.items()}
