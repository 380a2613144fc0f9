"""Every port as a fake, on one clock and one seam."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.simulation.fakes import (
    FakeBus,
    FakeCollector,
    FakeFleet,
    FakeInventory,
    FakeLauncher,
    FakeObjects,
    FakeOrchestrator,
    FakePager,
    FakeProvider,
    FakeQueue,
    FakeReceipts,
    FakeRestarter,
    FakeTable,
    FakeVerifier,
    ManualClock,
)
from faultbridge.simulation.fakes.seams import Seam
from faultbridge.simulation.machine import ScheduledStateMachine
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.weather import Weather

PROVIDER, VERIFIER, RESTARTER = "ec2-auto-scaling", "ssm-dcgm", "ssm"
TEMPLATES = "ec2-launch-template"
OWN_REPAIR = "hyperpod"
NO_SCHEDULER, SCHEDULER = "none", "slurm"


class SimulatedPorts:
    """All of the world at once; the fleet lies behind the provider and tells the truth."""

    def __init__(self, clock: ManualClock, seam: Seam, schedule: Schedule, weather: Weather) -> None:
        self.clock = clock
        self.table = FakeTable(clock, seam=seam, index_lag=timedelta(seconds=weather.index_lag))
        self.bus = FakeBus(seam=seam)
        self.queue = FakeQueue(clock, seam=seam, visibility=timedelta(seconds=weather.visibility))
        self.objects = FakeObjects(seam=seam)
        self.receipts = FakeReceipts(clock, seam=seam)
        self.workflow = ScheduledStateMachine(schedule, seam=seam)
        self.pager = FakePager(seam=seam)
        self.fleet = FakeFleet(clock, launch_delay=timedelta(minutes=4))
        self.provider = FakeProvider(self.fleet, seam=seam)
        self.collector = FakeCollector(clock, seam=seam, duration=timedelta(minutes=2))
        self.restarter = FakeRestarter(self.fleet, seam=seam, duration=timedelta(minutes=6))
        self.orchestrator = FakeOrchestrator(clock, seam=seam)
        self.verifier = FakeVerifier(clock, seam=seam, duration=timedelta(minutes=12), alive=self.fleet.is_alive)
        self.launcher = FakeLauncher(self.fleet, seam=seam)
        self.providers = {PROVIDER: self.provider, TEMPLATES: self.provider}
        self.launchers = {TEMPLATES: self.launcher}
        self.restarters = {RESTARTER: self.restarter}
        self.orchestrators = {
            NO_SCHEDULER: FakeOrchestrator(clock, applicable=False, seam=seam),
            SCHEDULER: self.orchestrator,
        }
        self.verifiers = {VERIFIER: self.verifier}
        self.inventories = {OWN_REPAIR: FakeInventory(self.fleet, seam=seam)}
