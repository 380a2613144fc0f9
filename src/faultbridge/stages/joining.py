"""Joining: what two observations of one trouble make together, and whether the second says anything new."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.conditions import Condition, Witness
from faultbridge.domain.faults import Fault

MOST_DIGESTS = 8


def merge(one: Condition, other: Condition) -> Condition:
    """Make one condition of two that turned out to be about the same device; the older `since` wins."""
    return replace(
        one,
        since=min(one.since, other.since),
        last_at=max(one.last_at, other.last_at),
        count=one.count + other.count,
        severity=max(one.severity, other.severity, key=lambda severity: severity.rank),
        action=max(one.action, other.action, key=lambda action: action.rank),
        told_severity=max(one.as_told.severity, other.as_told.severity, key=lambda severity: severity.rank),
        told_action=max(one.as_told.action, other.as_told.action, key=lambda action: action.rank),
        witnesses={**other.witnesses, **one.witnesses},
    )


def digest(fault: Fault) -> str:
    """Tell apart two observations of the same instant."""
    text = "\0".join((fault.source, fault.code, str(fault.component), fault.message, fault.evidence))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def counted(witness: Witness, at: datetime, mark: str) -> bool:
    """Tell whether a witness's observation of its latest instant is counted already."""
    return at == witness.last_at and (mark in witness.digests or len(witness.digests) == MOST_DIGESTS)


def difference(before: Condition, after: Condition) -> tuple[str, ...]:
    """Name what about a condition changed enough to be worth an entry; its count is at each power of ten."""
    crossed = len(str(after.count)) > len(str(before.count))
    active = {source for source, witness in before.witnesses.items() if witness.active}
    asserting = {source for source, witness in after.witnesses.items() if witness.active}
    known, told = before.as_told, after.as_told
    parts = (
        ("count", crossed),
        ("severity", (told.severity, told.action) != (known.severity, known.action)),
        ("witnesses", asserting != active),
    )
    return tuple(name for name, differs in parts if differs)
