"""Breakers: when too many nodes of a cluster or a failure domain fail at once, nothing more is taken out of service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

CLUSTER_BREAKER = "cluster"
_DOMAIN = "domain:"


class BreakerScope(StrEnum):
    """What a breaker watches: the whole cluster, or each failure domain by itself."""

    CLUSTER = "cluster"
    DOMAIN = "domain"


class BreakerState(StrEnum):
    """`closed` lets everything through, `half_open` a few, `open` nothing."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerLimit:
    """When a breaker trips: at least `nodes` nodes are failing and they are at least `percent` of the nodes.

    An open breaker lets `trial` repairs at a time through once no node began to fail for `quiet`.
    """

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: int = 5
    percent: int = 20
    quiet: timedelta = timedelta(minutes=10)
    trial: int = 1


@dataclass(frozen=True, slots=True)
class Breaker:
    """Where a breaker stands, since when, and by how many failing nodes of how many nodes it was judged.

    Cases that opened up to `ignored_before` do not count: a person closed the breaker in spite of them.
    """

    state: BreakerState
    since: datetime
    trial: int = 1
    failing: int = 0
    of: int = 0
    ignored_before: datetime | None = None


def breaker_name(scope: BreakerScope, domain: str | None = None) -> str:
    """Name the breaker of the cluster, or the one of a failure domain."""
    return CLUSTER_BREAKER if scope is BreakerScope.CLUSTER else f"{_DOMAIN}{domain}"


def domain_of(name: str) -> str | None:
    """Return the failure domain that a breaker of this name watches, or None for the cluster's."""
    return name.removeprefix(_DOMAIN) if name.startswith(_DOMAIN) else None
