"""Silences: which pages about a cluster are not sent for a time, by order of a person."""

from __future__ import annotations

from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from faultbridge.model.stored import Stored

MAX_SILENCE = timedelta(days=30)
MAX_SILENCES = 50
"""How many silences of a cluster may exist at once: all of them are in the item of its controls."""

SILENCE = "sil-"
"""The prefix of the id of a silence."""


class Subject(Struct, frozen=True):
    """What a page is about, for the matchers of silences; a page about a whole cluster has no values.

    `domains` are the names of all failure domains of the node.
    """

    node: str | None = None
    group: str | None = None
    domains: tuple[str, ...] = ()
    mode: str | None = None


class Silence(Stored, frozen=True):
    """A person's order not to send the pages that match, from a time until a time.

    Each matcher that is given must match; a silence without matchers holds every page about the cluster. `group`,
    `rack`, `node` and `mode` are shell patterns (`gpu-*`). `rack` matches the name of any failure domain of the node.
    """

    id: str
    by: str
    reason: str
    since: datetime
    until: datetime
    group: str | None = None
    rack: str | None = None
    node: str | None = None
    mode: str | None = None

    def is_active(self, now: datetime) -> bool:
        """Return whether the silence holds pages at a time."""
        return self.since <= now < self.until

    def matches(self, subject: Subject) -> bool:
        """Return whether a page about `subject` is held while the silence is active."""
        values = ((self.group, subject.group), (self.node, subject.node), (self.mode, subject.mode))
        given = [(pattern, value) for pattern, value in values if pattern is not None]
        if not all(value is not None and fnmatchcase(value, pattern) for pattern, value in given):
            return False
        return self.rack is None or any(fnmatchcase(name, self.rack) for name in subject.domains)

    @property
    def matchers(self) -> dict[str, str]:
        """Return the matchers that are given, by name."""
        named = {"group": self.group, "rack": self.rack, "node": self.node, "mode": self.mode}
        return {name: pattern for name, pattern in named.items() if pattern is not None}

    @property
    def scope(self) -> str:
        """Return the matchers as text: `node gpu-7, mode gpu.lost`, or `the whole cluster`."""
        return ", ".join(f"{name} {pattern}" for name, pattern in self.matchers.items()) or "the whole cluster"
