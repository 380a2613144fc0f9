"""An installation in memory: the real composition root with fake ports that share one clock and one fault seam."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from random import Random
from typing import Any

from faultbridge.model.cluster.config import JOB_CALLBACKS, SLURM_SIGNAL, ClusterConfig
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.settings import Settings
from faultbridge.model.storage.wire.message import Message, encode_message
from faultbridge.model.values import replace
from faultbridge.record.ports.installation import Ports
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.installation import Installation, Timing
from faultbridge.serve.wiring.services import wire_registration
from tests.builders import KEY, NOON, STACK_ID, config
from tests.sim.fakes import (
    FakeBus,
    FakeCollector,
    FakeFleet,
    FakeJobCallback,
    FakeLauncher,
    FakeObjects,
    FakeOrchestrator,
    FakePager,
    FakeProvider,
    FakeQueue,
    FakeRestarter,
    FakeTable,
    FakeVerifier,
    FakeWorkflow,
    ManualClock,
    Seam,
)
from tests.sim.fakes.objects import FakeArchive, FakeArchivePorts, FakeDelivery, FakeVault

GROUP = "gpu-workers"
XID_79 = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
XID_31 = "NVRM: Xid (PCI:0000:c1:00): 31, pid=1234, name=python, Ch 00000008, MMU Fault"


class FakePorts(Ports):
    """Every port as a fake; one seam observes all calls and injects faults into them."""

    clock: ManualClock
    table: FakeTable
    objects: FakeObjects
    queue: FakeQueue
    bus: FakeBus
    workflow: FakeWorkflow
    pager: FakePager
    collector: FakeCollector
    providers: dict[str, FakeProvider]
    launchers: dict[str, FakeLauncher]
    restarters: dict[str, FakeRestarter]
    orchestrators: dict[str, FakeOrchestrator]
    verifiers: dict[str, FakeVerifier]
    job_callbacks: dict[str, FakeJobCallback]
    checkpoint_callbacks: dict[str, FakeJobCallback]
    volumes: dict[str, Any]
    volume_attachments: dict[str, Any]
    inventories: dict[str, Any]
    archive: FakeArchive
    vault: FakeVault
    sink: FakeDelivery

    def __init__(self, clock: ManualClock | None = None, seam: Seam | None = None) -> None:
        self.clock = clock or ManualClock(NOON)
        self.seam = seam or Seam()
        self.table = FakeTable(self.clock, seam=self.seam)
        self.bus = FakeBus(seam=self.seam)
        self.queue = FakeQueue(self.clock, seam=self.seam)
        self.objects = FakeObjects(seam=self.seam)
        self.workflow = FakeWorkflow(seam=self.seam)
        self.pager = FakePager(seam=self.seam)
        self.job_callbacks = {name: FakeJobCallback(seam=self.seam) for name in sorted({*JOB_CALLBACKS, SLURM_SIGNAL})}
        self.checkpoint_callbacks = self.job_callbacks
        self.fleet = FakeFleet(self.clock)
        self.providers = {"ec2-auto-scaling": FakeProvider(self.fleet, seam=self.seam)}
        self.collector = FakeCollector(self.clock, seam=self.seam)
        self.launchers = {}
        self.restarters = {"ssm": FakeRestarter(self.fleet, seam=self.seam)}
        self.orchestrators = {"none": FakeOrchestrator(applicable=False, seam=self.seam)}
        self.verifiers = {"ssm-dcgm": FakeVerifier(seam=self.seam)}
        self.volumes = {}
        self.volume_attachments = {}
        self.senders: dict[str, Any] = {}
        self.services: dict[str, Any] = {}
        self.inventories = {}
        self.node_listing = None
        kept = FakeArchivePorts(self.table, self.clock)
        self.archive, self.vault, self.sink, self.token_secret = kept.archive, kept.vault, kept.sink, kept.token_secret

    def webhook_senders(self) -> bytes:
        return json.dumps(self.senders).encode()

    def chat_webhooks(self) -> bytes:
        return b"{}"

    def on_call(self) -> bytes:
        return json.dumps(self.services).encode()


SETTINGS = {"FAULTBRIDGE_STACK_ID": STACK_ID, "FAULTBRIDGE_SENDER_PROOF": "off"}
"""The settings of an installation in memory: every sender is accepted, everything else has its default."""


class World:
    """An installation with one registered cluster of healthy nodes; `settings` adds or replaces variables."""

    def __init__(
        self,
        ports: FakePorts | None = None,
        nodes: tuple[str, ...] = (KEY.node,),
        settings: Mapping[str, str] | None = None,
        **registered: Any,
    ) -> None:
        self.ports = ports or FakePorts()
        self.pauses: list[float] = []
        self.config: ClusterConfig = config(**registered)
        self.settings = Settings({**SETTINGS, **(settings or {})})
        self._numbers = iter(range(1, 10**9))
        wire_registration(self.app).add_cluster(replace(self.config, expected=0))
        for node in nodes:
            self.register_node(node)

    def register_node(self, node: str) -> str:
        """Register a serving node with an instance of the fleet; returns the instance's id."""
        instance = self.ports.fleet.launch(GROUP)
        wire_registration(self.app).add_node(self.config.cluster, NewNode(node, instance, group=GROUP))
        return instance

    @cached_property
    def app(self) -> Installation:
        return Installation(self.ports, self.settings, Timing(self.pauses.append, Random(7)))

    @property
    def now(self) -> datetime:
        return self.ports.clock.now()

    def message(self, text: str | bytes = XID_79, *, source: str = "kernel-log", **others: Any) -> Delivery:
        """Return a delivery of one raw record, sent and received now by default."""
        body = text.encode() if isinstance(text, str) else text
        given: dict[str, Any] = {"cluster": KEY.cluster, "node": KEY.node, "sent_at": self.now} | others
        given.setdefault("record_id", f"record-{next(self._numbers)}")
        message = Message(source=source, body=body, **given)
        return Delivery(id=f"message-{next(self._numbers)}", text=encode_message(message), received_at=self.now)

    def pointing(self, pointer: str) -> Delivery:
        """Return a delivery whose body is stored in the object store."""
        record = Message(
            f"record-{next(self._numbers)}", "kernel-log", KEY.cluster, self.now, node=KEY.node, pointer=pointer
        )
        return Delivery(f"message-{next(self._numbers)}", encode_message(record), self.now)

    def outcomes(self, *deliveries: Delivery) -> list[Outcome]:
        """Return the outcomes that ingest gives to deliveries, in the order of their records."""
        return list(wire_ingest(self.app).ingest(deliveries).outcomes.values())

    def node(self, key: NodeKey = KEY) -> NodeState:
        return self.app.append.read(key)
