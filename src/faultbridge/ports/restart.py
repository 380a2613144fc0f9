"""What mends an instance without giving it up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from faultbridge.domain.cases import RepairAction
from faultbridge.ports.repair import Answer


class RestartState(StrEnum):
    """How a restart stands; `absent` is one that the instance was never asked for, `unknown` one nobody can tell of."""

    ABSENT = "absent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Restart:
    """One look at a restart: how it stands, the words of whoever did it, and the boot that an instance came up with."""

    state: RestartState
    reason: str = ""
    operation: str | None = None
    boot_id: str | None = None


class Restarter(Protocol):
    """What resets the GPUs of an instance (repair action `reset`) or boots it again (repair action `reboot`).

    The token is that of the committed intent: what was begun with a token is not begun a second time, whoever asks.
    """

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> Answer:
        """Begin a restart; NOT_FOUND when the instance cannot be reached."""
        ...

    def look(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Tell how the restart with this token stands; `done` once the instance answers again."""
        ...
