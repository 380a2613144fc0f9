"""The enumerations of faults; a reader of events gets `unknown` for a value of a later version.

Events publish these values and the docstrings. The node agent uses these enumerations without those of `enums`.
"""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How much a fault affects a node, mildest first.

    `info`: record the fault. `warning`: watch it. `error`: drain and repair the node. `fatal`: the node is unusable.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        """Return 0 for the mildest severity; worse severities have higher ranks."""
        return _SEVERITY_RANK[self]


_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Action(StrEnum):
    """The recommended response to a fault, least disruptive first."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RUN_DIAGNOSTICS = "run_diagnostics"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    CONTACT_SUPPORT = "contact_support"

    @property
    def rank(self) -> int:
        """Return 0 for the least disruptive action; more disruptive actions have higher ranks."""
        return _ACTION_RANK[self]

    @property
    def opens_case(self) -> bool:
        """Return whether the action needs a repair case. Only `none` and `restart_app` need no case."""
        return self.rank >= _ACTION_RANK[Action.RUN_DIAGNOSTICS]


_ACTION_RANK = {action: rank for rank, action in enumerate(Action)}


class Family(StrEnum):
    """The family of the faults of an incident. Treat an unknown value as a shared cause outside the nodes."""

    # The codes of a family often share a cause outside the node. Not every code has a family.
    NETWORK = "network"
    NVLINK = "nvlink"
    POWER = "power"
    STORAGE = "storage"
    THERMAL = "thermal"
    SOFTWARE = "software"
    HEARTBEAT = "heartbeat"


class ComponentType(StrEnum):
    """The kind of component that a fault affects."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NIC = "nic"
    NODE = "node"
    DISK = "disk"
    MEMORY = "memory"
    CPU = "cpu"
    JOB = "job"
