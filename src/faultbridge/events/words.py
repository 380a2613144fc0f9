"""The open lists of the contract. A word that a reader does not know is `unknown`; each list says what that means."""

from __future__ import annotations

from faultbridge.events.base import Word


class Severity(Word):
    """What a fault does to the node: noted, to be watched, to be repaired when drained, unusable now.

    Take an unknown one for `error`.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Action(Word):
    """What helps against a fault, weakest first. Take an unknown one for `contact_support`."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RUN_DIAGNOSTICS = "run_diagnostics"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    CONTACT_SUPPORT = "contact_support"
    UNKNOWN = "unknown"


class ComponentType(Word):
    """What part of a node is meant. Take an unknown one for a part that you have no runbook for."""

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


class NodeStatus(Word):
    """What a node is doing; `healthy` and `degraded` are in service. Take an unknown one for not in service."""

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


class Isolation(Word):
    """Whether new work is kept off a node. Take an unknown one for `requested`."""

    NONE = "none"
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class ClusterStatus(Word):
    """How a cluster is doing. Take an unknown one for `degraded`."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class CaseStatus(Word):
    """How far a case has come; `resolved` and `expired` are final. Take an unknown one for still live."""

    OPEN = "open"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    ESCALATED = "escalated"
    ABSORBED = "absorbed"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class WaitingFor(Word):
    """What a case that is not in progress waits for. Take an unknown one for `wait`."""

    WAIT = "wait"
    APPROVAL = "approval"
    WINDOW = "window"
    BUDGET = "budget"
    BREAKER = "breaker"
    CAPACITY = "capacity"
    INCIDENT = "incident"
    PAUSE = "pause"
    UNKNOWN = "unknown"


class Resolution(Word):
    """How a case ended. Take an unknown one for `by_operator`: ended, ask why."""

    REPAIRED = "repaired"
    REPLACED = "replaced"
    RECOVERED = "recovered"
    BY_OPERATOR = "by_operator"
    EXTERNAL = "external"
    CANCELLED = "cancelled"
    DRY_RUN = "dry_run"
    RETIRED = "retired"
    UNKNOWN = "unknown"


class RepairAction(Word):
    """A step of the repair list of repair actions, mildest first. Take an unknown one for `replace`, the one that takes most."""

    VERIFY = "verify"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    UNKNOWN = "unknown"


class Actor(Word):
    """Which part of Faultbridge wrote the entry; `cli` is a person. Take an unknown one for some part of it."""

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


class FailureReason(Word):
    """Why a step could not do its work. Take an unknown one for `PROVIDER_ERROR`."""

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


class NoteKind(Word):
    """Why a note is on the record. Take an unknown one for `information`.

    `late_fault` came too late to change anything, `refused` is an admission or order that was not followed, `shadow`
    a finding that is only tried out, `operator` a person's word or order, `would_have_done` what a dry run spared,
    `anchor` fixes the heads of all streams, `canary` proves that the way from queue to bus is open.
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
    UNKNOWN = "unknown"
