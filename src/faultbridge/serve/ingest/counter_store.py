"""Counter store: keeps the last counters of each component, for comparison with the next sample.

- Samples that cause a fault are written with that fault. Other samples are written alone, at most every five minutes,
  but those of each heartbeat, which are rare.
- Samples equal to the stored ones are written only every two hours, if the agent states when it last sent the values.
- If a comparison with samples that were read together with the node finds a fault, the samples are read and compared
  again, because another writer may have committed the fault since then.
- Counters of an earlier instance or boot are not compared. Counters of a component not reported for a day are removed.
- For each source of a node, at most 150 KB are kept: the counters that were reported last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.normalize.compare import compare
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decode.data.counters import Thresholds, thresholds
from faultbridge.decode.native import HEARTBEAT
from faultbridge.model.conditions import component_key
from faultbridge.model.errors import Conflict
from faultbridge.model.faults import NODE_COMPONENT, CounterSample, Fault
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import SAMPLE_INTERVAL, SentValues
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import (
    STORED_AGAIN_AFTER,
    LastSample,
    SampleSet,
    read_samples,
    samples_put,
)
from faultbridge.model.storage.writes import Item, Key, Put
from faultbridge.model.values import replace

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Table


# Sample limit: how many counter samples one table item stores, and the fault for excess samples.
#
# A sender that reports very many components would otherwise make the item larger than DynamoDB accepts.

MAX_BYTES = 150_000
"""Limit of the samples in one item before compression; DynamoDB accepts 400 KB."""

_SAMPLE_BYTES, _VALUE_BYTES = 250, 24
_EXCESS = "agent.flood"
_EXCESS_REASON = f"at most {MAX_BYTES} bytes of counters are stored for each source of a node"


def fitting(ports: Mapping[str, LastSample]) -> tuple[dict[str, LastSample], int]:
    """Return the latest counter samples that fit into one table item, and how many do not fit."""
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


def excess_fault(arrival: Arrival, excess: int) -> Arrival:
    """Return the fault that reports that counters of `excess` components are not stored.

    `arrival` is one of the compared samples. The fault has the time, record and instance of this sample.
    """
    message = f"the counters of {excess} components are not compared: {_EXCESS_REASON}"
    source, attributes = arrival.observation.source, {"components": str(excess)}
    return replace(arrival, observation=Fault(source, _EXCESS, NODE_COMPONENT, message, attributes=attributes))


def log_excess(state: NodeState, faults: Iterable[Arrival]) -> None:
    """Log, for each fault from `excess_fault`, the number of components whose counters are not stored."""
    for fault in (arrival.observation for arrival in faults):
        if isinstance(fault, Fault) and fault.code == _EXCESS:
            log_cause(
                "counters_not_stored",
                reason=_EXCESS_REASON,
                cluster=state.key.cluster,
                node=state.key.node,
                source=fault.source,
                components=int(fault.attributes["components"]),
            )


FORGET_AFTER = timedelta(days=1)
CLAIMED = "#claimed"
"""Added to the source of claimed samples, whose sender did not prove to be the node."""

ValuesByRecord = Mapping[str, SentValues | None]
"""What the senders of the records state about their values, by record id."""

NO_VALUES: ValuesByRecord = {}

ReadItems = Mapping[Key, Item | None]
"""Items that were read with the nodes of a batch; None for an item that does not exist."""

NOT_READ: ReadItems = {}


class ComparedSamples(Struct, frozen=True):
    """The faults that a comparison of counter samples found, and the samples to write.

    `with_faults` are written in the commit of the faults. `alone` are written outside of this commit.
    """

    faults: tuple[Arrival, ...] = ()
    with_faults: tuple[Put, ...] = ()
    alone: tuple[Put, ...] = ()


class CounterStore(Struct, frozen=True):
    """Compares counter samples with the stored ones. `limits` returns the installation's thresholds."""

    table: Table
    limits: Callable[[], Thresholds] = thresholds

    def compare(
        self,
        state: NodeState,
        arrivals: Iterable[Arrival],
        now: datetime,
        values: ValuesByRecord = NO_VALUES,
        read: ReadItems = NOT_READ,
    ) -> ComparedSamples:
        """Compare new counter samples with the stored ones, oldest first.

        Samples of an earlier instance or boot, or no later than the stored sample of their component, are skipped.
        `values` maps record ids to what the sender states about the values of the record. `read` are the stored samples
        that the caller has read with the node's state. If some are missing, or if a fault is found, all are read here.
        """
        by_source: dict[str, list[Arrival]] = {}
        for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
            # Counters of another instance would look like a rise of the node's own counters.
            if isinstance(arrival.observation, CounterSample) and arrival.incarnation is not IncarnationMatch.EARLIER:
                by_source.setdefault(series(arrival.observation, claimed=arrival.claimed), []).append(arrival)
        if not by_source:
            return ComparedSamples()
        limits = self.limits()
        by_key = {keys.counter_samples(state.key, source): samples for source, samples in by_source.items()}

        def compare_with(found: ReadItems) -> ComparedSamples:
            results = [
                _compare_source(key, state, samples, found.get(key), now, values, limits)
                for key, samples in by_key.items()
            ]
            return ComparedSamples(
                faults=tuple(fault for result in results for fault in result.faults),
                with_faults=tuple(put for result in results for put in result.with_faults),
                alone=tuple(put for result in results for put in result.alone),
            )

        compared = compare_with(read) if read.keys() >= by_key.keys() else None
        if compared is None or compared.faults:
            compared = compare_with(self.table.get_many(by_key))
        log_excess(state, compared.faults)
        return compared

    def write_alone(self, compared: ComparedSamples) -> None:
        """Write the samples in `alone`, unless samples of the same or a later time are stored."""
        for put in compared.alone:
            try:
                self.table.write(put)
            except Conflict as conflict:
                log_cause(
                    "counter_samples_not_stored", reason="newer_samples_stored", key=put.key.pk, error=str(conflict)
                )


def series(sample: CounterSample, *, claimed: bool) -> str:
    """Return the name of the series to which a counter sample belongs.

    A sample is compared only with samples of its series. Each source of a node has a series, and a separate series for
    claimed samples, whose sender did not prove to be the node.
    """
    return f"{sample.source}{CLAIMED}" if claimed else sample.source


def _compare_source(
    key: Key,
    state: NodeState,
    arrivals: Sequence[Arrival],
    found: Item | None,
    now: datetime,
    values: ValuesByRecord,
    limits: Thresholds,
) -> ComparedSamples:
    stored = _read_samples(found, state)
    stated = [values.get(arrival.record_id) for arrival in arrivals]
    before = _seen_again(stored, stated, [arrival.at for arrival in arrivals])
    ports = dict(before.ports) if before else {}
    faults, records = _compare_with(ports, arrivals, limits)
    ports = _without_old(ports)
    ports, excess = fitting(ports)
    if excess:
        faults.append(excess_fault(arrivals[-1], excess))
    at = max((port.at for port in ports.values()), default=now)
    is_rare = arrivals[-1].observation.source == HEARTBEAT
    interval = timedelta() if is_rare else SAMPLE_INTERVAL
    if before is not None and (at <= before.at or (not faults and at - before.at < interval)):
        after = before
    else:
        digest = None if excess else _digest(ports, records, values)
        after = SampleSet(at, *_incarnation(state), ports, digest)
    put = samples_put(key, after, now)
    if faults and after is not before:
        return ComparedSamples(tuple(faults), with_faults=(put,))
    digests = {one.digest if one else None for one in stated}
    return ComparedSamples(alone=() if _need_not_be_stored(after, stored, digests) else (put,))


def _compare_with(
    ports: dict[str, LastSample], arrivals: Iterable[Arrival], limits: Thresholds
) -> tuple[list[Arrival], dict[str, str]]:
    """Compare new samples with the last sample of each component (`ports`), then update `ports`.

    Returns the faults, and for each component with a new sample the id of the record that contains it.
    """
    faults: list[Arrival] = []
    records: dict[str, str] = {}
    for arrival in arrivals:
        sample = arrival.observation
        if not isinstance(sample, CounterSample):
            continue
        name = component_key(sample.component)
        last = ports.get(name)
        if last is not None and arrival.at <= last.at:
            continue
        if last is not None:
            previous = replace(sample, values=last.values, observed_at=last.at)
            faults += (replace(arrival, observation=fault) for fault in compare(previous, sample, limits))
        ports[name] = LastSample(arrival.at, sample.component, sample.values)
        records[name] = arrival.record_id
    return faults, records


def _seen_again(
    stored: SampleSet | None, stated: Sequence[SentValues | None], times: Sequence[datetime]
) -> SampleSet | None:
    """Return the stored samples (or None), with a later time if the agent has sent equal values since.

    Equal values are rarely stored again. A later record only states when the agent last sent them (`stated`). The
    latest stated time before the first new sample becomes the time of the stored samples, if it is at least
    `SAMPLE_INTERVAL` later.

    `times` are the times of the arrived samples, oldest first. A sample is new if it is later than the stored samples.
    A sample with their digest is new only if it is also no earlier than the latest stated time. If no sample is new,
    the first one counts as new.
    """
    if stored is None or stored.digest is None:
        return stored
    sent_at = [at for one in stated if one is not None and (at := one.last_sent.get(stored.digest)) is not None]
    last = max(sent_at, default=stored.at)
    newer = (
        time
        for one, time in zip(stated, times, strict=True)
        if time > stored.at and not (time < last and one is not None and one.digest == stored.digest)
    )
    first = next(newer, times[0])
    at = max((at for at in sent_at if at < first), default=stored.at)
    if at - stored.at < SAMPLE_INTERVAL:
        return stored
    return replace(stored, at=at, ports={name: replace(port, at=at) for name, port in stored.ports.items()})


def _digest(ports: Mapping[str, LastSample], records: Mapping[str, str], values: ValuesByRecord) -> str | None:
    sources = {records.get(name) for name in ports}
    record = sources.pop() if len(sources) == 1 else None
    stated = values.get(record) if record is not None else None
    return stated.digest if stated is not None else None


def _need_not_be_stored(after: SampleSet, stored: SampleSet | None, digests: Collection[str | None]) -> bool:
    """Return whether the samples `after` need no write.

    The result is True if they are stored already, or if samples with equal values are stored and are less than two
    hours older. Values are equal if `after` and all new records (`digests`) have the digest of the stored samples.
    """
    if stored is None or after == stored:
        return after == stored
    return digests == {stored.digest} == {after.digest} != {None} and after.at - stored.at < STORED_AGAIN_AFTER


def _without_old(ports: Mapping[str, LastSample]) -> dict[str, LastSample]:
    newest = max((port.at for port in ports.values()), default=None)
    return {name: port for name, port in ports.items() if newest is None or newest - port.at < FORGET_AFTER}


def _read_samples(found: Item | None, state: NodeState) -> SampleSet | None:
    samples = None if found is None else read_samples(found)
    return samples if samples is not None and (samples.instance, samples.boot) == _incarnation(state) else None


def _incarnation(state: NodeState) -> tuple[int, int]:
    incarnation = state.incarnation
    return (incarnation.instance, incarnation.boot) if incarnation else (0, 0)
