"""One node's conditions while a batch is being folded into them: the watermark rules, one method an observation."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.conditions import Condition, Reporter, Tombstone, condition_key, identity
from faultbridge.domain.faults import NODE_COMPONENT, Clear, Fault, Severity, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.fold.changes import Arrival, Change, ChangeKind
from faultbridge.pipeline.fold.joining import begun, counted, difference, given_name, merge, repeated
from faultbridge.pipeline.normalize import attribution

MAX_CONDITIONS = 64
MAX_TOMBSTONES = 128
MAX_NOTED = 64
MAX_SURVEYS = 64
OVERFLOW = "host.condition_overflow"


class Folding:
    """A node's conditions, open for change; `state()` gives the node as it is after the changes."""

    def __init__(self, state: NodeState, catalog: Catalog) -> None:
        """Begin with what the node already knows."""
        self._state = state
        self._catalog = catalog
        self.conditions = dict(state.conditions)
        self.changes: list[Change] = []
        self._tombstones = dict(state.tombstones)
        self._snapshots = dict(state.snapshots)
        self._noted = dict(state.noted)
        self._floor = state.floor
        self._devices = state.devices

    def state(self) -> NodeState:
        """Return the node with all changes made."""
        return replace(
            self._state,
            conditions=self.conditions,
            tombstones=self._tombstones,
            snapshots=self._snapshots,
            noted=self._noted,
            floor=self._floor,
            devices=self._devices,
        )

    def fault(self, fault: Fault, arrival: Arrival) -> Outcome:
        """Let one fault begin, repeat or widen a condition."""
        fault = self._catalog.classify(fault)
        component = identity(fault.component, self._devices)
        key = condition_key(self._catalog.canonical(fault.code), component)
        if fault.severity is Severity.INFO:
            return self._note(key, fault, arrival)
        if key in self.conditions:
            return self._repeat(key, fault, arrival)
        fault = replace(fault, component=component)
        named = attribution.named(key, fault, arrival.at, self.conditions, self._catalog)
        if named is not None:
            return self._repeat(named, fault, arrival, word=key)
        if self._past(key, fault, arrival.at):
            return Outcome.STALE
        if len(self.conditions) >= MAX_CONDITIONS and fault.code != OVERFLOW:
            return self._overflow(key, fault, arrival)
        self._begin(key, fault, arrival)
        return Outcome.RECORDED

    def clear(self, clear: Clear, arrival: Arrival) -> Outcome:
        """Let one source withdraw its word about one condition."""
        component = identity(clear.component, self._devices)
        key = condition_key(self._catalog.canonical(clear.code), component)
        key = attribution.withdrawn(key, clear.source, self.conditions)
        return self._withdraw(key, clear.source, arrival.at, clear.message, arrival.record_id)

    def snapshot(self, snapshot: Snapshot, arrival: Arrival) -> Outcome:
        """Let one full look assert what it saw and withdraw what it could have seen but did not."""
        last = self._snapshots.get(snapshot.looker)
        if last is not None and arrival.at <= last:
            return Outcome.DUPLICATE if arrival.at == last else Outcome.STALE
        self._snapshots[snapshot.looker] = arrival.at
        while len(self._snapshots) > MAX_SURVEYS:
            del self._snapshots[min(self._snapshots, key=lambda one: self._snapshots[one])]
        if snapshot.devices:
            self._learn_devices(snapshot, arrival)
        outcomes = [self.fault(fault, replace(arrival, observation=fault)) for fault in snapshot.present]
        asserted = {
            condition.reporters[snapshot.source].word or key: key
            for key, condition in self.conditions.items()
            if snapshot.source in condition.reporters
        }
        # Most looks find nothing that their source had found before: then there is nothing to compare.
        outcomes += [
            self._withdraw(asserted[word], snapshot.source, arrival.at, "no longer present", arrival.record_id)
            for word in sorted(asserted and asserted.keys() & self._covered(snapshot) - self._present(snapshot))
        ]
        return max(outcomes, key=lambda one: one.rank, default=Outcome.CLEAN)

    def end(self, key: str, condition: Condition, at: datetime, reason: str, record_id: str | None = None) -> None:
        """End a condition and remember until when its reporters are counted."""
        del self.conditions[key]
        times = {source: reporter.last_at for source, reporter in condition.reporters.items()}
        self._tombstones[key] = Tombstone(ended_at=at, reporters=times)
        while len(self._tombstones) > MAX_TOMBSTONES:
            oldest = min(self._tombstones, key=lambda one: self._tombstones[one].ended_at)
            ended = self._tombstones.pop(oldest).ended_at
            self._floor = ended if self._floor is None else max(self._floor, ended)
        self.changes.append(Change(ChangeKind.ENDED, at, condition, None, record_id, reason))

    def first_of_the_day(self, key: str, at: datetime) -> bool:
        """Tell whether a thing is seen for the first time on its day, and remember that it was."""
        day = at.date().isoformat()
        if self._noted.get(key, "") >= day:
            return False
        self._noted[key] = day
        while len(self._noted) > MAX_NOTED:
            del self._noted[min(self._noted, key=lambda one: self._noted[one])]
        return True

    def _past(self, key: str, fault: Fault, at: datetime) -> bool:
        tombstone = self._tombstones.get(key)
        if tombstone is not None:
            return at <= max(tombstone.ended_at, tombstone.reporters.get(fault.source, tombstone.ended_at))
        if attribution.settled(fault, at, self._tombstones, self._catalog):
            return True
        return self._floor is not None and at <= self._floor

    def _begin(self, key: str, fault: Fault, arrival: Arrival) -> None:
        code = self._catalog.canonical(fault.code)
        condition = begun(code, self._catalog.row(code), fault, arrival, self._tombstones.pop(key, None))
        for word in attribution.vague(condition, self.conditions, self._catalog):
            condition = given_name(condition, self.conditions[word], word)
            self.end(word, self.conditions[word], arrival.at, f"it is {key}", arrival.record_id)
        self.conditions[key] = condition
        self.changes.append(Change(ChangeKind.BEGAN, arrival.at, condition, fault, arrival.record_id))

    def _repeat(self, key: str, fault: Fault, arrival: Arrival, word: str | None = None) -> Outcome:
        known = self.conditions[key]
        reporter = known.reporters.get(fault.source)
        if reporter is not None and (arrival.at < reporter.last_at or counted(reporter, fault, arrival.at)):
            return Outcome.DUPLICATE
        if known.ended_before is not None and arrival.at <= known.ended_before:
            return Outcome.STALE
        condition = self.conditions[key] = repeated(known, fault, arrival, word)
        what = difference(known, condition)
        if not what:
            return Outcome.FOLDED
        self.changes.append(Change(ChangeKind.UPDATED, arrival.at, condition, fault, arrival.record_id, what=what))
        return Outcome.RECORDED

    def _overflow(self, key: str, fault: Fault, arrival: Arrival) -> Outcome:
        """Let a worse fault take the place of the mildest condition; either way the node is known to be full."""
        others = {name: one for name, one in self.conditions.items() if one.code != OVERFLOW}
        mildest = min(others, key=lambda name: (others[name].severity.rank, others[name].last_at))
        severity = fault.severity or Severity.INFO
        if severity.rank > others[mildest].severity.rank:
            self.end(mildest, others[mildest], arrival.at, f"made room for {fault.code}", arrival.record_id)
            self._begin(key, fault, arrival)
        full = Fault(fault.source, OVERFLOW, NODE_COMPONENT, "more conditions than a node can hold")
        return self.fault(replace(full, evidence=fault.evidence), arrival)

    def _note(self, key: str, fault: Fault, arrival: Arrival) -> Outcome:
        if not self.first_of_the_day(key, arrival.at):
            return Outcome.FOLDED
        self.changes.append(Change(ChangeKind.NOTED, arrival.at, None, fault, arrival.record_id))
        return Outcome.RECORDED

    def _withdraw(self, key: str, source: str, at: datetime, reason: str, record_id: str) -> Outcome:
        condition = self.conditions.get(key)
        reporter = condition.reporters.get(source) if condition else None
        if condition is None or reporter is None or not reporter.active:
            return Outcome.CLEAN
        if at <= reporter.last_at:
            return Outcome.STALE
        quiet = replace(condition, reporters={**condition.reporters, source: Reporter(False, at)})
        if quiet.active:
            self.conditions[key] = quiet
            self.changes.append(Change(ChangeKind.UPDATED, at, quiet, None, record_id, reason, ("reporters",)))
        else:
            self.end(key, quiet, at, reason, record_id)
        return Outcome.RECORDED

    def _present(self, snapshot: Snapshot) -> set[str]:
        return {
            condition_key(self._catalog.canonical(fault.code), identity(fault.component, self._devices))
            for fault in snapshot.present
        }

    def _covered(self, snapshot: Snapshot) -> set[str]:
        return {
            condition_key(self._catalog.canonical(code), identity(component, self._devices))
            for code, components in snapshot.covers.items()
            for component in components
        }

    def _learn_devices(self, snapshot: Snapshot, arrival: Arrival) -> None:
        if snapshot.devices == self._devices:
            return
        self._devices = snapshot.devices
        for key, condition in tuple(self.conditions.items()):
            component = identity(condition.component, self._devices)
            renamed = condition_key(condition.code, component)
            if renamed != key:
                self._rename(key, renamed, replace(condition, component=component), arrival)

    def _rename(self, key: str, renamed: str, condition: Condition, arrival: Arrival) -> None:
        del self.conditions[key]
        other = self.conditions.get(renamed)
        merged = condition if other is None else merge(other, condition)
        self.conditions[renamed] = merged
        self.changes.append(
            Change(
                ChangeKind.UPDATED,
                arrival.at,
                merged,
                None,
                arrival.record_id,
                "device recognized",
                ("component",),
            )
        )
