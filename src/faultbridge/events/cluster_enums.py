"""Open enumerations of cluster events. Each docstring states how to treat an unknown value."""

from __future__ import annotations

from faultbridge.events.base import OpenEnum


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
