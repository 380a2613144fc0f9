"""Open enumerations of cluster and job events. Each docstring states how to treat an unknown value."""

from __future__ import annotations

from faultbridge.events.base import OpenEnum


class SafetyKind(OpenEnum):
    """The kind of a safety control. Treat an unknown value as a control that may hold repairs.

    `breaker`: stops isolation and repair if too many nodes fail at once. `budget`: limits concurrent attempts and
    attempts per hour. `pause`: an operator's order. `hold`: holds a failure domain for a cluster incident.
    """

    BREAKER = "breaker"
    BUDGET = "budget"
    PAUSE = "pause"
    HOLD = "hold"
    UNKNOWN = "unknown"


class SafetyState(OpenEnum):
    """The state of a safety control. Treat an unknown value as a state that holds repairs.

    Repairs continue in `closed` (breaker), `available` (budget), `running` (pause) and `released` (hold). A breaker in
    `half_open` admits a few repairs. `open`, `used_up`, `paused` and `held` hold repairs.
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
    UNKNOWN = "unknown"


class SafetyScope(OpenEnum):
    """The scope of a safety control: cluster or failure domain. Treat an unknown value as `cluster`."""

    CLUSTER = "cluster"
    DOMAIN = "domain"
    UNKNOWN = "unknown"


class DomainType(OpenEnum):
    """The type of a failure domain. Treat an unknown value as `cluster`."""

    SWITCH = "switch"
    RACK = "rack"
    NVLINK_DOMAIN = "nvlink_domain"
    ZONE = "zone"
    CLUSTER = "cluster"
    UNKNOWN = "unknown"


class IncidentStatus(OpenEnum):
    """The status of a cluster incident. `closed` is final. Treat an unknown value as `open`."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class IncidentChange(OpenEnum):
    """The kind of change of a cluster incident. Treat an unknown value as `updated`."""

    OPENED = "opened"
    GROWN = "grown"
    SHRUNK = "shrunk"
    UPDATED = "updated"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class JobChangeKind(OpenEnum):
    """The kind of change of a job. Treat an unknown value as a change that did not end the job."""

    STARTED = "started"
    HIT = "hit"
    ENDED = "ended"
    UNKNOWN = "unknown"


class JobOutcome(OpenEnum):
    """How a job ended. Treat an unknown value as `unreported`."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNREPORTED = "unreported"
    UNKNOWN = "unknown"
