"""Fakes: deterministic in-memory implementations of all ports but `ObjectWatch` and `NodeListing`.

The contract tests (`tests/contracts`) run the same cases on fakes and on adapters, so that both behave alike.

Reading order: `clock`, `seam` (the hook around every call), `table` with `table_rules`, `stored_values` and
`item_size`, `messaging` (bus, queue, pager, receipts), `objects` (object store and archive), `fleet` (instances and
provider), `launcher`, `volumes`, `inventory`, `instance_commands` (restarts, verifications, log bundles),
`orchestrator`, `workflow`, `state_machine`, `callbacks` (notices about jobs that may resume).
"""

from faultbridge.simulation.fakes.callbacks import FakeJobCallback
from faultbridge.simulation.fakes.clock import START, ManualClock
from faultbridge.simulation.fakes.fleet import FakeFleet, FakeProvider
from faultbridge.simulation.fakes.instance_commands import FakeCollector, FakeRestarter, FakeVerifier
from faultbridge.simulation.fakes.inventory import FakeInventory
from faultbridge.simulation.fakes.launcher import FakeLauncher
from faultbridge.simulation.fakes.messaging import FakeBus, FakePager, FakeQueue, FakeReceipts
from faultbridge.simulation.fakes.objects import FakeObjects
from faultbridge.simulation.fakes.orchestrator import FakeOrchestrator
from faultbridge.simulation.fakes.seam import Call, Seam, raise_once
from faultbridge.simulation.fakes.table import FakeTable, StreamRecord
from faultbridge.simulation.fakes.volumes import FakeVolumeAttachments, FakeVolumes
from faultbridge.simulation.fakes.workflow import FakeWorkflow

__all__ = [
    "START", "Call", "FakeBus", "FakeCollector", "FakeFleet", "FakeInventory", "FakeJobCallback", "FakeLauncher",
    "FakeObjects", "FakeOrchestrator", "FakePager", "FakeProvider", "FakeQueue", "FakeReceipts", "FakeRestarter",
    "FakeTable", "FakeVerifier", "FakeVolumeAttachments", "FakeVolumes", "FakeWorkflow",
    "ManualClock", "Seam", "StreamRecord", "raise_once",
]  # fmt: skip
