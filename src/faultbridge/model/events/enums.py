"""Open enumerations of node and case events. Each docstring states how to treat an unknown value."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
SHA256 = r"^[0-9a-f]{64}$"
PCI = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-9a-f])?$"
CASE_ID = r"^c-[a-z2-7]{26}$"


class Model(BaseModel):
    """The base of each part of an event. Unknown fields, which later versions may add, are ignored."""

    # Models are built at first use: a reader pays only for the events that it reads.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


class OpenEnum(StrEnum):
    """An enumeration to which later versions may add values. A reader gets `unknown` for an unknown value.

    Every enumeration has the member `UNKNOWN = "unknown"`. Producers never write it.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        return cls["UNKNOWN"] if isinstance(value, str) else None

    @classmethod
    def known(cls) -> list[str]:
        """Return the values that this version defines, without `unknown`."""
        return [member.value for member in cls if member.value != "unknown"]

    @classmethod
    def __get_pydantic_json_schema__(cls, _core: Any, _handler: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's hook
        """Return the open JSON Schema, which allows the known values and any other string."""
        return {
            "title": cls.__name__,
            "description": (cls.__doc__ or "").strip(),
            "anyOf": [{"enum": cls.known()}, {"type": "string"}],
            "x-unknown-as": "unknown",
        }


def parse_instant(value: object) -> datetime:
    """Convert the text of a time in an event to a datetime in UTC.

    A datetime is returned unchanged. Text in another format, an impossible date, and a value of another type raise
    `ValueError`.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(INSTANT, value):
        raise ValueError("not an RFC 3339 time in UTC with milliseconds and Z")
    return datetime.fromisoformat(value).astimezone(UTC)


def _render(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{instant.microsecond // 1000:03d}Z"


Instant = Annotated[
    datetime,
    PlainValidator(parse_instant),
    PlainSerializer(_render, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": INSTANT}),
]
EventId = Annotated[str, Field(pattern=UUID, json_schema_extra={"format": "uuid"})]
Sha256 = Annotated[str, Field(pattern=SHA256)]
CaseId = Annotated[str, Field(pattern=CASE_ID)]
Milliseconds = Annotated[int, Field(ge=0, json_schema_extra={"x-unit": "ms"})]
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


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


class SafetyKind(OpenEnum):
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
    UNKNOWN = "unknown"


class SafetyState(OpenEnum):
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
    UNKNOWN = "unknown"


class SafetyScope(OpenEnum):
    """The scope of a safety control: cluster or failure domain. Treat an unknown value as `cluster`."""

    CLUSTER = "cluster"
    DOMAIN = "domain"
    UNKNOWN = "unknown"


class DomainType(OpenEnum):
    """The type of a failure domain. Treat an unknown value as `cluster`.

    `network_node` is the switch nearest to the instance, `network_node_2` is the switch above it, and so on. `intake`
    is Faultbridge's own path from the queue to the table.
    """

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
    UNKNOWN = "unknown"


class FaultFamily(OpenEnum):
    """The family of the faults of an incident. Treat an unknown value as a shared cause outside the nodes."""

    NETWORK = "network"
    NVLINK = "nvlink"
    POWER = "power"
    STORAGE = "storage"
    THERMAL = "thermal"
    SOFTWARE = "software"
    HEARTBEAT = "heartbeat"
    UNKNOWN = "unknown"


class IncidentStatus(OpenEnum):
    """The status of a cluster incident. `closed` is final. Treat an unknown value as `open`.

    `recovering`: no node is affected any more, and the incident closes after a quiet period. `expired`: the incident
    has reached its maximum age, and repairs continue. It closes after its nodes are healthy for a quiet period.
    """

    OPEN = "open"
    RECOVERING = "recovering"
    EXPIRED = "expired"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class IncidentChange(OpenEnum):
    """The kind of change of a cluster incident. Treat an unknown value as a change of its affected nodes."""

    OPENED = "opened"
    GROWN = "grown"
    SHRUNK = "shrunk"
    EXPIRED = "expired"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class ProviderHealth(OpenEnum):
    """The health of a cluster as its provider reports it. Treat an unknown value as `action_required`.

    `in_service`: the provider reports no open condition. `recovering`: conditions are open, and none needs an operator.
    `action_required`: an open condition needs an operator.
    """

    IN_SERVICE = "in_service"
    RECOVERING = "recovering"
    ACTION_REQUIRED = "action_required"
    UNKNOWN = "unknown"


class ProviderStage(OpenEnum):
    """Whether a change starts or ends the need for an operator. Treat an unknown value as no change.

    `begun`: a condition of the provider now needs an operator. `over`: no condition needs an operator any more.
    """

    BEGUN = "begun"
    OVER = "over"
    UNKNOWN = "unknown"


class ProviderConditionKind(OpenEnum):
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
    UNKNOWN = "unknown"


class JobChangeKind(OpenEnum):
    """The kind of change of a job. Treat an unknown value as a change that did not end the job."""

    STARTED = "started"
    HIT = "hit"
    ENDED = "ended"
    RESUMABLE = "resumable"
    NOTIFIED = "notified"
    STALLED = "stalled"
    ADVANCED = "advanced"
    LOSS = "loss"
    UNKNOWN = "unknown"


class JobOutcome(OpenEnum):
    """How a job ended. Treat an unknown value as `unreported`."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNREPORTED = "unreported"
    UNKNOWN = "unknown"


class RestartVerdict(OpenEnum):
    """The verdict on a restart of a job. Treat an unknown value as `STOP`, and read `summary`.

    `RESTART`: the job may restart. `RESTART_WITHOUT`: the job may restart on other nodes than those in `nodes`. `STOP`:
    a restart would fail in the same way.
    """

    RESTART = "RESTART"
    RESTART_WITHOUT = "RESTART_WITHOUT"
    STOP = "STOP"
    UNKNOWN = "unknown"


class CauseDomain(OpenEnum):
    """The area in which a job failed, such as hardware or network. Treat an unknown value as `software`."""

    HARDWARE = "hardware"
    NETWORK = "network"
    STORAGE = "storage"
    PLATFORM = "platform"
    SOFTWARE = "software"
    NUMERICAL = "numerical"
    UNKNOWN = "unknown"


class HardwareVerdict(OpenEnum):
    """The verdict on the hardware as the cause of a failed job. Treat an unknown value as `not_shown`.

    `blamed`: a source of the node itself shows the fault. `acquitted`: another cause is clear, or every node was
    checked without finding a fault.
    """

    BLAMED = "blamed"
    ACQUITTED = "acquitted"
    NOT_SHOWN = "not_shown"
    UNKNOWN = "unknown"
