"""Killed workers of ingest and publish, and work that only the sweep can finish."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration, wire_rejects
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.proxy import CallFault
from tests.e2e.harness.records import GPU_LOST
from tests.e2e.scenarios.batch import clock_ahead
from tests.waiting import eventually

CRASHED_NODES, GPUS = 30, 8


@dataclass(frozen=True)
class CrashedWorkers:
    """A cluster whose records were processed while workers were killed, with the injected faults."""

    cluster: str
    since: datetime
    messages: list[tuple[str, str]]
    faults: tuple[CallFault, ...]
    killed: tuple[int, ...]

    @property
    def records(self) -> list[str]:
        """The record ids."""
        return [json.loads(text)["record_id"] for _, text in self.messages]


@pytest.fixture(scope="session")
def crashed_workers(installation: Installation) -> CrashedWorkers:
    """Send 240 faults of different GPUs; kill ingest and publish before and after calls in a batch."""
    cluster = installation.register_cluster(CRASHED_NODES, act=False)
    killed: list[int] = []

    def kill(function: str) -> Callable[[], None]:
        return lambda: killed.append(installation.kill(function))

    faults = (
        CallFault("ingest", "dynamodb:TransactWriteItems", action=kill("ingest"), skip=3),
        CallFault("ingest", "dynamodb:TransactWriteItems", action=kill("ingest"), skip=1, forward=False),
        CallFault("publish", "events:PutEvents", action=kill("publish"), skip=3),
        CallFault("publish", "events:PutEvents", action=kill("publish"), skip=3, forward=False),
    )
    since = datetime.now(UTC)
    with installation.required_proxy.inject(*faults), short_visibility(installation, 5):
        lines = [GPU_LOST.replace("c1", f"{16 * gpu + 1:02x}").encode() for gpu in range(GPUS)]
        messages = installation.send(
            RawInput("kernel-log", cluster, line, node=f"node-{node:03}")
            for line in lines
            for node in range(CRASHED_NODES)
        )
        eventually(lambda: all(fault.occurred for fault in faults), 60, lambda: faults)
        installation.wait_until_idle(cluster)
    crashed = CrashedWorkers(cluster, since, messages, faults, tuple(killed))
    installation.wait_for_outcomes(crashed.records, since)
    return crashed


@contextmanager
def short_visibility(installation: Installation, seconds: int) -> Iterator[None]:
    """Shorten the visibility timeout of raw records within the block, to speed up redelivery."""
    queues, url = installation.stack.client("sqs"), installation.stack.outputs["RawRecordsQueueUrl"]
    name = "VisibilityTimeout"
    before = queues.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
    queues.set_queue_attributes(QueueUrl=url, Attributes={name: str(seconds)})
    try:
        yield
    finally:
        queues.set_queue_attributes(QueueUrl=url, Attributes={name: before})


@dataclass(frozen=True)
class DeferredWork:
    """A cluster with an event that publish failed to put, and a record whose node was registered later."""

    cluster: str
    late_node: str = "node-late"


@pytest.fixture(scope="session")
def deferred_work(installation: Installation) -> DeferredWork:
    """Create work that only the sweep can finish, and run it twelve hours later."""
    scene = DeferredWork(installation.register_cluster(1, act=False))
    installation.send([RawInput("kernel-log", scene.cluster, GPU_LOST.encode(), node=scene.late_node)])
    eventually(lambda: list(wire_rejects(installation.application).list(scene.cluster)), 60)
    wire_registration(installation.application).add_node(scene.cluster, NewNode(scene.late_node))
    installation.wait_until_idle(scene.cluster)
    outage = CallFault("publish", "events:PutEvents", error_code="InternalFailure", times=10_000)
    with installation.required_proxy.inject(outage):
        installation.send([RawInput("kernel-log", scene.cluster, GPU_LOST.encode(), node="node-000")])
        eventually(lambda: outage.occurred, 60)
        recorded = set(installation.entries(scene.cluster))
        with clock_ahead(installation, 0.5, "sweep"):
            installation.request_sweep()
            eventually(lambda: recorded <= set(installation.events.deliveries(scene.cluster)), 60)
            eventually(lambda: not list(wire_rejects(installation.application).list(scene.cluster)), 60)
    installation.wait_until_idle(scene.cluster)
    return scene
