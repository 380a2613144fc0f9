"""Fakes of every port, in memory and deterministic; `tests/contracts` proves that they behave as the adapters do."""

from tests.fakes.bus import FakeBus
from tests.fakes.clock import START, ManualClock
from tests.fakes.fleet import FakeFleet, FakeProvider
from tests.fakes.objects import FakeObjects
from tests.fakes.orchestrator import FakeOrchestrator
from tests.fakes.pager import FakePager
from tests.fakes.queue import FakeQueue
from tests.fakes.receipts import FakeReceipts
from tests.fakes.seams import Call, Seam, breaking
from tests.fakes.table import FakeTable, StreamRecord
from tests.fakes.verifier import FakeVerifier
from tests.fakes.workflow import FakeWorkflow

__all__ = [
    "START",
    "Call",
    "FakeBus",
    "FakeFleet",
    "FakeObjects",
    "FakeOrchestrator",
    "FakePager",
    "FakeProvider",
    "FakeQueue",
    "FakeReceipts",
    "FakeTable",
    "FakeVerifier",
    "FakeWorkflow",
    "ManualClock",
    "Seam",
    "StreamRecord",
    "breaking",
]
