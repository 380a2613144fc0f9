"""The enumerations of nodes, cases and clusters; a reader of events gets `unknown` for a value of a later version.

Events publish these values and the docstrings, so a change here changes the contract of events. The types and limits of
events are here too.
"""

from __future__ import annotations

from enum import StrEnum

SCHEMA_VERSION = "1.0"
"""The version of the schemas of the events that this release records."""

MAX_JOBS_OF_NODE = 16
"""Maximum number of job ids in an event. If more jobs run on a node, those recorded first are listed."""

MAX_LISTED = 50
"""Maximum number of names in a list of an event; the count beside it counts all."""

MAX_JOB_EVIDENCE = 20
"""Maximum pieces of evidence in an event about the cause of a failed job."""

CASE_ID = "c-[a-z2-7]{26}"
"""The pattern of the id of a case."""

UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""The pattern of the id of an event."""

ALL_DATA = "*"
"""The text in `metadata.truncated` that means all data of the event."""


class EntryType(StrEnum):
    """The type of a timeline entry, which is also the EventBridge detail-type of its event."""

    FAULT_DETECTED = "Node Fault Detected"
    FAULT_UPDATED = "Node Fault Updated"
    FAULT_CLEARED = "Node Fault Cleared"
    NODE_STATUS = "Node Status Change"
    CLUSTER_STATUS = "Cluster Status Change"
    CASE_STATUS = "Case Status Change"
    REPLACEMENT_STEP = "Node Replacement Step"
    CLUSTER_INCIDENT = "Cluster Incident Change"
    CLUSTER_SAFETY = "Cluster Safety Change"
    JOB = "Job Change"
    JOB_CHECKPOINT = "Job Checkpoint Requested"
    JOB_EXPLAINED = "Job Explained"
    NOTE = "Node Note Recorded"


class NodeStatus(StrEnum):
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

    @property
    def in_service(self) -> bool:
        """Return whether jobs may run on a node with this status."""
        return self is NodeStatus.HEALTHY or self is NodeStatus.DEGRADED


class Isolation(StrEnum):
    """The state of the isolation that keeps new jobs off a node. Treat an unknown value as `requested`."""

    # The orchestrator isolates a node, whatever its repair does. `not_applicable`: the node is out of service. Its
    # provider keeps jobs off it, or its cluster has no orchestrator.
    NONE = "none"
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    NOT_APPLICABLE = "not_applicable"


class CaseStatus(StrEnum):
    """The status of a case. `resolved` and `expired` are final. Treat an unknown value as not final."""

    OPEN = "open"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    ESCALATED = "escalated"
    ABSORBED = "absorbed"
    RESOLVED = "resolved"
    EXPIRED = "expired"

    live: bool
    """Whether a case with this status is not closed. An attribute, because it is read more often than any other."""

    def __init__(self, value: str) -> None:
        """Set `live` from the text of the status: False for `resolved` and `expired`, True for all others."""
        self.live = value not in {"resolved", "expired"}


class WaitingFor(StrEnum):
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


class Resolution(StrEnum):
    """The result of a closed case. Treat an unknown value as `by_operator`, and check the case."""

    REPAIRED = "repaired"
    REPLACED = "replaced"
    RELEASED_NO_DEMAND = "released_no_demand"
    RECOVERED = "recovered"
    BY_OPERATOR = "by_operator"
    EXTERNAL = "external"
    CANCELLED = "cancelled"
    DRY_RUN = "dry_run"
    RETIRED = "retired"


class RepairAction(StrEnum):
    """The repair actions that a case can take, least disruptive first."""

    VERIFY = "verify"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"

    @property
    def needs_slot(self) -> bool:
        """Return whether this action takes one of the cluster's limited repair slots: all except `verify`."""
        return self is not RepairAction.VERIFY


class Actor(StrEnum):
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


class ProviderFailure(StrEnum):
    """The reason why a step failed. Treat an unknown value as `PROVIDER_ERROR`."""

    # Every call to a provider, an orchestrator or another system fails with one of these codes.
    CAPACITY = "CAPACITY"
    THROTTLED = "THROTTLED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    TIMEOUT = "TIMEOUT"
    AMBIGUOUS = "AMBIGUOUS"
    VERIFY_FAILED = "VERIFY_FAILED"
    PROVIDER_ERROR = "PROVIDER_ERROR"

    @property
    def retriable(self) -> bool:
        """Return whether the same call may succeed later without a fix by an operator."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        ProviderFailure.CAPACITY,
        ProviderFailure.THROTTLED,
        ProviderFailure.CONFLICT,
        ProviderFailure.TIMEOUT,
        ProviderFailure.AMBIGUOUS,
    }
)


class ClusterStatus(StrEnum):
    """The status of a cluster. Treat an unknown value as `degraded`."""

    # Computed from the nodes of the cluster, and from the conditions that its provider reports.
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"


class BreakerScope(StrEnum):
    """The nodes that a circuit breaker counts: those of the cluster, or those of one failure domain."""

    CLUSTER = "cluster"
    DOMAIN = "domain"


class DomainKind(StrEnum):
    """The type of a failure domain. Treat an unknown value as `cluster`.

    `network_node` is the switch nearest to the instance, `network_node_2` is the switch above it, and so on. `intake`
    is Faultbridge's own path from the queue to the table.
    """

    # The narrowest first. Several instances share the resource that a failure domain stands for, and lose it together.
    # Operators declare the kinds that no inventory reports: `chassis`, `rack`, `power`, `file_system`, `subnet`,
    # `image`.
    CHASSIS = "chassis"
    ULTRASERVER = "ultraserver"
    RACK = "rack"
    NETWORK_NODE = "network_node"
    POWER = "power"
    NETWORK_NODE_2 = "network_node_2"
    NETWORK_NODE_3 = "network_node_3"
    NETWORK_NODE_4 = "network_node_4"
    ZONE = "zone"
    CAPACITY_BLOCK = "capacity_block"
    PLACEMENT_GROUP = "placement_group"
    FILE_SYSTEM = "file_system"
    SUBNET = "subnet"
    IMAGE = "image"
    CLUSTER = "cluster"
    INTAKE = "intake"


class IncidentStatus(StrEnum):
    """The status of a cluster incident. `closed` is final. Treat an unknown value as `open`.

    `recovering`: no node is affected any more, and the incident closes after a quiet period. `expired`: the incident
    has reached its maximum age, and repairs continue. It closes after its nodes are healthy for a quiet period.
    """

    OPEN = "open"
    RECOVERING = "recovering"
    EXPIRED = "expired"
    CLOSED = "closed"

    @property
    def holds(self) -> bool:
        """Return whether repairs wait for a cluster incident with this status."""
        return self in {IncidentStatus.OPEN, IncidentStatus.RECOVERING}


class IncidentChangeKind(StrEnum):
    """The kind of change of a cluster incident. Treat an unknown value as a change of its affected nodes."""

    OPENED = "opened"
    GROWN = "grown"
    SHRUNK = "shrunk"
    EXPIRED = "expired"
    CLOSED = "closed"


class ConditionKind(StrEnum):
    """The kind of a condition that the provider reports. Treat an unknown value as an open condition.

    `cluster_failed`, `group_failed`: the provider has stopped trying, and an operator must act. `rolling_back`: the
    provider reverses a change. `lifecycle_script`, `no_capacity`, `efa_check`, `launch_failed`: the reason why an
    instance did not start. `rival_repair`: two automations repair the same nodes. `no_provider_repair`: no automation
    repairs the nodes. `updating`: the owner updates a group, and repairs wait. `update_overdue`: the update takes too
    long, and repairs no longer wait.
    """

    CLUSTER_FAILED = "cluster_failed"
    ROLLING_BACK = "rolling_back"
    GROUP_FAILED = "group_failed"
    LIFECYCLE_SCRIPT = "lifecycle_script"
    NO_CAPACITY = "no_capacity"
    EFA_CHECK = "efa_check"
    LAUNCH_FAILED = "launch_failed"
    RIVAL_REPAIR = "rival_repair"
    NO_PROVIDER_REPAIR = "no_provider_repair"
    UPDATING = "updating"
    UPDATE_OVERDUE = "update_overdue"


class Outlook(StrEnum):
    """The verdict on a restart of a job. Treat an unknown value as `STOP`, and read `summary`.

    `RESTART`: the job may restart. `RESTART_WITHOUT`: the job may restart on other nodes than those in `nodes`. `STOP`:
    a restart would fail in the same way.
    """

    RESTART = "RESTART"
    RESTART_WITHOUT = "RESTART_WITHOUT"
    STOP = "STOP"


class JobOutcome(StrEnum):
    """How a job ended. Treat an unknown value as `unreported`."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNREPORTED = "unreported"


class NoteKind(StrEnum):
    """The kind of a note. Treat an unknown value as `information`.

    `late_fault`: a fault that arrived too late to change anything. `refused`: an attempt that admission refused, or an
    order that was refused. `shadow`: a finding of a detector that is on trial. `operator`: a comment or order of an
    operator. `would_have_done`: the result of a dry run, or of a shadow policy. `anchor`: a record of the hash of the
    last entry of every stream. `canary`: proof that records pass from the queue to the bus. `devices`: devices that
    were seen for the first time in an instance. `waiting`: a node waits too long for capacity or a successor.
    `silence`: a person silenced pages of the cluster, or the silence ended. `test_page`: a person tested the pages.
    `recurrence`: a failure mode recurs on the nodes of a group or a failure domain.
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
    SILENCE = "silence"
    TEST_PAGE = "test_page"
    RECURRENCE = "recurrence"


class SafetyKind(StrEnum):
    """The kind of a safety control. Treat an unknown value as a control that may stop repairs.

    `breaker`: stops repairs if too many nodes fail at once. `budget`: limits the attempts that start per hour. `pause`:
    an operator stops all repairs that have not reached their intent. `hold`: a cluster incident delays repairs in a
    failure domain. `claims`: claims of a source are ignored because earlier ones were refuted or expired. `evictions`:
    no further lost node is drained for a fault code.
    """

    BREAKER = "breaker"
    BUDGET = "budget"
    PAUSE = "pause"
    HOLD = "hold"
    CLAIMS = "claims"
    EVICTIONS = "evictions"


class SafetyState(StrEnum):
    """The state of a safety control. Treat an unknown value as a state that stops repairs.

    A control permits repairs in `closed` (breaker), `available` (budget), `running` (pause) and `released` (hold). A
    breaker in `half_open` admits a few repairs. A control stops new repairs in `open`, `used_up`, `paused` and `held`.
    Claims of a source count in `accepted` and are only notes in `damped`; repairs of proven faults continue.
    """

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"
    AVAILABLE = "available"
    USED_UP = "used_up"
    RUNNING = "running"
    PAUSED = "paused"
    RELEASED = "released"
    HELD = "held"
    ACCEPTED = "accepted"
    DAMPED = "damped"


class ProviderHealth(StrEnum):
    """The health of a cluster as its provider reports it. Treat an unknown value as `action_required`.

    `in_service`: the provider reports no open condition. `recovering`: conditions are open, and none needs an operator.
    `action_required`: an open condition needs an operator.
    """

    IN_SERVICE = "in_service"
    RECOVERING = "recovering"
    ACTION_REQUIRED = "action_required"


class ProviderStage(StrEnum):
    """Whether a change starts or ends the need for an operator. Treat an unknown value as no change.

    `begun`: a condition of the provider now needs an operator. `over`: no condition needs an operator any more.
    """

    BEGUN = "begun"
    OVER = "over"


class JobChangeKind(StrEnum):
    """The kind of change of a job. Treat an unknown value as a change that did not end the job."""

    STARTED = "started"
    HIT = "hit"
    ENDED = "ended"
    RESUMABLE = "resumable"
    NOTIFIED = "notified"
    STALLED = "stalled"
    ADVANCED = "advanced"
    LOSS = "loss"
    CHECKPOINTED = "checkpointed"


class CauseDomain(StrEnum):
    """The area in which a job failed, such as hardware or network. Treat an unknown value as `software`."""

    HARDWARE = "hardware"
    NETWORK = "network"
    STORAGE = "storage"
    PLATFORM = "platform"
    SOFTWARE = "software"
    NUMERICAL = "numerical"


class HardwareVerdict(StrEnum):
    """The verdict on the hardware as the cause of a failed job. Treat an unknown value as `undetermined`.

    `blamed`: a source of the node itself shows the fault. `acquitted`: another cause is clear, or every node was
    checked without finding a fault.
    """

    BLAMED = "blamed"
    ACQUITTED = "acquitted"
    UNDETERMINED = "undetermined"
