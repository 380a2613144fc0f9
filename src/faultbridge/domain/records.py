"""Raw records: what a source sent, before anybody read it, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

CANARY = "canary"
"""The source of the records that an installation sends to itself."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One message of one source.

    `sent_at` is the sender's clock at sending, `received_at` the cloud's (SQS SentTimestamp of the first delivery).
    `node` is what the sender calls the node: a host name, an instance id, a Slurm or Kubernetes name, or nothing.
    """

    record_id: str
    source: str
    cluster: str
    node: str | None
    body: bytes
    sent_at: datetime
    received_at: datetime
    instance_id: str | None = None
    boot_id: str | None = None
    sender: str | None = None


class Outcome(StrEnum):
    """What became of a delivered record; each has exactly one, the strongest that applies (strongest last)."""

    CLEAN = "clean"
    DUPLICATE = "duplicate"
    STALE = "stale"
    FOLDED = "folded"
    RECORDED = "recorded"
    REJECTED = "rejected"

    @property
    def rank(self) -> int:
        """Return 0 for the weakest, rising."""
        return _OUTCOME_RANK[self]


_OUTCOME_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
