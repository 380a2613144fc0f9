"""What the services need from the world, as protocols; `adapters/` fulfils them on AWS, `simulation/fakes` in memory.

Every call may raise `Transient` (try again later) or `Misconfigured` (a person must mend it) and nothing else
that comes from the other side, unless its docstring says so.
"""

from __future__ import annotations

from faultbridge.ports.bundle import Bundle, BundleState, Collector
from faultbridge.ports.keeping import Clock, ObjectStore, Table
from faultbridge.ports.launch import Launcher, Vacancy
from faultbridge.ports.messages import (
    BusEvent,
    EventBus,
    Receipts,
    ReceivedMessage,
    RecordQueue,
    RecordQueueDepth,
    Refusal,
)
from faultbridge.ports.people import PageForm, PageFormed, PageMessage, Pager, PageUrgency
from faultbridge.ports.repair import (
    Answer,
    Candidate,
    Capacity,
    Evidence,
    Member,
    Orchestrator,
    Presence,
    Provider,
    ProviderFailure,
    Verdict,
    Verification,
    Verifier,
)
from faultbridge.ports.restart import Restart, Restarter, RestartState
from faultbridge.ports.workflow import ExecutionStatus, Workflow
from faultbridge.ports.world import Ports

__all__ = [
    "Answer",
    "Bundle",
    "BundleState",
    "BusEvent",
    "Candidate",
    "Capacity",
    "Clock",
    "Collector",
    "EventBus",
    "Evidence",
    "ExecutionStatus",
    "Launcher",
    "Member",
    "ObjectStore",
    "Orchestrator",
    "PageForm",
    "PageFormed",
    "PageMessage",
    "PageUrgency",
    "Pager",
    "Ports",
    "Presence",
    "Provider",
    "ProviderFailure",
    "Receipts",
    "ReceivedMessage",
    "RecordQueue",
    "RecordQueueDepth",
    "Refusal",
    "Restart",
    "RestartState",
    "Restarter",
    "Table",
    "Vacancy",
    "Verdict",
    "Verification",
    "Verifier",
    "Workflow",
]
