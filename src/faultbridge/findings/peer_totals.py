"""Peer totals: adds up the error counters that a detector compares, for each node in service.

The counters come from the last counter samples that the table stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Component
from faultbridge.domain.findings import Baseline, Detector
from faultbridge.domain.nodes import NodeState
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.counter_samples import STORED_AGAIN_AFTER, SampleSet, read_samples

STALE = timedelta(minutes=30)
"""Counters that no source reported for this time are not compared."""


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a detector's counters on one node.

    - `group` names the node's group and instance type. The other nodes with an equal `group` are the node's peers.
    - `now` has the sum, the time of the report, and the sum of each port or device by key (`now.parts`).
    - `components` maps each key of `now.parts` to the component.
    """

    node: str
    group: str
    detector: str
    now: Baseline
    components: Mapping[str, Component] = field(default_factory=dict)


def read_totals(
    table: Table, states: Iterable[NodeState], detectors: Iterable[Detector], now: datetime
) -> Iterator[Total]:
    """Yield the counter sums of the nodes in service, for each detector.

    A node is left out for a detector if the table stores none of the detector's counters for the current instance of
    the node, or if these counters were reported too long ago.
    """
    serving = [state for state in states if state.status is not None and state.status.in_service and state.incarnation]
    by_source: dict[str, list[Detector]] = {}
    for detector in detectors:
        by_source.setdefault(detector.source, []).append(detector)
    for source, own in by_source.items():
        found = table.get_many(keys.counter_samples(state.key, source) for state in serving)
        for state in serving:
            row = found.get(keys.counter_samples(state.key, source))
            if row is not None:
                yield from _totals(state, read_samples(row), own, now)


def _totals(state: NodeState, samples: SampleSet, detectors: Iterable[Detector], now: datetime) -> Iterator[Total]:
    incarnation, placement, at = state.incarnation, state.placement, _reported_at(samples, now)
    if incarnation is None or samples.instance != incarnation.instance or at is None:
        return
    group = f"{placement.group or ''}/{placement.instance_type or ''}"
    for detector in detectors:
        parts: dict[str, int] = {}
        for key, port in samples.ports.items():
            counters = (port.values.get(name) for name in detector.counters)
            counted = [value for value in counters if isinstance(value, int)]
            if counted:
                parts[key] = sum(counted)
        if parts:
            baseline = Baseline(at, f"{samples.instance}/{samples.boot}", sum(parts.values()), parts=parts)
            components = {key: samples.ports[key].component for key in parts}
            yield Total(state.key.node, group, detector.name, baseline, components)


def _reported_at(samples: SampleSet, now: datetime) -> datetime | None:
    """Return when a node's counter samples were last reported, or None if that is too long ago.

    Samples without a digest (a hash of their values) are too old 30 minutes after they were stored. Samples with a
    digest are stored again only every two hours while their values stay the same. They therefore count as reported now
    if they were stored 30 minutes to two and a half hours ago.
    """
    age = now - samples.at
    if age < STALE:
        return samples.at
    return now if samples.digest is not None and age < STORED_AGAIN_AFTER + STALE else None
