"""Breaker: whether so many nodes fail at once that taking more of them out of service would make it worse.

A node that is not there yet is not failing: a cluster that grows trips nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.breakers import Breaker, BreakerLimit, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.edges import NodeStatus
from faultbridge.pipeline.decide.cluster_status import GROWING


@dataclass(frozen=True, slots=True)
class Failing:
    """A node with a live case: where it stands, in which failure domain, and since when it has the case."""

    status: NodeStatus
    domain: str | None
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """The failing nodes that one breaker watches, and of how many nodes."""

    opened: tuple[datetime, ...]
    of: int


@dataclass(frozen=True, slots=True)
class Tripped:
    """A breaker that moved: its name, how it stood (None: it never tripped before), how it stands, and why."""

    name: str
    limit: BreakerLimit
    before: BreakerState | None
    breaker: Breaker
    reason: str


def judge(
    breakers: Mapping[str, Breaker],
    limits: Iterable[BreakerLimit],
    failing: Iterable[Failing],
    seats: Mapping[str | None, int],
    now: datetime,
) -> tuple[Tripped, ...]:
    """Move the breakers of a cluster; `nodes` counts those of each failure domain, under None all of them."""
    counted = [one for one in failing if one.status not in GROWING]
    moved = (
        _moved(name, limit, breakers.get(name), tally, now)
        for limit in limits
        for name, tally in _tallies(limit, counted, seats, breakers)
    )
    return tuple(one for one in moved if one is not None)


def _tallies(
    limit: BreakerLimit, failing: list[Failing], seats: Mapping[str | None, int], breakers: Mapping[str, Breaker]
) -> Iterator[tuple[str, Tally]]:
    if limit.scope is BreakerScope.CLUSTER:
        yield breaker_name(limit.scope), Tally(tuple(one.opened_at for one in failing), seats.get(None, 0))
        return
    for domain in sorted({one.domain for one in failing if one.domain} | {name for name in seats if name}):
        name = breaker_name(limit.scope, domain)
        opened = tuple(one.opened_at for one in failing if one.domain == domain)
        if opened or name in breakers:
            yield name, Tally(opened, seats.get(domain, 0))


def _moved(name: str, limit: BreakerLimit, known: Breaker | None, tally: Tally, now: datetime) -> Tripped | None:
    floor = known.ignored_before if known else None
    opened = [at for at in tally.opened if floor is None or at > floor]
    over = len(opened) >= limit.nodes and len(opened) * 100 >= limit.percent * tally.of
    state = known.state if known else BreakerState.CLOSED
    target, reason = _target(state, known, limit, opened, over=over, now=now)
    if target is state:
        return None
    breaker = Breaker(target, now, limit.trial, len(opened), tally.of, floor)
    return Tripped(name, limit, known.state if known else None, breaker, reason)


def _target(
    state: BreakerState,
    known: Breaker | None,
    limit: BreakerLimit,
    opened: list[datetime],
    *,
    over: bool,
    now: datetime,
) -> tuple[BreakerState, str]:
    if state is BreakerState.CLOSED or known is None:
        if over:
            return BreakerState.OPEN, f"{len(opened)} nodes fail at once"
        return BreakerState.CLOSED, ""
    newest = max(opened, default=known.since)
    if state is BreakerState.HALF_OPEN and over and newest > known.since:
        return BreakerState.OPEN, "another node began to fail"
    if state is BreakerState.OPEN and now - max(newest, known.since) < limit.quiet:
        return state, ""
    if not over:
        return BreakerState.CLOSED, f"{len(opened)} nodes still fail, fewer than it takes"
    return BreakerState.HALF_OPEN, "no other node began to fail; a few are tried"


def closed_by_hand(breaker: Breaker, now: datetime) -> Breaker:
    """Close a breaker in spite of the nodes that fail now; only others can trip it again."""
    return replace(breaker, state=BreakerState.CLOSED, since=now, ignored_before=now)
