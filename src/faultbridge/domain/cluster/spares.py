"""Spares: instances that are launched and verified in advance, so that a replacement needs no launch."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.dataclass import dataclass

SPARE = "spare-"
"""The prefix of a spare's owner name, used in place of a case id until a case claims the spare."""

VERIFIED_FOR = timedelta(hours=24)
"""The validity of a passed verification of an idle spare."""


class SpareStatus(StrEnum):
    """The status of one slot of the pool of spare instances."""

    EMPTY = "empty"
    LAUNCHING = "launching"
    VERIFYING = "verifying"
    READY = "ready"
    TAKEN = "taken"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Spare:
    """One slot of a cluster's spare pool and its current instance.

    `round` counts the instances that this slot has had. `verifications` counts the verifications of the current
    instance. A `ready` spare passed its verification at `verified_at`. A `taken` spare belongs to the case with the id
    in `case` until it is attached to a node.
    """

    cluster: str
    number: int
    group: str
    status: SpareStatus = SpareStatus.EMPTY
    since: datetime | None = None
    round: int = 0
    verifications: int = 0
    instance_id: str | None = None
    instance_type: str | None = None
    operation: str | None = None
    verified_at: datetime | None = None
    case: str | None = None
    reason: str = ""
    version: int = 0

    @property
    def owner(self) -> str:
        """Return the text that identifies this slot and round as the owner of a launched instance.

        The owner of an instance that is launched for a repair is the id of the case instead.
        """
        return f"{SPARE}{self.cluster}-{self.number}-{self.round}"

    def serves(self, group: str, now: datetime) -> bool:
        """Return whether this spare of the group is ready and was verified recently enough to use now."""
        fresh = self.verified_at is not None and now - self.verified_at < VERIFIED_FOR
        return self.status is SpareStatus.READY and self.group == group and fresh
