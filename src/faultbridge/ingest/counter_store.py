"""Counter store: keeps the last counters of each component, to compare the next sample with them.

Samples that cause a fault are written with that fault. Other samples are written alone, at most every five minutes.
Counters of an earlier instance or boot are never compared. Counters of a component that was not reported for a day are
forgotten. Of the others, those that were reported last are kept, at most 150 KB for each source of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain.conditions import component_key
from faultbridge.domain.faults import NODE_COMPONENT, CounterSample, Fault
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Conflict
from faultbridge.log import log_cause
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.compare import compare
from faultbridge.pipeline.normalize.resolve import IncarnationMatch
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.counter_samples import LastSample, SampleSet, read_samples, samples_put
from faultbridge.storage.writes import Item, Key, Put

WRITE_INTERVAL = timedelta(minutes=5)
FORGET_AFTER = timedelta(days=1)
MAX_BYTES = 150_000
"""Limit of the samples in one item before compression; DynamoDB accepts 400 KB."""

_SAMPLE_BYTES, _VALUE_BYTES = 250, 24


@dataclass(frozen=True, slots=True)
class ComparedSamples:
    """Faults found by a comparison, and the samples to write.

    `with_faults` are written in the commit of the faults, and `alone` are written without a fault.
    """

    faults: tuple[Arrival, ...] = ()
    with_faults: tuple[Put, ...] = ()
    alone: tuple[Put, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterStore:
    """Compares counter samples with the stored ones."""

    table: Table

    def compare(self, state: NodeState, arrivals: Iterable[Arrival], now: datetime) -> ComparedSamples:
        """Compare the samples among arrivals, oldest first. Samples older than the stored ones are skipped."""
        by_source: dict[str, list[Arrival]] = {}
        for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
            # Counters of another instance would look like a rise of the node's own counters.
            if isinstance(arrival.observation, CounterSample) and arrival.incarnation is not IncarnationMatch.EARLIER:
                by_source.setdefault(arrival.observation.source, []).append(arrival)
        if not by_source:
            return ComparedSamples()
        found = self.table.get_many(keys.counter_samples(state.key, source) for source in by_source)
        results = [
            _compare_source(keys.counter_samples(state.key, source), state, samples, found, now)
            for source, samples in by_source.items()
        ]
        return ComparedSamples(
            faults=tuple(fault for result in results for fault in result.faults),
            with_faults=tuple(put for result in results for put in result.with_faults),
            alone=tuple(put for result in results for put in result.alone),
        )

    def write_alone(self, compared: ComparedSamples) -> None:
        """Write the samples that caused no fault. A newer stored sample stays."""
        for put in compared.alone:
            try:
                self.table.write(put)
            except Conflict as conflict:
                log_cause(
                    "counter_samples_not_stored", reason="newer_samples_stored", key=put.key.pk, error=str(conflict)
                )


def _compare_source(
    key: Key, state: NodeState, arrivals: Sequence[Arrival], found: Mapping[Key, Item], now: datetime
) -> ComparedSamples:
    """Compare the samples of one source with its stored samples."""
    stored = _read_samples(found.get(key), state)
    ports = dict(stored.ports) if stored else {}
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
        ports[name] = LastSample(arrival.at, sample.component, sample.values)
    ports = _without_old(ports)
    ports, excess = _fitting(ports)
    if excess:
        faults.append(_excess_fault(state, arrivals[-1], excess))
    at = max((port.at for port in ports.values()), default=now)
    if stored is not None and at <= stored.at:
        return ComparedSamples()
    put = samples_put(key, SampleSet(at, *_incarnation(state), ports), now)
    if faults:
        return ComparedSamples(tuple(faults), with_faults=(put,))
    if stored is not None and at - stored.at < WRITE_INTERVAL:
        return ComparedSamples()
    return ComparedSamples(alone=(put,))


def _without_old(ports: Mapping[str, LastSample]) -> dict[str, LastSample]:
    """Return the samples without those of components that disappeared."""
    newest = max((port.at for port in ports.values()), default=None)
    return {name: port for name, port in ports.items() if newest is None or newest - port.at < FORGET_AFTER}


def _fitting(ports: Mapping[str, LastSample]) -> tuple[dict[str, LastSample], int]:
    """Return the samples that fit into the item, the latest first, and how many do not fit."""
    room, kept = MAX_BYTES, set()
    for name in sorted(ports, key=lambda name: ports[name].at, reverse=True):
        room -= _size(name, ports[name])
        if room < 0:
            break
        kept.add(name)
    return {name: port for name, port in ports.items() if name in kept}, len(ports) - len(kept)


def _size(name: str, port: LastSample) -> int:
    values = sum(_VALUE_BYTES + len(key) + len(str(value).encode()) for key, value in port.values.items())
    return _SAMPLE_BYTES + 2 * len(name.encode()) + values


def _excess_fault(state: NodeState, arrival: Arrival, excess: int) -> Arrival:
    """Log that counters are not stored, and return the fault that says so."""
    source = arrival.observation.source
    reason = f"at most {MAX_BYTES} bytes of counters are stored for each source of a node"
    log_cause(
        "counters_not_stored",
        reason=reason,
        cluster=state.key.cluster,
        node=state.key.node,
        source=source,
        components=excess,
    )
    message = f"the counters of {excess} components are not compared: {reason}"
    fault = Fault(source, "agent.flood", NODE_COMPONENT, message, attributes={"components": str(excess)})
    return replace(arrival, observation=fault)


def _read_samples(found: Item | None, state: NodeState) -> SampleSet | None:
    """Return the stored samples, or None when they belong to an earlier instance or boot."""
    samples = None if found is None else read_samples(found)
    return samples if samples is not None and (samples.instance, samples.boot) == _incarnation(state) else None


def _incarnation(state: NodeState) -> tuple[int, int]:
    incarnation = state.incarnation
    return (incarnation.instance, incarnation.boot) if incarnation else (0, 0)
