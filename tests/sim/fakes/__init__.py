"""Fakes: deterministic in-memory implementations of all ports but `ObjectWatch` and `NodeListing`.

The contract tests (`tests/contracts`) run the same cases on fakes and on adapters, so that both behave alike.

Reading order: `clock`, `seam` (the hook around every call), `table` with `table_rules`, `stored_values` and
`item_size`, `messaging` (bus, queue, pager, receipts), `objects` (object store and archive), `fleet` (instances and
provider), `launcher`, `volumes`, `inventory`, `instance_commands` (restarts, verifications, log bundles),
`orchestrator`, `workflow`, `state_machine`, `callbacks` (notices about jobs that may resume).
"""

from tests.sim.fakes.callbacks import FakeJobCallback
from tests.sim.fakes.clock import START, ManualClock
from tests.sim.fakes.fleet import FakeFleet, FakeProvider
from tests.sim.fakes.instance_commands import FakeCollector, FakeRestarter, FakeVerifier
from tests.sim.fakes.inventory import FakeInventory
from tests.sim.fakes.launcher import FakeLauncher
from tests.sim.fakes.messaging import FakeBus, FakePager, FakeQueue, FakeReceipts
from tests.sim.fakes.objects import FakeObjects
from tests.sim.fakes.orchestrator import FakeOrchestrator
from tests.sim.fakes.seam import Call, Seam, raise_once
from tests.sim.fakes.table import FakeTable, StreamRecord
from tests.sim.fakes.volumes import FakeVolumeAttachments, FakeVolumes
from tests.sim.fakes.workflow import FakeWorkflow

__all__ = [
    "START", "Call", "FakeBus", "FakeCollector", "FakeFleet", "FakeInventory", "FakeJobCallback", "FakeLauncher",
    "FakeObjects", "FakeOrchestrator", "FakePager", "FakeProvider", "FakeQueue", "FakeReceipts", "FakeRestarter",
    "FakeTable", "FakeVerifier", "FakeVolumeAttachments", "FakeVolumes", "FakeWorkflow",
    "ManualClock", "Seam", "StreamRecord", "raise_once",
]  # fmt: skip
