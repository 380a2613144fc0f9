"""Account: every record that was sent has an outcome, or is named.

Senders write a line with the ids that the queue took; ingest writes a line with the outcome of each record of a
batch. Records are counted once, however often they were delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from faultbridge.domain.records import Outcome
from faultbridge.ports import Receipts

SENT = "sent"
OUTCOME = "outcome"
IDS_A_LINE = 1000
"""A line of a log may hold 256 KB; a thousand ids are 40."""


def sent_lines(sender: str, records: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Say which records a sender put on the queue, a thousand a line."""
    ids = iter(records)
    while chunk := list(islice(ids, IDS_A_LINE)):
        yield {"kind": SENT, "sender": sender, "records": chunk}


def outcome_lines(outcomes: Mapping[str, Outcome]) -> Iterator[Mapping[str, Any]]:
    """Say what became of the records of a batch, a thousand a line."""
    settled = iter(outcomes.items())
    while chunk := dict(islice(settled, IDS_A_LINE)):
        yield {"kind": OUTCOME, "records": {record: outcome.value for record, outcome in chunk.items()}}


@dataclass(frozen=True, slots=True)
class DeliveryAudit:
    """How many records were sent since when, what became of them, and which nobody can account for."""

    since: datetime
    sent: int
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    others: int = 0

    @property
    def complete(self) -> bool:
        """Tell whether every record that was sent has an outcome."""
        return not self.missing


def account(receipts: Receipts, since: datetime) -> DeliveryAudit:
    """Compare what was sent since an instant with what came of it; `others` have an outcome but no known sender."""
    sent: dict[str, None] = {}
    settled: dict[str, Outcome] = {}
    for line in receipts.read(since):
        if line.get("kind") == SENT:
            sent |= dict.fromkeys(map(str, line["records"]))
        elif line.get("kind") == OUTCOME:
            for record, outcome in line["records"].items():
                settled[record] = final(settled.get(record), Outcome(outcome))
    counts = Counter(settled[record] for record in sent if record in settled)
    return DeliveryAudit(
        since=since,
        sent=len(sent),
        outcomes={outcome: counts[outcome] for outcome in Outcome},
        missing=tuple(record for record in sent if record not in settled),
        others=sum(record not in sent for record in settled),
    )


def final(known: Outcome | None, told: Outcome) -> Outcome:
    """Join two outcomes of one record, in any order: a reject that was tried again is not the last word on it."""
    if known is None or known is Outcome.REJECTED:
        return told
    return known if told is Outcome.REJECTED else max(known, told, key=lambda one: one.rank)
