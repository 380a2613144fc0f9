"""An installation on a moto server on loopback, and the built artefacts as fresh processes that talk to it.

A process sees the artefact of one function, the layer and the AWS runtime's own packages, and nothing else. Moto is a
stub whose own time is in every figure.
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
from faultbridge.composition.installation import Installation, on_aws
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.registry.registration import NewNode
from faultbridge.settings import Settings
from tests.contracts.aws import CREDENTIALS, REGION, fresh, make_table
from tests.packaging.runtime import link_runtime

BUILD = Path(__file__).resolve().parents[2] / ".aws-sam" / "build"
CLUSTER = "bench"
ACCOUNT = "123456789012"
MACHINE = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}


@dataclass(frozen=True)
class Ran:
    """What a process took, by the clock and of the processor in milliseconds, and what it printed."""

    took: float
    processor: float
    printed: str


@dataclass(frozen=True)
class Deployed:
    """What a process needs, and the same installation from within this one."""

    clients: Clients
    variables: Mapping[str, str]
    installation: Installation
    folder: Path
    runtime: Path

    def register_node(self, node: str, number: int) -> None:
        """Register a node."""
        instance = f"i-{number:017x}"
        self.application.registry.registration.add_node(CLUSTER, NewNode(node, instance_id=instance))

    def run(self, program: str, path: list[Path], *arguments: str) -> Ran:
        """Run a program in a process of its own to its end."""
        script = f"import sys; sys.path += {[str(p) for p in path]!r}\n{program}"
        command = [sys.executable, "-I", "-S", "-c", script, *arguments]
        began, used = time.perf_counter(), _processor()
        done = subprocess.run(command, env=dict(self.variables), capture_output=True, text=True, check=False)
        took = (time.perf_counter() - began) * 1000
        if done.returncode:
            raise SystemExit(done.stderr)
        return Ran(took, _processor() - used, done.stdout)

    def path_of(self, function: str) -> list[Path]:
        """Return the paths that a process of a function sees."""
        return [BUILD / f"{function.capitalize()}Function", BUILD / "DependenciesLayer" / "python", self.runtime]


def _processor() -> float:
    """Return what all processes that this one waited for have used, in milliseconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


@contextmanager
def deployed() -> Iterator[Deployed]:
    """Make an installation with one cluster; it is gone afterwards."""
    if not (BUILD / "IngestFunction" / "handler.py").exists():
        raise SystemExit("no artefact (make build)")
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
    application = on_aws(Settings({**named, "FAULTBRIDGE_STACK_ID": "bench", "FAULTBRIDGE_STACK": "bench"}), clients)
    application.registry.registration.add_cluster(ClusterConfig(CLUSTER))
    variables = {**CREDENTIALS, **named, "AWS_ENDPOINT_URL": endpoint, "PATH": os.environ["PATH"]}
    return Deployed(clients, variables, application, folder, link_runtime(folder))


def _resources(clients: Clients, endpoint: str) -> dict[str, str]:
    """Make what the functions reach, and name it as the template does."""
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
    machine = clients.stepfunctions.create_state_machine(
        name=fresh("machine"), definition=json.dumps(MACHINE), roleArn=f"arn:aws:iam::{ACCOUNT}:role/bench"
    )
    others = {
        "STACK": "bench",
        "STACK_ID": "bench",
        "TABLE": make_table(clients),
        "VAULT_BUCKET": vault,
        "BUS": bus,
        "EVENT_SOURCE": "bench",
        "STATE_MACHINE": machine["stateMachineArn"],
        "TOKEN_SECRET": "bench",
        "OUTPUT_PREFIX": "verify",
        "SENDER_PROOF": "off",
    }
    return {f"FAULTBRIDGE_{name}": value for name, value in {**buckets, **queues, **topics, **others}.items()}
