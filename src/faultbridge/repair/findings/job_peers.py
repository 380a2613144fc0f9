"""Job peers: compares what the devices and ranks of a running job do, and finds the one for which the others wait.

The agents state what each device did in the best samples of five minutes of training (`node/agent/rates.py`), and the
job's heartbeats how long each rank worked on a step. A device is slow if it differs both from the devices of the whole
job and from those of its own node: a node whose devices all differ does other work, such as the last stage of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct

from faultbridge.decide.peers import Outlier, find_outliers
from faultbridge.decode.native import HEARTBEAT
from faultbridge.model.cluster.jobs import Job, Progress, ranks_of, ranks_on_gpus
from faultbridge.model.conditions import component_key
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.findings import Baseline, Detector
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import LastSample, read_samples
from faultbridge.model.values import replace
from faultbridge.record.ports import Table

FRESH = timedelta(minutes=5)
"""A measurement that is older is not compared: the device does not train any more."""

STEP = "step_ms"
MIN_OWN = 3
"""A device is compared with its own node if that many other devices of its node were measured."""

RARELY_USED = 0.5
"""A network card is not compared if the cards of its name do less than this share of the usual: it has another use."""


class Measured(Struct, frozen=True):
    """What a device of a job, or the rank on a GPU, did: its values by counter."""

    node: str
    component: Component
    ranks: tuple[int, ...]
    at: datetime
    values: Mapping[str, int]

    @property
    def name(self) -> str:
        """Return the device and its ranks as text, such as `GPU 5 (rank 13)`."""
        one = self.component
        device = f"GPU {one.index}" if one.type is ComponentType.GPU else f"NIC {one.name}"
        ranks = ", ".join(map(str, self.ranks))
        return f"{device} (rank{'s' if len(self.ranks) > 1 else ''} {ranks})" if ranks else device


class Slow(Struct, frozen=True):
    """A slow device: how far it is from its peers."""

    measured: Measured
    outlier: Outlier
    text: str


def measure(table: Table, job: Job, progress: Progress | None, now: datetime) -> list[Measured]:
    """Return what the devices and ranks of a running job did last."""
    rows = table.get_many(keys.counter_samples(NodeKey(job.cluster, node), HEARTBEAT) for node in job.nodes)
    found = []
    for node in job.nodes:
        row = rows.get(keys.counter_samples(NodeKey(job.cluster, node), HEARTBEAT))
        samples = read_samples(row) if row is not None else None
        if samples is not None and samples.at > max(now - FRESH, job.started_at):
            current = (one for one in samples.ports.values() if one.at == samples.at)
            found += [_measured(job, node, one) for one in current]
    return found + list(_steps(job, progress, now))


def _measured(job: Job, node: str, sample: LastSample) -> Measured:
    near, index = str(sample.values.get("gpus", "")), sample.component.index
    gpus = [int(one) for one in near.split(",") if one.isdecimal()] if index is None else [index]
    values = {name: value for name, value in sample.values.items() if isinstance(value, int)}
    return Measured(node, sample.component, ranks_on_gpus(job.ranks.get(node, ""), gpus), sample.at, values)


def _steps(job: Job, progress: Progress | None, now: datetime) -> Iterator[Measured]:
    if progress is None or progress.run != job.started_at or now - progress.advanced_at > FRESH:
        return
    for node, text in job.ranks.items():
        for number, rank in enumerate(ranks_of(text)):
            if rank < len(progress.step_ms):
                gpu = Component(ComponentType.GPU, index=number)
                yield Measured(node, gpu, (rank,), progress.advanced_at, {STEP: progress.step_ms[rank]})


def find_slow(detectors: Iterable[Detector], job: Job, measured: Sequence[Measured]) -> dict[tuple[str, str], Slow]:
    """Return the slowest device of each node and detector, if it is slow; its text also has its other signs.

    The step of a rank is left out if one of its devices is slow, because that is the cause.
    """
    found = {(one.node, each.name): (one, outlier) for each in detectors for one, outlier in _slowest(each, measured)}
    units = {each.name: each.unit for each in detectors}
    slow = {}
    for (node, detector), (one, outlier) in found.items():
        others = {
            name: (other, distance)
            for (place, name), (other, distance) in found.items()
            if place == node and name != detector and set(other.ranks) & set(one.ranks)
        }
        if others and STEP in one.values:
            continue
        text = (
            f"{one.name} of job {job.id}: {outlier.value} {units[detector]}, "
            f"the median of {outlier.peers} peers is {outlier.median}"
        )
        more = (f"; {other.value} {units[name]}, not {other.median}" for name, (_, other) in sorted(others.items()))
        slow[node, detector] = Slow(one, outlier, text + "".join(more))
    return slow


def _slowest(detector: Detector, measured: Sequence[Measured]) -> Iterator[tuple[Measured, Outlier]]:
    """Yield the slowest device of each node that has a slow one."""
    (counter,) = detector.counters
    stated = {number: one.values[counter] for number, one in enumerate(measured) if counter in one.values}
    values = _used(stated, measured)
    by_node: dict[str, list[int]] = {}
    for number in values:
        by_node.setdefault(measured[number].node, []).append(number)
    worst: dict[str, tuple[Measured, Outlier]] = {}
    for number, outlier in sorted(find_outliers(detector, values).items(), key=lambda one: one[1].score):
        one = measured[number]
        own = [values[other] for other in by_node[one.node] if other != number]
        middle = median(own) if len(own) >= MIN_OWN else outlier.median
        if detector.beyond(outlier.value, middle) >= detector.least(middle):
            worst[one.node] = one, outlier
    yield from worst.values()


def _used(values: Mapping[int, int], measured: Sequence[Measured]) -> Mapping[int, int]:
    """Leave out the network cards that the job hardly uses, such as those of the storage."""
    usual: dict[str | None, list[int]] = {}
    for number, value in values.items():
        usual.setdefault(measured[number].component.name, []).append(value)
    least = RARELY_USED * median(values.values()) if values else 0
    return {
        number: value
        for number, value in values.items()
        if (name := measured[number].component.name) is None or median(usual[name]) >= least
    }


Known = Mapping[str, Mapping[str, Baseline]]
"""The last comparisons by node and detector."""


def count_windows(detector: Detector, one: Measured | None, before: Baseline | None, at: datetime) -> Baseline:
    """Return a comparison of a node; `streak` counts new measurements in a row in which the same device is slow.

    Below zero, it counts those in which none is.
    """
    if one is None:
        last = before.streak if before is not None else -detector.windows
        return Baseline(at, "", 0, min(last, 0) - 1)
    part = component_key(one.component)
    value = one.values[detector.counters[0]]
    if before is None or before.incarnation != part or before.streak < 0:
        return Baseline(one.at, part, value, 1)
    return replace(before, at=one.at, total=value, streak=before.streak + (one.at > before.at))
