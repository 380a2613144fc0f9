"""Fakes of every port, in memory and deterministic; `tests/contracts` proves that they behave as the adapters do."""

from faultbridge.simulation.fakes.bus import FakeBus
from faultbridge.simulation.fakes.clock import START, ManualClock
from faultbridge.simulation.fakes.collector import FakeCollector
from faultbridge.simulation.fakes.fleet import FakeFleet, FakeProvider
from faultbridge.simulation.fakes.inventory import FakeInventory
from faultbridge.simulation.fakes.launcher import FakeLauncher
from faultbridge.simulation.fakes.objects import FakeObjects
from faultbridge.simulation.fakes.orchestrator import FakeOrchestrator
from faultbridge.simulation.fakes.pager import FakePager
from faultbridge.simulation.fakes.queue import FakeQueue
from faultbridge.simulation.fakes.receipts import FakeReceipts
from faultbridge.simulation.fakes.restarter import FakeRestarter
from faultbridge.simulation.fakes.seams import Call, Seam, breaking
from faultbridge.simulation.fakes.table import FakeTable, StreamRecord
from faultbridge.simulation.fakes.verifier import FakeVerifier
from faultbridge.simulation.fakes.workflow import FakeWorkflow

__all__ = [
    "START",
    "Call",
    "FakeBus",
    "FakeCollector",
    "FakeFleet",
    "FakeInventory",
    "FakeLauncher",
    "FakeObjects",
    "FakeOrchestrator",
    "FakePager",
    "FakeProvider",
    "FakeQueue",
    "FakeReceipts",
    "FakeRestarter",
    "FakeTable",
    "FakeVerifier",
    "FakeWorkflow",
    "ManualClock",
    "Seam",
    "StreamRecord",
    "breaking",
]
