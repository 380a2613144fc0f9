"""Lookups: reads of what seldom changes, kept by a warm worker for a short while.

An alias that is out of date does no harm: which incarnation an observation is about is decided by the node's state.
A registration or policy takes effect within seconds. That something is absent is kept only of the pointers to
a policy and a mapping.
What is asked for in the second half of its time is renewed with the next read of anything else, so that a worker with
enough to do makes no call for lookups alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.ports import Clock, Table
from faultbridge.storage import keys
from faultbridge.storage.writes import Item, Key

ALIAS_KEPT = timedelta(minutes=10)
OTHERS_KEPT = timedelta(seconds=15)
MOST_KEPT = 50_000
_POINTERS = frozenset({keys.CURRENT_POLICY, keys.CURRENT_MAPPING})
MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Lookups:
    """Remembers items by key: aliases for ten minutes at most, registrations and policies for fifteen seconds."""

    table: Table
    clock: Clock
    _kept: dict[Key, tuple[datetime, Item | None]] = field(default_factory=dict)
    _ageing: set[Key] = field(default_factory=set)

    def get(self, key: Key) -> Item | None:
        """Read one item."""
        return self.get_many((key,)).get(key)

    def get_many(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Read items, those that are not remembered in one call."""
        now = self.clock.now()
        wanted = list(dict.fromkeys(wanted))
        asked = [key for key in wanted if key not in self._kept or self._kept[key][0] <= now]
        found = self.table.get_many(asked) if asked else {}
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()
        for key in asked:
            self._keep(key, found.get(key), now)
        remembered = {key: self._kept[key] for key in wanted if key in self._kept}
        self._ageing.update(key for key, (until, _) in remembered.items() if until - now <= _kept_for(key) / 2)
        return {key: item for key, (_, item) in remembered.items() if item is not None}

    def read(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Read items as they are stored now; with the same call renews what it remembers and will soon forget."""
        wanted, now = list(dict.fromkeys(wanted)), self.clock.now()
        room = max(0, MOST_AT_ONCE - len(wanted))
        renewed = sorted(self._ageing.difference(wanted))[:room]
        found = self.table.get_many([*wanted, *renewed])
        self._ageing.clear()
        for key in renewed:
            self._keep(key, found.get(key), now)
        return found

    def _keep(self, key: Key, item: Item | None, now: datetime) -> None:
        self._kept.pop(key, None)
        if item is not None or key in _POINTERS:
            self._kept[key] = (now + _kept_for(key), item)


def _kept_for(key: Key) -> timedelta:
    return ALIAS_KEPT if keys.is_alias(key) else OTHERS_KEPT
