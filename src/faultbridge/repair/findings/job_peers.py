"""Job peers: compares what the devices and ranks of a running job do, and finds the one for which the others wait.

The agents state what each device did in the best samples of five minutes of training (`node/agent/rates.py`), and the
job's heartbeats how long each rank worked on a step. A device is slow if it differs both from the devices of the whole
job and from those of its own node: a node whose devices all differ does other work, such as the last stage of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

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
from faultbridge.record.ports.table import Table

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


class Comparison(NamedTuple):
    """The result of comparing one node with its peers by one detector.

    `baseline` has the node's current counters, for the next comparison. `outlier` states how far the node is from its
    peers, and `evidence` says it; it is None if the node is no outlier. `compared` is False if the rise of the counters
    is unknown, as in the first comparison of a node. `component` is the component that caused more than half of the
    rise of an outlier, or None, and `ranks` are its ranks.
    """

    baseline: Baseline
    outlier: Outlier | None
    compared: bool
    component: Component | None = None
    evidence: str = ""
    ranks: tuple[int, ...] = ()


Comparisons = dict[tuple[str, str], Comparison]
"""The comparisons, by the name of the node and the name of the detector."""


def compare_job(
    detectors: Sequence[Detector], job: Job, measured: Sequence[Measured], before: Mapping[str, Mapping[str, Baseline]]
) -> Comparisons:
    """Compare the devices and ranks of a job; the slowest one of each node counts, with its other signs as evidence.

    The step of a rank is left out if one of its devices is slow, because that is the cause. `baseline.streak` counts
    new measurements in a row in which the same device is slow, and below zero comparisons in which none is.
    """
    slow = {(one.node, each.name): (one, outlier) for each in detectors for one, outlier in _slowest(each, measured)}
    units, compared = {each.name: each.unit for each in detectors}, Comparisons()
    for detector in detectors:
        counter, name = detector.counters[0], detector.name
        for node, at in {one.node: one.at for one in measured if counter in one.values}.items():
            last = before.get(node, {}).get(name)
            one, outlier = slow.get((node, name), (None, None))
            others = [
                f"; {seen.value} {units[sign]}, not {seen.median}"
                for (place, sign), (other, seen) in sorted(slow.items())
                if one is not None and place == node and sign != name and set(other.ranks) & set(one.ranks)
            ]
            if one is None or outlier is None or (others and counter == STEP):
                streak = min(last.streak if last is not None else -detector.windows, 0) - 1
                compared[node, name] = Comparison(Baseline(at, "", 0, streak), None, streak <= -detector.windows)
                continue
            part = component_key(one.component)
            is_same = last is not None and last.incarnation == part and last.streak > 0
            streak = last.streak + (one.at > last.at) if last is not None and is_same else 1
            text = f"{one.name} of job {job.id}: {outlier.value} {detector.unit}, "
            text += f"the median of {outlier.peers} peers is {outlier.median}{''.join(others)}"
            baseline = Baseline(one.at, part, outlier.value, streak)
            compared[node, name] = Comparison(baseline, outlier, True, one.component, text, one.ranks)
    return compared


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
