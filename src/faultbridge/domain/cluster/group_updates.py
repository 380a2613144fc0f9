"""Group updates: a group whose owner replaces or reboots its nodes on purpose, and how long repairs wait for that."""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """An update of a group that its provider reports now; `since` is when it started, None if that is unknown."""

    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class UpdateHold:
    """Lets the repairs of a group wait while the group is updated, at the latest until `until`.

    `since` is when the update started. After its end `running` is False, and `until` is the end of the grace period.
    """

    group: str
    since: datetime
    until: datetime
    running: bool = True
