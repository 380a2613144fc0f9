"""Open enumerations of node and case events. Each docstring states how to treat an unknown value."""

from __future__ import annotations

from faultbridge.events.base import OpenEnum


class Severity(OpenEnum):
    """The severity of a fault. Treat an unknown value as `error`.

    `error`: the node must be drained and repaired. `fatal`: the node is already unusable.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Action(OpenEnum):
    """The recommended action for a fault. Treat an unknown value as `contact_support`.

    The values are listed from the mildest to the strongest action.
    """

    NONE = "none"
    RESTART_APP = "restart_app"
    RUN_DIAGNOSTICS = "run_diagnostics"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    CONTACT_SUPPORT = "contact_support"
    UNKNOWN = "unknown"


class ComponentType(OpenEnum):
    """The type of a component. Treat an unknown value as a component without a runbook."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NIC = "nic"
    NODE = "node"
    DISK = "disk"
    MEMORY = "memory"
    CPU = "cpu"
    JOB = "job"
    UNKNOWN = "unknown"


class NodeStatus(OpenEnum):
    """The status of a node. Only `healthy` and `degraded` nodes are in service.

    Treat an unknown value as a status that is not in service.
    """

    PROVISIONING = "provisioning"
    VALIDATING = "validating"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    REPAIRING = "repairing"
    REPLACING = "replacing"
    FAILED = "failed"
    RETIRED = "retired"
    UNKNOWN = "unknown"


class Isolation(OpenEnum):
    """The state of the isolation that keeps new jobs off a node. Treat an unknown value as `requested`."""

    NONE = "none"
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class ClusterStatus(OpenEnum):
    """The status of a cluster. Treat an unknown value as `degraded`."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class CaseStatus(OpenEnum):
    """The status of a case. `resolved` and `expired` are final. Treat an unknown value as not final."""

    OPEN = "open"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    ESCALATED = "escalated"
    ABSORBED = "absorbed"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class WaitingFor(OpenEnum):
    """The reason why a case waits. Treat an unknown value as `wait`.

    A queued case that has no other reason to wait has `admission`.
    """

    WAIT = "wait"
    ADMISSION = "admission"
    APPROVAL = "approval"
    WINDOW = "window"
    BUDGET = "budget"
    BREAKER = "breaker"
    CAPACITY = "capacity"
    INCIDENT = "incident"
    PAUSE = "pause"
    UPDATE = "update"
    CORRELATION = "correlation"
    ISOLATION_BUDGET = "isolation_budget"
    IDLE = "idle"
    UNKNOWN = "unknown"


class Resolution(OpenEnum):
    """The result of a closed case. Treat an unknown value as `by_operator`, and check the case."""

    REPAIRED = "repaired"
    REPLACED = "replaced"
    RECOVERED = "recovered"
    BY_OPERATOR = "by_operator"
    EXTERNAL = "external"
    CANCELLED = "cancelled"
    DRY_RUN = "dry_run"
    RETIRED = "retired"
    UNKNOWN = "unknown"


class RepairAction(OpenEnum):
    """A repair action. Treat an unknown value as `replace_node`.

    The values are listed from the mildest to the strongest action.
    """

    VERIFY = "verify"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    UNKNOWN = "unknown"


class Actor(OpenEnum):
    """The part of Faultbridge that recorded an entry; `cli` means an order of an operator.

    Treat an unknown value as a part of Faultbridge that a later version added.
    """

    INGEST = "ingest"
    SWEEP = "sweep"
    ISOLATE = "react:isolate"
    DISPATCH = "react:dispatch"
    ROLLUP = "react:rollup"
    CORRELATE = "react:correlate"
    STEP = "step"
    CLOSE = "step:close"
    INVENTORY = "inventory"
    ARCHIVE = "archive"
    CLI = "cli"
    UNKNOWN = "unknown"


class FailureReason(OpenEnum):
    """The reason why a step failed. Treat an unknown value as `PROVIDER_ERROR`."""

    CAPACITY = "CAPACITY"
    THROTTLED = "THROTTLED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    TIMEOUT = "TIMEOUT"
    AMBIGUOUS = "AMBIGUOUS"
    VERIFY_FAILED = "VERIFY_FAILED"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    UNKNOWN = "unknown"


class NoteKind(OpenEnum):
    """The kind of a note. Treat an unknown value as `information`.

    `late_fault`: a fault that arrived too late to change anything. `refused`: an attempt that admission refused, or an
    order that was refused. `shadow`: a finding of a detector that is on trial. `operator`: a comment or order of an
    operator. `would_have_done`: the result of a dry run, or of a shadow policy. `anchor`: a record of the hash of the
    last entry of every stream. `canary`: proof that records pass from the queue to the bus. `devices`: devices that
    were seen for the first time in an instance. `waiting`: a node waits too long for capacity or a successor.
    """

    INFORMATION = "information"
    LATE_FAULT = "late_fault"
    REFUSED = "refused"
    SHADOW = "shadow"
    OPERATOR = "operator"
    WOULD_HAVE_DONE = "would_have_done"
    ISOLATION = "isolation"
    APPROVAL = "approval"
    INVENTORY = "inventory"
    ANCHOR = "anchor"
    CANARY = "canary"
    DEVICES = "devices"
    WAITING = "waiting"
    UNKNOWN = "unknown"
