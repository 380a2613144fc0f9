"""The conditions (active faults) of one node while new observations are applied to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import takewhile

from faultbridge.decide.fold import attribution, capacity, daily_notes
from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind
from faultbridge.decide.fold.condition_updates import (
    absent_reporters,
    absorb_unspecific,
    add_report,
    changed_parts,
    identified,
    is_known,
    merge_conditions,
    new_condition,
    note_code,
    reporter_of,
)
from faultbridge.decide.fold.rating import rated
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.normalize.trust import is_claim
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import (
    Condition,
    Tombstone,
    condition_key,
    identity,
    parse_component,
)
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace

MAX_SNAPSHOTS = 64


class NodeConditions:
    """The conditions of one node; `interrupted` if a snapshot must be applied again after the commit."""

    def __init__(self, state: NodeState, catalog: Catalog, changed: int = 0) -> None:
        """Copy the node's conditions and report times. The commit already contains `changed` changes."""
        self._state = state
        self._catalog = catalog
        self.active = dict(state.conditions)
        self.changes: list[Change] = []
        self.interrupted = False
        self._weight, self._weighed = changed, 0
        self._tombstones = dict(state.tombstones)
        self._snapshots = dict(state.snapshots)
        self._noted = dict(state.noted)
        self._floor, self._evicted = state.floor, dict(state.evicted)
        self._instance = state.incarnation.instance if state.incarnation else 0
        self.devices = state.devices
        self._sizes: capacity.KnownSizes = {}

    def state(self) -> NodeState:
        """Return the node's state with all changes applied."""
        version = self._catalog.version if self.active or self._tombstones else ""
        return replace(
            self._state,
            catalog=version or self._state.catalog,
            conditions=self.active,
            tombstones=self._tombstones,
            snapshots=self._snapshots,
            noted=self._noted,
            floor=self._floor,
            evicted=self._evicted,
            devices=self.devices,
        )

    @property
    def is_full(self) -> bool:
        """Return whether the commit has reached its limit and takes no further observation."""
        added = self.changes[self._weighed :]
        self._weighed += len(added)
        self._weight += capacity.weight(added)
        return self._weight >= capacity.MAX_CHANGES

    def apply_fault(self, fault: Fault, arrival: Arrival) -> Outcome:
        """Record a fault as a note or condition, or as a report of an active condition, unless it is stale or known."""
        fault = self._catalog.classify(fault)
        component = identity(fault.component, self.devices)
        row = self._catalog.row_of(fault)
        mode = self._catalog.modes.get(row.mode)
        says_nothing = mode is not None and mode.needs_job and not self._state.jobs
        if fault.severity is Severity.INFO or says_nothing:
            note_key = condition_key(fault.code, component)
            return self.note(ChangeKind.NOTED, daily_notes.INFORMATION, note_key, fault, arrival)
        key = condition_key(row.mode, component)
        if key in self.active:
            return self._repeat(key, fault, arrival)
        fault = replace(fault, component=component)
        specific_key = attribution.specific_condition(key, fault, arrival.at, self.active, self._catalog)
        if specific_key is not None and (arrival.claimed or not self.active[specific_key].claimed):
            return self._repeat(specific_key, fault, arrival, unspecific_key=key)
        unnamed = attribution.unnamed_condition(fault, key.partition("@")[0], arrival.at, self.active)
        proves_no_claim = unnamed is None or self.active[unnamed].claimed or not arrival.claimed
        if unnamed is not None and key not in self._tombstones and proves_no_claim:
            return self._repeat(unnamed, fault, arrival, names=component)
        return self._apply_new(key, fault, arrival)

    def _apply_new(self, key: str, fault: Fault, arrival: Arrival) -> Outcome:
        if attribution.has_tombstone_after(key, fault, arrival.at, self._tombstones, self._catalog):
            tombstone = self._tombstones.get(key)
            return (
                Outcome.STALE
                if tombstone is None
                else self._ended_before(fault, tombstone.reporters, arrival, tombstone.instance)
            )
        evicted = None if key in self._tombstones else attribution.last_evicted(fault, self._evicted, self._catalog)
        if any(limit is not None and arrival.at <= limit for limit in (self._floor, evicted)):
            note_key = condition_key(fault.code, fault.component)
            return self.note(ChangeKind.LATE, daily_notes.LATE, note_key, fault, arrival, attribution.NOTED_BECAUSE)
        if len(self.active) >= capacity.MAX_CONDITIONS and fault.code != capacity.OVERFLOW:
            return self._overflow(key, fault, arrival)
        self._begin(key, fault, arrival)
        return Outcome.RECORDED

    def _ended_before(self, fault: Fault, reporters: Iterable[str], arrival: Arrival, instance: int = 0) -> Outcome:
        """Return that a fault from before the end of its condition is stale; note it if it was not seen before.

        It was not if its code was not reported, or if the condition was one of an earlier instance: an instance reports
        its faults also before it backs the node.
        """
        is_own = instance in {0, self._instance} or arrival.incarnation is not IncarnationMatch.CURRENT
        if is_own and attribution.is_reported_code(fault.code, reporters):
            return Outcome.STALE
        key = condition_key(fault.code, identity(fault.component, self.devices))
        reason = attribution.NEW_CODE if is_own else attribution.OTHER_INSTANCE
        return self.note(ChangeKind.LATE, daily_notes.LATE, key, fault, arrival, reason)

    def apply_clear(self, clear: Clear, arrival: Arrival) -> Outcome:
        """End what a source reported under the code of a clear. The condition ends if nothing else reports it.

        A clear that is not later than the report changes nothing. Text of syslog ends only a claimed report.
        """
        component = identity(clear.component, self.devices)
        found = attribution.reports_on(clear.source, clear.code, component, self.active)
        outcomes = [
            self._withdraw(key, found[key], arrival, clear.message, claimed=is_claim(clear)) for key in sorted(found)
        ]
        return max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.CLEAN)

    def apply_snapshot(self, snapshot: Snapshot, arrival: Arrival) -> Outcome:
        """Apply the faults of a health snapshot.

        A report by the source of the snapshot ends if the snapshot checked for its code and did not find it. A snapshot
        that is not later than the last snapshot of its reporter changes nothing.
        """
        last = self._snapshots.get(snapshot.reporter_key)
        if last is not None and arrival.at <= last:
            return Outcome.DUPLICATE if arrival.at == last else Outcome.STALE
        if snapshot.devices:
            self._update_devices(snapshot, arrival)
        present = takewhile(lambda _: not self.interrupt(), snapshot.present)
        outcomes = [self.apply_fault(fault, replace(arrival, observation=fault)) for fault in present]
        absent = absent_reporters(snapshot, self.active, self._catalog, self.devices)
        outcomes += [
            self._withdraw(key, absent[key], arrival, "no longer present")
            for key in takewhile(lambda _: not self.interrupt(), sorted(absent))
        ]
        if not self.interrupted:
            self._snapshots[snapshot.reporter_key] = arrival.at
            while len(self._snapshots) > MAX_SNAPSHOTS:
                del self._snapshots[min(self._snapshots, key=self._snapshots.__getitem__)]
        return max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.CLEAN)

    def end(self, key: str, condition: Condition, at: datetime, reason: str, record_id: str | None = None) -> None:
        """End a condition, keep its report times as a tombstone, and remove tombstones above the limit."""
        del self.active[key]
        self._tombstones[key] = attribution.tombstone_of(condition, at, self._instance)
        self._floor = capacity.evict_tombstones(self._tombstones, self._evicted, self._floor)
        self.changes.append(Change(ChangeKind.ENDED, at, condition, None, record_id, reason))

    def first_of_the_day(self, key: str, at: datetime) -> bool:
        """Return whether the note with this key must be recorded; if so, store that it is recorded today."""
        return daily_notes.take_note(self._noted, key, at) is daily_notes.Note.FAULT

    def is_own_instance(self, instance_id: str | None) -> bool:
        """Return whether an instance backs or backed the node; None (unknown) also returns True."""
        current = self._state.incarnation
        return instance_id in (None, current.instance_id if current else None, *self._state.former_instances)

    def note(self, kind: ChangeKind, group: str, key: str, fault: Fault, arrival: Arrival, reason: str = "") -> Outcome:
        """Record a fault as a note, once a day; return FOLDED if only a summary or nothing was recorded."""
        note = daily_notes.take_note(self._noted, group + key, arrival.at)
        if note is not daily_notes.Note.NOTHING:
            self.changes.append(daily_notes.note_change(note, kind, group, fault, arrival, reason))
        return Outcome.RECORDED if note is daily_notes.Note.FAULT else Outcome.FOLDED

    def _begin(self, key: str, fault: Fault, arrival: Arrival) -> None:
        ended = self._tombstones.pop(key, None)
        if ended is not None and self._floor is not None and attribution.last_time(ended) <= self._floor:
            ended = None  # a condition of an earlier instance
        condition = new_condition(self._catalog, fault, arrival, ended)
        for unspecific_key in attribution.unspecific_conditions(condition, self.active, self._catalog):
            unspecific = self.active[unspecific_key]
            if condition.claimed and not unspecific.claimed:
                continue  # a proven report would prove the claim
            condition = absorb_unspecific(condition, unspecific, unspecific_key, self._catalog)
            self.end(unspecific_key, unspecific, arrival.at, f"now reported as {key}", arrival.record_id)
        self.active[key] = condition
        self.changes.append(Change(ChangeKind.BEGAN, arrival.at, condition, fault, arrival.record_id))
        self._limit_bytes(fault, arrival)

    def _repeat(
        self,
        key: str,
        fault: Fault,
        arrival: Arrival,
        unspecific_key: str | None = None,
        names: Component | None = None,
    ) -> Outcome:
        """Add a report to a condition; `names` is the device that the report is the first to name."""
        before = self.active[key]
        if is_known(before, reporter_of(fault, self._catalog), fault, arrival):
            return Outcome.DUPLICATE
        if before.ended_before is not None and arrival.at <= before.ended_before:
            return self._ended_before(fault, before.reporters, arrival)
        named = before if names is None else identified(before, key, names)
        condition = note_code(before, add_report(named, self._catalog, fault, arrival, unspecific_key), arrival.at)
        if names is not None:
            del self.active[key]
        self.active[condition.key] = condition
        changed = changed_parts(before, condition)
        if not changed:
            return Outcome.FOLDED
        self.changes.append(
            Change(ChangeKind.UPDATED, arrival.at, condition, fault, arrival.record_id, changed_parts=changed)
        )
        self._limit_bytes(fault, arrival)
        return Outcome.RECORDED

    def _overflow(self, key: str, fault: Fault, arrival: Arrival) -> Outcome:
        """Replace the mildest condition by a more severe fault, if the node is full, and report the overflow."""
        mildest = capacity.mildest_condition(self.active)
        if (fault.severity or Severity.INFO).rank > self.active[mildest].severity.rank:
            self.end(mildest, self.active[mildest], arrival.at, f"evicted for {fault.code}", arrival.record_id)
            self._begin(key, fault, arrival)
        return self._report_overflow(fault, arrival)

    def _report_overflow(self, fault: Fault, arrival: Arrival) -> Outcome:
        full = Fault(fault.source, capacity.OVERFLOW, NODE_COMPONENT, "more conditions than a node can hold")
        return self.apply_fault(replace(full, evidence=fault.evidence), arrival)

    def _limit_bytes(self, fault: Fault, arrival: Arrival) -> None:
        evicted = capacity.oversized_conditions(self.active, self._sizes)
        for key in evicted:
            self.end(key, self.active[key], arrival.at, f"evicted for {fault.code}", arrival.record_id)
        if evicted:
            self._report_overflow(fault, arrival)

    def interrupt(self) -> bool:
        """Return whether the commit is full; if so, set `interrupted`, and the snapshot is applied again later."""
        self.interrupted = self.interrupted or self.is_full
        return self.interrupted

    def _withdraw(
        self, key: str, reporters: Iterable[str], arrival: Arrival, reason: str, *, claimed: bool = False
    ) -> Outcome:
        """End these reporters of a condition; a `claimed` withdrawal ends only claimed ones."""
        condition = self.active.get(key)
        active = (
            {one: condition.reporters[one] for one in reporters if condition.reporters[one].active} if condition else {}
        )
        if condition is None or not active:
            return Outcome.CLEAN
        ended = {
            name: replace(one, active=False, last_at=arrival.at, digests=())
            for name, one in active.items()
            if arrival.at > one.last_at and (one.claimed or not claimed)
        }
        if not ended:
            return Outcome.STALE
        remaining = replace(condition, reporters={**condition.reporters, **ended})
        if not remaining.active:
            self.end(key, remaining, arrival.at, reason, arrival.record_id)
            return Outcome.RECORDED
        remaining = self.active[key] = rated(remaining, self._catalog)
        changed = changed_parts(condition, remaining)
        if not changed:
            return Outcome.FOLDED
        self.changes.append(Change(ChangeKind.UPDATED, arrival.at, remaining, None, arrival.record_id, reason, changed))
        return Outcome.RECORDED

    def _update_devices(self, snapshot: Snapshot, arrival: Arrival) -> None:
        if snapshot.devices == self.devices:
            return
        for change in rename_conditions(self.active, snapshot.devices, arrival, self._catalog):
            self.changes.append(change)
            if self.interrupt():
                return
        self.devices = snapshot.devices
        self._tombstones = rename_tombstones(self._tombstones, self.devices)
        self._noted = rename_notes(self._noted, self.devices)


def rename_key(key: str, devices: Iterable[Component]) -> str:
    """Return a condition key with the current name of its device; other keys are returned unchanged."""
    mode, separator, name = key.partition("@")
    component = parse_component(name) if separator else None
    return key if component is None else condition_key(mode, identity(component, devices))


# A GPU can first be known by its index and later by its PCI address. Its conditions, tombstones and notes are stored
# under its name. Without a renaming, a repeated record of an ended fault would open a new condition.


def rename_tombstones(tombstones: Mapping[str, Tombstone], devices: Iterable[Component]) -> dict[str, Tombstone]:
    """Return tombstones under the current names of their devices; of two, the later times are kept."""
    devices = tuple(devices)
    renamed: dict[str, Tombstone] = {}
    for key, tombstone in tombstones.items():
        new_key = rename_key(key, devices)
        renamed[new_key] = merge_tombstones(renamed[new_key], tombstone) if new_key in renamed else tombstone
    return renamed


def rename_notes(noted: Mapping[str, str], devices: Iterable[Component]) -> dict[str, str]:
    """Return the day of each note under the current names of devices; of two, the later day is kept."""
    devices = tuple(devices)
    renamed: dict[str, str] = {}
    for key, day in noted.items():
        new_key = rename_key(key, devices)
        renamed[new_key] = max(day, renamed.get(new_key, day))
    return renamed


def rename_conditions(
    conditions: dict[str, Condition], devices: Iterable[Component], arrival: Arrival, catalog: Catalog
) -> Iterator[Change]:
    """Give conditions the current names of their devices, merge equal ones, and yield the changes."""
    devices = tuple(devices)
    for key in tuple(conditions):
        before = conditions[key]
        condition = rename_reports(before, devices)
        new_key = condition.key
        if new_key == key:
            conditions[key] = condition if condition.reporters != before.reporters else before
            continue
        del conditions[key]
        other = conditions.get(new_key)
        merged = conditions[new_key] = condition if other is None else merge_conditions(other, condition, catalog)
        yield Change(
            ChangeKind.UPDATED,
            arrival.at,
            merged,
            None,
            arrival.record_id,
            "device identified",
            changed_parts=("component",),
        )


def rename_reports(condition: Condition, devices: Iterable[Component]) -> Condition:
    """Return a condition with the current device name in its component and in its reporters' keys."""
    devices = tuple(devices)
    reporters = {
        source: replace(reporter, unspecific_key=rename_key(reporter.unspecific_key, devices))
        if reporter.unspecific_key
        else reporter
        for source, reporter in condition.reporters.items()
    }
    return replace(condition, component=identity(condition.component, devices), reporters=reporters)


def merge_tombstones(first: Tombstone, second: Tombstone) -> Tombstone:
    """Return one tombstone with the later times of both."""
    times = [first.reporters, second.reporters]
    sources = {source for reporters in times for source in reporters}
    return Tombstone(
        ended_at=max(first.ended_at, second.ended_at),
        reporters={source: max(each[source] for each in times if source in each) for source in sorted(sources)},
        instance=max(first.instance, second.instance),
    )
