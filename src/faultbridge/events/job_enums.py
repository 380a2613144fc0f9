"""Open enumerations of job events. Each docstring states how to treat an unknown value."""

from __future__ import annotations

from faultbridge.events.base import OpenEnum


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
