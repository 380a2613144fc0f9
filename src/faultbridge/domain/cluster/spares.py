"""Spares: instances that are launched and verified in advance, so that a replacement needs no launch."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.dataclass import dataclass

SPARE = "spare-"
"""The prefix of `Spare.owner`, the tag of a spare instance until the instance is assigned to a case."""

VERIFIED_FOR = timedelta(hours=24)
"""The validity of a passed verification of an idle spare."""


def is_taken(tag: str | None, case: str | None = None) -> bool:
    """Return whether the case tag of a spare's instance names another case than `case`.

    The provider's tag is newer than a table that was restored from a backup: the instance may serve a node.
    """
    return tag not in {None, case} and not str(tag).startswith(SPARE)


class SpareStatus(StrEnum):
    """The status of one spare, which is a numbered position of a cluster's spare pool."""

    EMPTY = "empty"
    LAUNCHING = "launching"
    VERIFYING = "verifying"
    READY = "ready"
    TAKEN = "taken"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Spare:
    """One numbered position of a cluster's spare pool, which is empty or has an instance.

    `round` counts the launches for this spare. `verifications` is part of the token of a verification, and differs
    between the verifications of one instance. A `ready` spare passed its last verification at `verified_at`. A `taken`
    spare is reserved for the case with the id `case`.
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
        """Return the tag value of an instance that is launched for this spare in its current round.

        The tag of an instance that is launched for a repair contains the id of the case instead.
        """
        return f"{SPARE}{self.cluster}-{self.number}-{self.round}"

    def serves(self, group: str, now: datetime) -> bool:
        """Return whether the spare is ready, belongs to `group`, and has a valid verification.

        A passed verification is valid for `VERIFIED_FOR`.
        """
        fresh = self.verified_at is not None and now - self.verified_at < VERIFIED_FOR
        return self.status is SpareStatus.READY and self.group == group and fresh
