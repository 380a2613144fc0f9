"""Ports: interfaces (protocols) to the systems outside the process.

`adapters/` implements them on AWS, Kubernetes and Slurm, `simulation/fakes` implements them in memory, and
`tests/contracts` tests the adapters and the fakes with the same tests. Every call may raise `Transient` (retry later)
or `Misconfigured` (an operator must fix it). A docstring names any other error.

Read in this order:

- `table`: the clock and the one DynamoDB table
- `objects`: raw records, evidence, the archive and the retention-locked anchors
- `messaging`: the event bus, the queues, delivery receipts
- `workflow`: executions of repair attempts
- `compute`: replace, launch, reset and reboot instances
- `presence`: whether an instance exists, and its status checks
- `volumes`: detach and attach EBS volumes
- `orchestrator`: cordon and drain nodes
- `object_watch`: list and watch the objects of a Kubernetes cluster
- `diagnostics`: verify instances and collect their logs
- `paging`: notify operators
- `callbacks`: notify the owner or the scheduler of a job that may resume
- `extension`: the data that Faultbridge passes to an adapter from another Python package
- `installation`: all ports of one installation

A name is imported from its module at first use. Most Lambda functions need only a few of these modules, and the import
of all would delay the start of the function.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.ports.callbacks import JobCallback, JobNotice
    from faultbridge.ports.compute import (
        CallResult,
        Capacity,
        CapacityEvidence,
        LaunchedInstance,
        Launcher,
        LaunchRequest,
        Provider,
        ProviderFailure,
        Restart,
        Restarter,
        RestartState,
    )
    from faultbridge.ports.diagnostics import Bundle, BundleState, Collector, Verdict, Verification, Verifier
    from faultbridge.ports.extension import Surroundings
    from faultbridge.ports.installation import ComputeAccess, Ports
    from faultbridge.ports.messaging import (
        BusEvent,
        EventBus,
        FailedEvent,
        Receipts,
        ReceivedMessage,
        RecordQueue,
        RecordQueueDepth,
    )
    from faultbridge.ports.object_watch import ObjectChange, ObjectKind, ObjectPage, ObjectWatch, VersionExpired
    from faultbridge.ports.objects import ObjectStore
    from faultbridge.ports.orchestrator import ClusterNode, Orchestrator
    from faultbridge.ports.paging import FormattedPage, PageFormat, PageMessage, Pager, PageUrgency
    from faultbridge.ports.presence import CheckResult, InstanceChecks, Presence
    from faultbridge.ports.table import Clock, Table, UnprocessedKeys
    from faultbridge.ports.volumes import Attachment, Volume, VolumeAttachments, Volumes
    from faultbridge.ports.workflow import ExecutionStatus, Workflow

_NAMES = {
    "callbacks": "JobCallback JobNotice",
    "compute": (
        "CallResult Capacity CapacityEvidence LaunchedInstance Launcher LaunchRequest Provider ProviderFailure "
        "Restart Restarter RestartState"
    ),
    "diagnostics": "Bundle BundleState Collector Verdict Verification Verifier",
    "extension": "Surroundings",
    "installation": "ComputeAccess Ports",
    "messaging": "BusEvent EventBus FailedEvent Receipts ReceivedMessage RecordQueue RecordQueueDepth",
    "object_watch": "ObjectChange ObjectKind ObjectPage ObjectWatch VersionExpired",
    "objects": "ObjectStore",
    "orchestrator": "ClusterNode Orchestrator",
    "paging": "FormattedPage PageFormat PageMessage Pager PageUrgency",
    "presence": "CheckResult InstanceChecks Presence",
    "table": "Clock Table UnprocessedKeys",
    "volumes": "Attachment Volume VolumeAttachments Volumes",
    "workflow": "ExecutionStatus Workflow",
}
"""The names that this package exports from each of its modules, separated by spaces."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Attachment",
    "Bundle",
    "BundleState",
    "BusEvent",
    "CallResult",
    "Capacity",
    "CapacityEvidence",
    "CheckResult",
    "Clock",
    "ClusterNode",
    "Collector",
    "ComputeAccess",
    "EventBus",
    "ExecutionStatus",
    "FailedEvent",
    "FormattedPage",
    "InstanceChecks",
    "JobCallback",
    "JobNotice",
    "LaunchRequest",
    "LaunchedInstance",
    "Launcher",
    "ObjectChange",
    "ObjectKind",
    "ObjectPage",
    "ObjectStore",
    "ObjectWatch",
    "Orchestrator",
    "PageFormat",
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
    "Restart",
    "RestartState",
    "Restarter",
    "Surroundings",
    "Table",
    "UnprocessedKeys",
    "Verdict",
    "Verification",
    "Verifier",
    "VersionExpired",
    "Volume",
    "VolumeAttachments",
    "Volumes",
    "Workflow",
]


def __getattr__(name: str) -> object:
    """Return a name of this package, imported from its module at first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
