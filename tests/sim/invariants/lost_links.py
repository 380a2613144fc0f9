"""Lost links: the links that faults of failure domains interrupt, and the state of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

LINK_FAULTS = frozenset({"net.link_down", "net.link_absent"})
SILENT = "host.silent"


@dataclass(frozen=True, slots=True)
class LostLinks:
    """The lost links of one node: a fault of its failure domain interrupts them from `start` to `end`.

    `nodes` is the number of nodes in the domain. `shared` is False if each node has a fault of its own.
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
        """Return those of `others` that started together with these lost links, or within `window` afterwards.

        `shown` has, for each node, the time at which a link of the node last went down, by its entries. These times
        must also be within `window`, because links may recover during a long fault, and another fault may interrupt
        them again.
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
    """Return groups of lost links that started within `window`, without groups inside a larger group.

    For each of `starts`, a group has those of `others` that started with it, or at most `window` later.
    `LostLinks.followed_by` selects the members, and explains `shown`.
    """
    groups = {frozenset(first.followed_by(others, window, shown)) for first in starts}
    return [one for one in groups if not any(one < other for other in groups)]


@dataclass(slots=True)
class FaultyNode:
    """The state of one node, by its entries.

    - `faults` maps each active fault (its code and component) to its action and the time of its first entry.
    - `reporter` is the instance in the last entry about a link of the node, or None if it is unknown.
    - `absorbed_at` is the time when the node's case began to wait for an incident, or None if it does not wait.
    - `repaired_in` is the case of the node's last repair intent, or None after the case was resolved.
    """

    faults: dict[tuple[str, str], tuple[str, datetime]] = field(default_factory=dict)
    status: str = ""
    reporter: str | None = None
    absorbed_at: datetime | None = None
    repaired_in: str | None = None

    def link_down_since(self) -> datetime | None:
        """Return when a link of the node last went down, by the node's entries; None if no link is down."""
        return max((at for (code, _), (_, at) in self.faults.items() if code in LINK_FAULTS), default=None)

    @property
    def is_silent(self) -> bool:
        """Return whether the node's agent sends no heartbeats, by its entries."""
        return any(code == SILENT for code, _ in self.faults)

    @property
    def has_own_fault(self) -> bool:
        """Return whether a fault other than a network fault requires an action."""
        return any(not code.startswith("net.") and action != "none" for (code, _), (action, _) in self.faults.items())
