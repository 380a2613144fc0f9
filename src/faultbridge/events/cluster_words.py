"""The open lists of clusters and jobs; as in `words`, a word that a reader does not know is `unknown`."""

from __future__ import annotations

from faultbridge.events.base import Word


class SafetyKind(Word):
    """Which control changed. Take an unknown one for one that may hold repairs back.

    `breaker` stops isolation and repair when too many nodes fail at once, `budget` bounds attempts at one time and
    an hour, `pause` is a person's order, `hold` keeps a failure domain for a cluster incident.
    """

    BREAKER = "breaker"
    BUDGET = "budget"
    PAUSE = "pause"
    HOLD = "hold"
    UNKNOWN = "unknown"


class SafetyState(Word):
    """What a control is in. Take an unknown one for one that holds repairs back.

    Repairs go on in `closed` (breaker), `available` (budget), `running` (pause) and `released` (hold); a breaker in
    `half_open` lets a few through; `open`, `used_up`, `paused` and `held` hold them back.
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


class SafetyScope(Word):
    """How far a control reaches: the cluster or one failure domain of it. Take an unknown one for `cluster`."""

    CLUSTER = "cluster"
    DOMAIN = "domain"
    UNKNOWN = "unknown"


class DomainType(Word):
    """What nodes that fail together have in common. Take an unknown one for `cluster`."""

    SWITCH = "switch"
    RACK = "rack"
    NVLINK_DOMAIN = "nvlink_domain"
    ZONE = "zone"
    CLUSTER = "cluster"
    UNKNOWN = "unknown"


class IncidentStatus(Word):
    """How far a cluster incident has come; `closed` is final. Take an unknown one for `open`."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class IncidentChange(Word):
    """What happened to a cluster incident. Take an unknown one for `updated`."""

    OPENED = "opened"
    GROWN = "grown"
    SHRUNK = "shrunk"
    UPDATED = "updated"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class JobChange(Word):
    """What happened to a job. Take an unknown one for something that did not end it."""

    STARTED = "started"
    HIT = "hit"
    ENDED = "ended"
    UNKNOWN = "unknown"


class JobOutcome(Word):
    """How a job ended. Take an unknown one for `unreported`."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNREPORTED = "unreported"
    UNKNOWN = "unknown"
