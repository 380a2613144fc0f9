"""Which nodes lost their links by faults of their failure domains, and what their entries say about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

LINK_FAULTS = frozenset({"net.link_down", "net.link_absent"})
SILENT = "host.silent"


@dataclass(frozen=True, slots=True)
class LostLinks:
    """The links of one node that a fault of its failure domain interrupts from `start` to `end`.

    `nodes` counts the nodes of the domain. With `shared` False, each node has a fault of its own.
    """

    domain: str
    nodes: int
    node: str
    instance: str
    start: datetime
    end: datetime
    shared: bool = True

    def followed_by(
        self, others: Iterable[LostLinks], window: timedelta, shown: Mapping[str, datetime]
    ) -> list[LostLinks]:
        """Return the lost links that began together with this one, or at most `window` after it.

        The times in `shown`, at which the entries of each node last showed a lost link, are compared in the same way.
        While a long fault lasts, links may recover and be lost again by another fault.
        """
        first = shown[self.node]
        return [
            one
            for one in others
            if self.start <= one.start <= self.start + window and first <= shown[one.node] <= first + window
        ]


def largest_groups(
    starts: Iterable[LostLinks], others: Iterable[LostLinks], window: timedelta, shown: Mapping[str, datetime]
) -> list[frozenset[LostLinks]]:
    """Return the groups of lost links that each followed one of `starts` within `window`.

    A group that is a part of another one is left out, so that a shared cause is searched only for complete groups.
    """
    groups = {frozenset(first.followed_by(others, window, shown)) for first in starts}
    return [one for one in groups if not any(one < other for other in groups)]


@dataclass(slots=True)
class FaultyNode:
    """The state of one node, by its entries; `faults` maps a fault (code, component) to repair action and start.

    `reporter` is the instance whose links the last entry was about, None if that is unknown.
    `absorbed_at` is when its case began to wait for an incident. `repaired_in` is the case of its last repair intent.
    """

    faults: dict[tuple[str, str], tuple[str, datetime]] = field(default_factory=dict)
    status: str = ""
    reporter: str | None = None
    absorbed_at: datetime | None = None
    repaired_in: str | None = None

    def link_down_since(self) -> datetime | None:
        """Return when the last of the node's links went down, by its entries; None if no link is down."""
        return max((at for (code, _), (_, at) in self.faults.items() if code in LINK_FAULTS), default=None)

    @property
    def is_silent(self) -> bool:
        """Return whether the node's agent sends no heartbeats, by its entries."""
        return any(code == SILENT for code, _ in self.faults)

    @property
    def has_own_fault(self) -> bool:
        """Return whether a fault other than a network fault requires an action."""
        return any(not code.startswith("net.") and action != "none" for (code, _), (action, _) in self.faults.items())
