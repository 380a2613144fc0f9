"""The fake ports of a simulated system.

The fakes share one simulated clock. Except those of the archive, they also share one `Seam`, the object that injects
faults into their calls.
"""

from __future__ import annotations

import json
from datetime import timedelta

from faultbridge.model.cluster.config import ANNOTATION, JOB_CALLBACKS, SLURM_SIGNAL
from faultbridge.record.ports.installation import Ports
from faultbridge.record.ports.inventory import Inventory
from tests.sim import fakes
from tests.sim.fakes.objects import FakeArchive, FakeArchivePorts, FakeVault
from tests.sim.fault_injection import FaultProfile
from tests.sim.schedule import Schedule
from tests.sim.scheduled_state_machine import ScheduledStateMachine
from tests.sim.situations.truth import EvictingOrchestrator

PROVIDER, VERIFIER, RESTARTER = "ec2-auto-scaling", "ssm-dcgm", "ssm"
LAUNCH_TEMPLATE = "ec2-launch-template"
PROVIDER_REPAIR = "hyperpod"
NO_SCHEDULER, SCHEDULER, HEAD_NODE = "none", "slurm", "i-0ead0000000000000"
SIGNER, BEARER, SECRET = "alerts", "token", "a secret of the senders"
"""Senders of webhooks: one signs its posts, the other sends a token."""


class SimulatedPorts(Ports):
    """The ports of an installation as fakes; `fleet` has the true state of the instances."""

    clock: fakes.ManualClock
    table: fakes.FakeTable
    objects: fakes.FakeObjects
    queue: fakes.FakeQueue
    bus: fakes.FakeBus
    workflow: ScheduledStateMachine
    pager: fakes.FakePager
    collector: fakes.FakeCollector
    inventories: dict[str, Inventory]
    archive: FakeArchive
    vault: FakeVault

    def __init__(self, clock: fakes.ManualClock, seam: fakes.Seam, schedule: Schedule, profile: FaultProfile) -> None:
        self.clock = clock
        self.table = fakes.FakeTable(clock, seam=seam, index_lag=timedelta(seconds=profile.index_lag))
        self.bus = fakes.FakeBus(seam=seam)
        self.queue = fakes.FakeQueue(clock, seam=seam, visibility=timedelta(seconds=profile.visibility))
        self.objects = fakes.FakeObjects(seam=seam)
        self.receipts = fakes.FakeReceipts(clock, seam=seam)
        self.workflow = ScheduledStateMachine(schedule, seam=seam)
        self.pager = fakes.FakePager(seam=seam)
        self.fleet = fakes.FakeFleet(clock, launch_delay=timedelta(minutes=4))
        self.provider = fakes.FakeProvider(self.fleet, seam=seam)
        self.collector = fakes.FakeCollector(clock, seam=seam, duration=timedelta(minutes=2))
        self.restarter = fakes.FakeRestarter(self.fleet, seam=seam, duration=timedelta(minutes=6))
        self.orchestrator = EvictingOrchestrator(clock, seam=seam, fleet=self.fleet)
        self.verifier = fakes.FakeVerifier(clock, seam=seam, duration=timedelta(minutes=12), alive=self.fleet.is_alive)
        self.launcher = fakes.FakeLauncher(self.fleet, seam=seam)
        self.volume_mover = fakes.FakeVolumes(self.fleet, seam=seam)
        self.volumes = dict.fromkeys((PROVIDER, LAUNCH_TEMPLATE), self.volume_mover)
        self.volume_attachments: dict[str, fakes.FakeVolumeAttachments] = {}
        self.providers = {PROVIDER: self.provider, LAUNCH_TEMPLATE: self.provider}
        self.launchers = {LAUNCH_TEMPLATE: self.launcher}
        self.restarters = dict.fromkeys((RESTARTER, PROVIDER_REPAIR), self.restarter)
        self.orchestrators = {
            NO_SCHEDULER: fakes.FakeOrchestrator(clock, applicable=False, seam=seam),
            SCHEDULER: self.orchestrator,
        }
        self.job_callbacks = {name: fakes.FakeJobCallback(seam=seam) for name in sorted({*JOB_CALLBACKS, SLURM_SIGNAL})}
        self.checkpoint_callbacks = {name: self.job_callbacks[name] for name in (ANNOTATION, SLURM_SIGNAL)}
        self.verifiers = dict.fromkeys((VERIFIER, PROVIDER_REPAIR), self.verifier)
        self.inventories = {PROVIDER_REPAIR: fakes.FakeInventory(self.fleet, seam=seam)}
        self.repaired_inventory = fakes.FakeInventory(self.fleet, seam=seam, network_node="switch-1")
        self.node_listing = None
        kept = FakeArchivePorts(self.table, clock)
        self.archive, self.vault, self.sink, self.token_secret = kept.archive, kept.vault, kept.sink, kept.token_secret

    def webhook_senders(self) -> bytes:
        """Return the document of the senders, which may post alerts about the first cluster."""
        alerts = {"cluster": "train-a", "sources": ["alertmanager"], "secrets": [SECRET]}
        return json.dumps({SIGNER: alerts, BEARER: {**alerts, "proof": "bearer"}}).encode()

    def chat_webhooks(self) -> bytes:
        """Return an empty document: no chat receives pages."""
        return b"{}"

    def on_call(self) -> bytes:
        """Return an empty document: no person gives orders in a chat."""
        return b"{}"
