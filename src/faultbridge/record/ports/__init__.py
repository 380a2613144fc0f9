"""Ports: interfaces (protocols) to the systems outside the process.

`adapters/` implements them on AWS, Kubernetes and Slurm, `simulation/fakes` implements them in memory, and
`tests/contracts` tests the adapters and the fakes with the same tests. Every call may raise `Transient` (retry later)
or `Misconfigured` (an operator must fix it). A docstring names any other error.

Read in this order:

- `table`: the clock and the one DynamoDB table. The data that Faultbridge passes to an adapter from another Python
  package
- `objects`: raw records, evidence, the archive and the retention-locked anchors
- `messaging`: the event bus, the queues, delivery receipts. Executions of repair attempts. Notify operators
- `compute`: replace, launch, reset and reboot instances. Verify instances and collect their logs
- `presence`: whether an instance exists, and its status checks
- `orchestrator`: detach and attach EBS volumes. Cordon and drain nodes
- `inventory`: list the instances of a provider's groups and the nodes of an orchestrator
- `object_watch`: list and watch the objects of a Kubernetes cluster
- `callbacks`: notify the owner or the scheduler of a job that may resume
- `installation`: all ports of one installation

A name is imported from its module at first use. Most Lambda functions need only a few of these modules, and the import
of all would delay the start of the function.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.record.ports.callbacks import JobCallback, JobNotice
    from faultbridge.record.ports.compute import (
        Bundle,
        BundleState,
        CallResult,
        Capacity,
        CapacityEvidence,
        Collector,
        HostOutput,
        LaunchedInstance,
        Launcher,
        LaunchRequest,
        Provider,
        Restart,
        Restarter,
        RestartState,
        SuccessorNotNeeded,
        Verdict,
        Verification,
        Verifier,
    )
    from faultbridge.record.ports.installation import ComputeAccess, ComputePorts, Ports
    from faultbridge.record.ports.inventory import OPT_OUT_TAG, GroupMember, Inventory, NodeListing
    from faultbridge.record.ports.messaging import (
        BusEvent,
        EventBus,
        ExecutionStatus,
        FailedEvent,
        FormattedPage,
        PageFormat,
        PageMessage,
        Pager,
        PageUrgency,
        Receipts,
        ReceivedMessage,
        RecordQueue,
        RecordQueueDepth,
        Workflow,
    )
    from faultbridge.record.ports.object_watch import ObjectChange, ObjectKind, ObjectPage, ObjectWatch, VersionExpired
    from faultbridge.record.ports.objects import ObjectStore
    from faultbridge.record.ports.orchestrator import (
        Attachment,
        ClusterNode,
        Orchestrator,
        Volume,
        VolumeAttachments,
        Volumes,
    )
    from faultbridge.record.ports.presence import CheckResult, InstanceChecks, Presence
    from faultbridge.record.ports.table import Clock, Surroundings, Table, UnprocessedKeys

_NAMES = {
    "callbacks": "JobCallback JobNotice",
    "compute": (
        "Bundle BundleState CallResult Capacity CapacityEvidence Collector LaunchRequest LaunchedInstance "
        "Launcher Provider HostOutput Restart RestartState Restarter SuccessorNotNeeded Verdict Verification Verifier"
    ),
    "installation": "ComputeAccess ComputePorts Ports",
    "inventory": "OPT_OUT_TAG GroupMember Inventory NodeListing",
    "messaging": (
        "BusEvent EventBus ExecutionStatus FailedEvent FormattedPage PageFormat PageMessage PageUrgency Pager "
        "Receipts ReceivedMessage RecordQueue RecordQueueDepth Workflow"
    ),
    "object_watch": "ObjectChange ObjectKind ObjectPage ObjectWatch VersionExpired",
    "objects": "ObjectStore",
    "orchestrator": "Attachment ClusterNode Orchestrator Volume VolumeAttachments Volumes",
    "presence": "CheckResult InstanceChecks Presence",
    "table": "Clock Surroundings Table UnprocessedKeys",
}
"""The names that this package exports from each of its modules, separated by spaces."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "OPT_OUT_TAG",
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
    "ComputePorts",
    "EventBus",
    "ExecutionStatus",
    "FailedEvent",
    "FormattedPage",
    "GroupMember",
    "HostOutput",
    "InstanceChecks",
    "Inventory",
    "JobCallback",
    "JobNotice",
    "LaunchRequest",
    "LaunchedInstance",
    "Launcher",
    "NodeListing",
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
    "Receipts",
    "ReceivedMessage",
    "RecordQueue",
    "RecordQueueDepth",
    "Restart",
    "RestartState",
    "Restarter",
    "SuccessorNotNeeded",
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
