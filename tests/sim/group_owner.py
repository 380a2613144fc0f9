"""The owner of the `REPAIRED` cluster's group: its updates, and when inventory runs read them.

The module also records when Faultbridge was wrong about whether the provider repairs nodes itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.model.cluster.config import GroupUpdate
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import truncate
from tests.sim.fakes import FakeInventory

UPDATE_DEADLINE, UPDATE_GRACE = timedelta(hours=6), timedelta(minutes=15)
"""How long repairs wait for an update at most, and how long after its end, in every policy of the simulation."""


@dataclass(slots=True)
class ObservedUpdate:
    """One update of the group: it started at `begun` and ended at `ended` (None while it runs).

    `seen` is the time when an inventory run first read the update, or None. `end_seen` is the time when an inventory
    run first read that the update has ended, or None.
    """

    begun: datetime
    seen: datetime | None = None
    ended: datetime | None = None
    end_seen: datetime | None = None

    def holds(self, at: datetime, *, after: timedelta = timedelta()) -> bool:
        """Return whether repairs must wait for the update at the time `at`.

        Repairs wait from the time `seen` until 15 minutes after the end of the update, but at most until 6 hours after
        its start. `after` delays the start of the wait, because a function that read the registration before `seen` may
        still act on it for some minutes. If no inventory run has read the update, repairs do not wait.
        """
        if self.seen is None:
            return False
        end = truncate(self.begun) + UPDATE_DEADLINE  # to the precision of recorded times
        return self.seen + after < at < (end if self.ended is None else min(end, self.ended + UPDATE_GRACE))

    @property
    def end_seen_too_late(self) -> bool:
        """Return whether inventory runs read the end of the update too late, or never.

        It is too late more than 6 hours after the grace period of the update. A node whose instance the update replaced
        may then stay without an instance until an operator retires the node. The result is False while the update runs.
        """
        if self.ended is None:
            return False
        return self.end_seen is None or self.end_seen > self.ended + UPDATE_GRACE + UPDATE_DEADLINE


@dataclass(slots=True)
class GroupOwner:
    """Updates one group in the fake inventory, and records what inventory runs have read about the group.

    `unnamed` lists errors of the product: one text for each inventory run after which the stored state of the cluster
    was wrong about whether the provider repairs nodes itself.
    """

    inventory: FakeInventory
    group: str
    updates: list[ObservedUpdate] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)

    @property
    def is_updating(self) -> bool:
        """Return whether an update runs now."""
        return self.group in self.inventory.updates

    @property
    def rival_repairs(self) -> bool:
        """Return whether the provider repairs nodes itself now."""
        return bool(self.inventory.provider_repairs)

    def begin_update(self, text: str, now: datetime, since: datetime | None) -> None:
        """Start an update named `text`; `since` is the start that the provider reports, or None.

        If `since` is None, and inventory runs have read the previous update but not its end, Faultbridge cannot
        distinguish the two updates. For the invariants, the new update then starts when the previous update started.
        This is also true if only an interrupted inventory run read the previous update.
        """
        self.inventory.updates[self.group] = GroupUpdate(text, since)
        last = self.updates[-1] if self.updates and since is None else None
        was_read = last is not None and (last.seen is not None or self.group in self.inventory.reported_updates)
        unnoticed = was_read and last is not None and last.end_seen is None
        self.updates.append(ObservedUpdate(self.updates[-1].begun if unnoticed else now))

    def end_update(self, now: datetime) -> None:
        """End the running update of the group."""
        del self.inventory.updates[self.group]
        self.updates[-1].ended = now

    def was_read(self, now: datetime, cluster: Item) -> None:
        """Record what a complete inventory run has read, for the invariants about the group.

        `cluster` is the table item with the cluster's state after the run.
        """
        named = "rival_repair" in str(cluster.get("state"))
        if named != self.rival_repairs:
            self.unnamed.append(f"{now:%d %H:%M:%S}: a rival is {'named' if named else 'not named'}")
        if self.is_updating and self.updates[-1].seen is None:
            self.updates[-1].seen = now
        if self.updates and not self.is_updating:
            self.updates[-1].end_seen = self.updates[-1].end_seen or now
            self.inventory.reported_updates.discard(self.group)

    def reported(self, now: datetime) -> tuple[object, ...]:
        """Return the values that an inventory run reads about the group; a changed value requires a new run.

        The values are: whether an update runs, whether the update is past its deadline, the instances in standby, and
        whether the provider repairs nodes itself.
        """
        overdue = self.is_updating and now >= self.updates[-1].begun + UPDATE_DEADLINE
        return self.is_updating, overdue, tuple(sorted(self.inventory.standby)), self.inventory.provider_repairs

    def quiet_until(self) -> datetime | None:
        """Return when the last update stops delaying repairs: 15 minutes after the end of the update.

        Returns None if the last update still runs, or if there was no update. A simulated run is not idle before this
        time.
        """
        last = self.updates[-1] if self.updates else None
        return None if last is None or last.ended is None else last.ended + UPDATE_GRACE
