"""Circuit breakers: stop new repairs when too many nodes of a cluster or failure domain fail at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.dataclass import dataclass

CLUSTER_BREAKER = "cluster"
_DOMAIN = "domain:"


class BreakerScope(StrEnum):
    """The nodes that a breaker counts: the whole cluster, or each failure domain separately."""

    CLUSTER = "cluster"
    DOMAIN = "domain"


class BreakerState(StrEnum):
    """Breaker states, least strict first: `closed` permits all repairs, `half_open` a few, `open` none."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerLimit:
    """Settings of a breaker.

    It opens when at least `nodes` nodes fail and these are at least `percent` percent of the nodes that it counts.
    It becomes half open when no further node has failed for `quiet`; then it permits `trial` repairs at a time, and
    opens again when a repair fails or another node does. When it opens for the `openings`th time within a day, it
    stays open while any node fails, until an operator closes it.
    """

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: int = 5
    percent: int = 20
    quiet: timedelta = timedelta(minutes=10)
    trial: int = 1
    openings: int = 3


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of one breaker, when it was entered, and the node counts at that time.

    `failing` is the number of failing nodes and `of` the number of all nodes that the breaker counts. Cases opened up
    to `ignored_before` do not count: an operator closed the breaker although they were open. `opened` lists when it
    opened within a day. With `stays_open` it opened too often: only an operator closes it while nodes fail.
    """

    state: BreakerState
    since: datetime
    trial: int = 1
    failing: int = 0
    of: int = 0
    ignored_before: datetime | None = None
    opened: tuple[datetime, ...] = ()
    stays_open: bool = False


def breaker_name(scope: BreakerScope, domain: str | None = None) -> str:
    """Return the name of the cluster's breaker, or of the breaker of one failure domain."""
    return CLUSTER_BREAKER if scope is BreakerScope.CLUSTER else f"{_DOMAIN}{domain}"


def domain_of(name: str) -> str | None:
    """Return the failure domain in a breaker's name, or None for the cluster's breaker."""
    return name.removeprefix(_DOMAIN) if name.startswith(_DOMAIN) else None
