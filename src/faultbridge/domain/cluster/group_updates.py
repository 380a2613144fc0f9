"""Group updates: a group whose owner replaces or reboots its nodes, and how long repairs wait."""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """A running update of one group of instances, as the provider reports it.

    `text` describes the update. `since` is when the update started, or None if that time is unknown.
    """

    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class UpdateHold:
    """A pause of the repairs of a group while its owner updates it, until `until` at the latest.

    `since` is when the update started. After the update ends, `running` is False and `until` is the end of the grace
    period. An ended hold delays no repair, even while it is still stored.
    """

    group: str
    since: datetime
    until: datetime
    running: bool = True
