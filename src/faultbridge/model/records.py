"""Raw records as sources send them, and the outcomes of their processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

CANARY = "canary"
"""The source name of the test records that an installation sends to itself."""


JOB_REPORT = "job-report"
"""The source name of records in which a scheduler or a collector reports a job."""


WEBHOOK_SENDER = "webhook:"
"""The prefix of the sender's name in webhook records. Senders on the queue are IAM identities, which never have it."""


OF_SYSLOG: Mapping[str, str] = {"transport": "syslog"}
"""The attributes of a fault or clear from text of syslog, in which any program can write the tag of another one."""


SAMPLE_INTERVAL = timedelta(minutes=5)
"""Counter samples without a fault are stored at most once in this time."""


@dataclass(frozen=True, slots=True)
class SentValues:
    """What a sender states about the values in a record, so that equal values need not be stored again.

    - `digest` identifies the values: two records of one source with equal digests have equal values. A record without
      a digest is always stored.
    - `last_sent` maps the digest of each recent set of values to the time when this set was last sent, by the sender's
      clock. A set that is sent again within `SAMPLE_INTERVAL` keeps its earlier time, because equal values are stored
      at most once in this interval.
    """

    digest: str | None
    last_sent: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One message that one source sent, not yet decoded.

    `received_at` is when the queue first accepted the record, by the queue's clock. `sent_at` is when the sender sent
    it, by its own clock. If that time is implausible, `sent_at` equals `received_at` (`pipeline.normalize.timestamp`).
    `node` is the sender's name for the node: a host name, an instance id, a Slurm or Kubernetes name, or None.
    `claimed` is True if nothing proves that the sender is the node: an operator listed the sender, or it is a webhook.
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
    values: SentValues | None = None
    claimed: bool = False


class Outcome(StrEnum):
    """The result of processing a raw record, weakest first; of several results, the strongest is kept."""

    CLEAN = "clean"
    DUPLICATE = "duplicate"
    STALE = "stale"
    FOLDED = "folded"
    RECORDED = "recorded"
    REJECTED = "rejected"

    @property
    def rank(self) -> int:
        """Return 0 for the weakest outcome; stronger outcomes have higher ranks."""
        return _OUTCOME_RANK[self]


_OUTCOME_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
