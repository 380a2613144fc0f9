"""Spares: machines that were launched and verified before anybody needs them, one in each place of a cluster's pool."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

SPARE = "spare-"
"""How the owners of machines are called that no case has yet."""

VERIFIED_FOR = timedelta(hours=24)
"""How long a passed verification counts for a machine that nothing runs on."""


class SpareStatus(StrEnum):
    """What is done about one place of the pool."""

    EMPTY = "empty"
    LAUNCHING = "launching"
    VERIFYING = "verifying"
    READY = "ready"
    TAKEN = "taken"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Spare:
    """One place of the pool and who is in it; `round` counts the machines that it had, and `looks` their verifications.

    A `ready` one passed its verification at `verified_at`; a `taken` one belongs to `case` until it sits in a node.
    """

    cluster: str
    number: int
    group: str
    status: SpareStatus = SpareStatus.EMPTY
    since: datetime | None = None
    round: int = 0
    looks: int = 0
    instance_id: str | None = None
    instance_type: str | None = None
    operation: str | None = None
    verified_at: datetime | None = None
    case: str | None = None
    reason: str = ""
    version: int = 0

    @property
    def owner(self) -> str:
        """Return what its machine is launched for, as a case would be named."""
        return f"{SPARE}{self.cluster}-{self.number}-{self.round}"

    def serves(self, group: str, now: datetime) -> bool:
        """Tell whether it may take a node of a group now."""
        fresh = self.verified_at is not None and now - self.verified_at < VERIFIED_FOR
        return self.status is SpareStatus.READY and self.group == group and fresh
