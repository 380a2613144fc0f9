"""Readings: the last counters of each port, kept so that the next ones can be compared with them.

A reading that causes a fault is written with it; one that does not is written alone, and not each time: counters
compare as well with those of five minutes ago. A new generation or boot begins its counters anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain.conditions import component_key
from faultbridge.domain.faults import Component, CounterSample
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.compare import compare
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump, load
from faultbridge.storage.writes import Absent, AnyOf, Below, Item, Key, Put

KEPT_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Last:
    """The last reading of one port."""

    at: datetime
    component: Component
    values: Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The last readings of one source on one node, by component, of one generation and boot."""

    at: datetime
    instance: int
    boot: int
    ports: Mapping[str, Last]


@dataclass(frozen=True, slots=True)
class Compared:
    """The faults that readings showed, and what to keep: with a fault at once, without one when it is time."""

    faults: tuple[Arrival, ...] = ()
    with_faults: tuple[Put, ...] = ()
    alone: tuple[Put, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterStore:
    """Compares readings with the ones before them."""

    table: Table

    def compare(self, state: NodeState, arrivals: Iterable[Arrival], now: datetime) -> Compared:
        """Compare the readings among arrivals, oldest first; one older than what is kept is no news."""
        by_source: dict[str, list[Arrival]] = {}
        for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
            if isinstance(arrival.observation, CounterSample):
                by_source.setdefault(arrival.observation.source, []).append(arrival)
        if not by_source:
            return Compared()
        found = self.table.get_many(keys.counter_samples(state.key, source) for source in by_source)
        parts = [
            _compare_source(keys.counter_samples(state.key, source), state, came, found, now)
            for source, came in by_source.items()
        ]
        return Compared(
            faults=tuple(fault for part in parts for fault in part.faults),
            with_faults=tuple(put for part in parts for put in part.with_faults),
            alone=tuple(put for part in parts for put in part.alone),
        )

    def keep(self, compared: Compared) -> None:
        """Write the readings that caused nothing; a newer one that is there already stays."""
        for put in compared.alone:
            try:
                self.table.write(put)
            except Conflict:
                continue


def _compare_source(
    key: Key, state: NodeState, arrivals: Sequence[Arrival], found: Mapping[Key, Item], now: datetime
) -> Compared:
    kept = found.get(key)
    sheet = _sheet(kept, state)
    ports = dict(sheet.ports) if sheet else {}
    faults: list[Arrival] = []
    for arrival in arrivals:
        sample = arrival.observation
        if not isinstance(sample, CounterSample):
            continue
        name = component_key(sample.component)
        last = ports.get(name)
        if last is not None and arrival.at <= last.at:
            continue
        if last is not None:
            before = replace(sample, values=last.values, observed_at=last.at)
            faults += (replace(arrival, observation=fault) for fault in compare(before, sample))
        ports[name] = Last(arrival.at, sample.component, sample.values)
    at = max((port.at for port in ports.values()), default=now)
    if sheet is not None and at <= sheet.at:
        return Compared()
    put = _put(key, state, at, ports, now)
    if faults:
        return Compared(tuple(faults), with_faults=(put,))
    if sheet is not None and at - sheet.at < KEPT_EVERY:
        return Compared()
    return Compared(alone=(put,))


def _sheet(kept: Item | None, state: NodeState) -> Sheet | None:
    if kept is None:
        return None
    stored = kept["sheet"]
    sheet = load(Sheet, stored) if isinstance(stored, dict) else None
    return sheet if sheet is not None and (sheet.instance, sheet.boot) == _generation(state) else None


def _put(key: Key, state: NodeState, at: datetime, ports: Mapping[str, Last], now: datetime) -> Put:
    instance, boot = _generation(state)
    made = items.item(key, now, {"at": to_text(at), "sheet": dump(Sheet(at, instance, boot, ports))})
    return Put(made, when=AnyOf((Absent(), Below("at", to_text(at)))))


def _generation(state: NodeState) -> tuple[int, int]:
    sitting = state.incarnation
    return (sitting.instance, sitting.boot) if sitting else (0, 0)
