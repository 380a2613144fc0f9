"""Peer totals: the counters of each serving node that a detector adds up, from the stored counter samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.findings import Baseline, Detector
from faultbridge.domain.nodes import NodeState
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.counter_samples import STORED_AGAIN_AFTER, SampleSet, read_samples

STALE = timedelta(minutes=30)
"""Counters that no source reported for this time are not compared."""


@dataclass(frozen=True, slots=True)
class Total:
    """The total of one detector on one node now, and the group of nodes that it is compared with."""

    node: str
    group: str
    detector: str
    now: Baseline


def read_totals(
    table: Table, states: Iterable[NodeState], detectors: Iterable[Detector], now: datetime
) -> Iterator[Total]:
    """Yield the totals of nodes in service whose source reported the counters of a detector lately."""
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
        counters = (port.values.get(name) for port in samples.ports.values() for name in detector.counters)
        counted = [value for value in counters if isinstance(value, int)]
        if counted:
            baseline = Baseline(at, f"{samples.instance}/{samples.boot}", sum(counted))
            yield Total(state.key.node, group, detector.name, baseline)


def _reported_at(samples: SampleSet, now: datetime) -> datetime | None:
    """Return when samples were reported last; None if that is too long ago.

    Samples with a digest are not stored again while their values stay the same, so they count as reported now for
    longer.
    """
    age = now - samples.at
    if age < STALE:
        return samples.at
    return now if samples.digest is not None and age < STORED_AGAIN_AFTER + STALE else None
