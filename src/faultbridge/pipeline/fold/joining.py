"""Joining: what two observations of one trouble make together, and whether the second says anything new."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from faultbridge.domain.catalog import Row
from faultbridge.domain.conditions import Condition, Reporter, Tombstone, counted_at
from faultbridge.domain.faults import Action, Component, Fault, Severity
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.resolve import Sits

MAX_DIGESTS = 8


def merge(one: Condition, other: Condition) -> Condition:
    """Make one condition of two that turned out to be about the same device; the older `since` wins."""
    return replace(
        one,
        since=min(one.since, other.since),
        last_at=max(one.last_at, other.last_at),
        count=one.count + other.count,
        hours={hour: one.hours.get(hour, 0) + other.hours.get(hour, 0) for hour in sorted({*one.hours, *other.hours})},
        severity=max(one.severity, other.severity, key=lambda severity: severity.rank),
        action=max(one.action, other.action, key=lambda action: action.rank),
        reported_severity=max(one.as_reported.severity, other.as_reported.severity, key=lambda severity: severity.rank),
        reported_action=max(one.as_reported.action, other.as_reported.action, key=lambda action: action.rank),
        reporters={**other.reporters, **one.reporters},
    )


def begun(code: str, row: Row, fault: Fault, arrival: Arrival, former: Tombstone | None) -> Condition:
    """Make the condition that a first fault begins, as its row of the catalog has it."""
    heard = {source: Reporter(False, at) for source, at in former.reporters.items()} if former else {}
    return Condition(
        code=code,
        component=fault.component,
        severity=fault.severity or row.severity,
        action=fault.action or row.action,
        scope=row.scope,
        ends_on=row.ends_on,
        since=arrival.at,
        last_at=arrival.at,
        message=fault.message,
        count=fault.count,
        hours=counted_at({}, arrival.at, fault.count),
        known_incarnation=arrival.sits is Sits.CURRENT,
        reporters={**heard, fault.source: Reporter(True, arrival.at, (digest(fault),))},
        attributes=dict(fault.attributes),
        ended_before=former.ended_at if former else None,
        reported_severity=fault.severity,
        reported_action=fault.action,
    )


def repeated(known: Condition, fault: Fault, arrival: Arrival, word: str | None = None) -> Condition:
    """Return a condition after one more fault, under its own key or by a word that stands for it."""
    reporter = known.reporters.get(fault.source)
    digests = reporter.digests if reporter is not None and reporter.last_at == arrival.at else ()
    heard = Reporter(True, arrival.at, (*digests, digest(fault))[-MAX_DIGESTS:], word)
    told = known.as_reported
    return replace(
        known,
        count=known.count + fault.count,
        hours=counted_at(known.hours, arrival.at, fault.count),
        since=min(known.since, arrival.at),
        last_at=max(known.last_at, arrival.at),
        reported_severity=max(told.severity, fault.severity or Severity.INFO, key=lambda one: one.rank),
        reported_action=max(told.action, fault.action or Action.NONE, key=lambda one: one.rank),
        known_incarnation=known.known_incarnation or arrival.sits is Sits.CURRENT,
        reporters={**known.reporters, fault.source: heard},
    )


def given_name(condition: Condition, vague: Condition, word: str) -> Condition:
    """Let a condition take over the reporters of one that had no name for the same trouble."""
    heard = {source: replace(reporter, word=reporter.word or word) for source, reporter in vague.reporters.items()}
    return merge(condition, replace(vague, reporters=heard))


def digest(fault: Fault) -> str:
    """Tell apart two observations of the same instant."""
    text = "\0".join((fault.source, fault.code, _spelled(fault.component), fault.message, fault.evidence))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(1024)
def _spelled(component: Component) -> str:
    # Half of what a digest costs, and a storm is about a few devices.
    return str(component)


def counted(reporter: Reporter, fault: Fault, at: datetime) -> bool:
    """Tell whether a reporter's observation of its latest instant is counted already."""
    if at != reporter.last_at:
        return False
    return len(reporter.digests) == MAX_DIGESTS or digest(fault) in reporter.digests


def difference(before: Condition, after: Condition) -> tuple[str, ...]:
    """Name what about a condition changed enough to be worth an entry; its count is at each power of ten."""
    crossed = len(str(after.count)) > len(str(before.count))
    known, told = before.as_reported, after.as_reported
    parts = (
        ("count", crossed),
        ("severity", (told.severity, told.action) != (known.severity, known.action)),
        ("reporters", after.sources != before.sources),
    )
    return tuple(name for name, differs in parts if differs)
