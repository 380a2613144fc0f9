"""Delivery audit: lists the records that were sent and have no outcome.

Senders write receipt lines with the records that they sent, and ingest writes receipt lines with the outcomes of
records. The audit compares these lines. A record counts once, however often it was delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faultbridge.domain.records import Outcome
from faultbridge.ingest.outcomes import SENT, outcomes_in
from faultbridge.ports import Receipts


@dataclass(frozen=True, slots=True)
class DeliveryAudit:
    """The result of an audit: records sent since a time, their outcomes, and records without an outcome.

    `others` is the number of records that have an outcome but no receipt of a sender. `stale` lists the records that
    changed nothing, because later reports about the node were already stored.
    """

    since: datetime
    sent: int
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    others: int = 0
    stale: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Return whether every record that was sent has an outcome."""
        return not self.missing


def audit_deliveries(receipts: Receipts, since: datetime) -> DeliveryAudit:
    """Compare the records sent since a time with the outcomes that ingest recorded."""
    lines = list(receipts.read(since))
    sent = dict.fromkeys(str(record) for line in lines if line.get("kind") == SENT for record in line["records"])
    outcomes = read_outcomes(lines)
    counts = Counter(outcomes[record] for record in sent if record in outcomes)
    return DeliveryAudit(
        since=since,
        sent=len(sent),
        outcomes={outcome: counts[outcome] for outcome in Outcome},
        missing=tuple(record for record in sent if record not in outcomes),
        others=sum(record not in sent for record in outcomes),
        stale=tuple(record for record in sent if outcomes.get(record) is Outcome.STALE),
    )


def read_outcomes(lines: Iterable[Mapping[str, Any]]) -> dict[str, Outcome]:
    """Return the final outcome of each record in receipt lines, by record id."""
    outcomes: dict[str, Outcome] = {}
    for line in lines:
        for record, outcome in outcomes_in(line):
            outcomes[record] = merge_outcomes(outcomes.get(record), outcome)
    return outcomes


def merge_outcomes(known: Outcome | None, added: Outcome) -> Outcome:
    """Return the final outcome of a record from two of its outcomes, in any order.

    `known` is None if `added` is the first outcome. Every other outcome replaces `rejected`, because a rejected record
    may be retried. Of two outcomes that are not `rejected`, the later member of `Outcome` is the final outcome.
    """
    if known is None or known is Outcome.REJECTED:
        return added
    return known if added is Outcome.REJECTED else max(known, added, key=lambda one: one.rank)
