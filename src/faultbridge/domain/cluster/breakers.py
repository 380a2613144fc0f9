"""Circuit breakers: stop new repairs when too many nodes of a cluster or failure domain fail at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.dataclass import dataclass

CLUSTER_BREAKER = "cluster"
_DOMAIN = "domain:"


class BreakerScope(StrEnum):
    """The nodes that a circuit breaker counts: those of the cluster, or those of one failure domain."""

    CLUSTER = "cluster"
    DOMAIN = "domain"


class BreakerState(StrEnum):
    """Circuit breaker states: `closed` permits all repairs, `half_open` a few, `open` none."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerLimit:
    """The settings of a circuit breaker that stops repairs when many nodes fail.

    - The breaker opens when at least `nodes` nodes, and at least `percent` percent of the counted nodes, fail at once.
    - An open breaker closes when no further node has failed for `quiet`. If the failing nodes still reach both `nodes`
      and `percent` then, it becomes half open instead.
    - A half-open breaker permits `trial` repairs at a time. It closes when the failing nodes do not reach both limits.
      Before that, it opens again with the first failed attempt of a repair, or if another node fails.
    - A breaker that opens for the `openings`th time within a day stays open until no node fails or an operator closes
      it.
    """

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: int = 5
    percent: int = 20
    quiet: timedelta = timedelta(minutes=10)
    trial: int = 1
    openings: int = 3


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of one circuit breaker, when it entered the state, and node counts.

    - `failing` is the number of failing nodes, and `of` the number of all nodes that the breaker counts. An order of an
      operator does not update them.
    - Cases that were opened up to `ignored_before` do not count, because an operator closed the breaker at that time.
    - `opened` lists when the breaker opened, up to a day before its last opening. It is empty after an operator closed
      the breaker.
    - `stays_open` is True if the breaker opened too often within a day (`BreakerLimit.openings`). It then stays open
      until no node fails or an operator closes it.
    - `trial` is how many repairs a half-open breaker permits at a time.
    - `incident` is the id of the expired incident whose nodes opened the breaker, or None. The page of this incident
      covers the breaker, so the breaker sends no page.
    """

    state: BreakerState
    since: datetime
    trial: int = 1
    failing: int = 0
    of: int = 0
    ignored_before: datetime | None = None
    opened: tuple[datetime, ...] = ()
    stays_open: bool = False
    incident: str | None = None


def breaker_name(scope: BreakerScope, domain: str | None = None) -> str:
    """Return the name of the cluster's circuit breaker, or of the breaker of the failure domain `domain`."""
    return CLUSTER_BREAKER if scope is BreakerScope.CLUSTER else f"{_DOMAIN}{domain}"


def domain_of(name: str) -> str | None:
    """Return the failure domain in a breaker's name, or None if the breaker counts the whole cluster."""
    return name.removeprefix(_DOMAIN) if name.startswith(_DOMAIN) else None
