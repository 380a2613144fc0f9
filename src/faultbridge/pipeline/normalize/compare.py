"""Compare: a reading beside the one before it; what rose is a fault, what fell was reset and is none.

Counters are judged by the packaged thresholds. A rate must have held for as long as its threshold says: a few errors
just before a look are not many an hour. Gauges and states are judged by what their change means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from faultbridge.data.counters import Threshold, thresholds
from faultbridge.domain.faults import Component, CounterSample, Fault, Observation, Snapshot

_Value = int | str
_Judge = Callable[[CounterSample, CounterSample, str], Fault | None]
STALLED = "train.stalled"
# A step may take five times its usual time, and five minutes for a checkpoint, before it is called a stall.
STALL_STEPS, STALL_SECONDS = 5, 300


def differences(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return observations with the faults that readings of one port show by their difference and no health snapshot shows."""
    last: dict[tuple[str, Component], CounterSample] = {}
    seen: set[tuple[str, Component]] = set()
    found: list[Observation] = []
    for observation in observations:
        found.append(observation)
        if isinstance(observation, Snapshot):
            seen |= {(fault.code, fault.component) for fault in observation.present}
        if isinstance(observation, CounterSample):
            previous = last.get((observation.source, observation.component))
            risen = compare(previous, observation) if previous else ()
            found += (fault for fault in risen if (fault.code, fault.component) not in seen)
            last[observation.source, observation.component] = observation
    return tuple(found)


def compare(previous: CounterSample, sample: CounterSample) -> tuple[Fault, ...]:
    """Return what went wrong between two readings of the same port; `previous` is the older."""
    return tuple(_compared(previous, sample, thresholds()))


def _compared(
    previous: CounterSample, sample: CounterSample, limits: Mapping[tuple[str, str], Threshold]
) -> Iterator[Fault]:
    for name, value in sample.values.items():
        judge = _JUDGES.get(name.partition("/")[0])
        limit = None if judge else limits.get((sample.source, name))
        if judge is not None:
            fault = judge(previous, sample, name)
        elif limit is not None and previous.values.get(name) != value:
            fault = _rise_above(limit, previous, sample)
        else:
            continue
        if fault is not None:
            yield fault


def _rise_above(limit: Threshold, previous: CounterSample, sample: CounterSample) -> Fault | None:
    """Judge a counter by its threshold; a full one cannot rise, and what fell was reset."""
    before, now = previous.values.get(limit.counter), sample.values.get(limit.counter)
    if not isinstance(before, int) or not isinstance(now, int) or now <= before:
        return None
    rise, elapsed = now - before, _seconds(previous, sample)
    periods = max(1.0, elapsed / limit.seconds) if limit.seconds else 1.0
    if rise <= limit.limit * periods:
        return None
    allowed = f"{limit.limit} in {limit.seconds} s" if limit.seconds else str(limit.limit)
    told = {
        "counter": limit.counter,
        "before": str(before),
        "value": str(now),
        "limit": allowed,
        "seconds": f"{elapsed:.0f}",
        "lower_bound": "true" if now == limit.full else "",
        "side": "remote" if limit.remote else "",
    }
    where = "; the other side of the wire is the suspect" if limit.remote else ""
    text = f"{limit.counter} rose by {rise} {limit.unit}, more than {allowed}{where}."
    return _fault(sample, limit.code, text, **{name: value for name, value in told.items() if value})


def _seconds(previous: CounterSample, sample: CounterSample) -> float:
    if previous.observed_at is None or sample.observed_at is None:
        return 0.0
    return max(0.0, (sample.observed_at - previous.observed_at).total_seconds())


@dataclass(frozen=True, slots=True)
class _Rise:
    """A counter of which every one is a fault."""

    code: str
    text: str

    def __call__(self, previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
        before, now = previous.values.get(name), sample.values[name]
        if not isinstance(before, int) or not isinstance(now, int) or now <= before:
            return None
        return _fault(sample, self.code, self.text.format(now - before), before=str(before), value=str(now))


@dataclass(frozen=True, slots=True)
class _Lost:
    """A port that had a link at the last look: whether it is configured or not, somebody used it."""

    code: str

    def __call__(self, previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
        if previous.values.get(name) != 1 or sample.values[name] != 0:
            return None
        port = sample.component.name or "a port"
        return _fault(sample, self.code, f"{port} has lost its link.", before="1", value="0")


def _last_xid(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Judge the gauge of the last Xid: a change, or its first appearance, is a new one; 0 is none."""
    before, now = previous.values.get(name), sample.values[name]
    if before == now or not isinstance(now, int) or now <= 0:
        return None
    return _fault(sample, f"xid.{now}", f"The last Xid is now {now}.", before=str(before or 0), value=str(now))


def _counted_xid(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Judge how many Xids of one number came within a window: more than at the last look are new ones."""
    number, now, before = name.partition("/")[2], sample.values[name], previous.values.get(name, 0)
    if not number.isdigit() or not isinstance(now, int) or not isinstance(before, int) or now <= before:
        return None
    return _fault(sample, f"xid.{int(number)}", f"Xid {number} came {now - before} times more.", value=str(now))


def _slower(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Judge a link's rate: one that stands but came back slower lost lanes or speed."""
    before, now = previous.values.get(name), sample.values[name]
    stands = previous.values.get("ib_link") == sample.values.get("ib_link") == 1
    if not stands or not isinstance(before, int) or not isinstance(now, int) or now >= before:
        return None
    text = f"{sample.component.name or 'a port'} fell from {before} to {now} Gb/s."
    return _fault(sample, "net.ib_rate_reduced", text, before=str(before), value=str(now))


def _standstill(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Judge a job's iteration: the same one after many steps' time is a stall, a smaller one a restart."""
    if previous.values.get(name) != sample.values[name] or sample.values.get("finished") == 1:
        return None
    step = sample.values.get("step_milliseconds")
    usual = step * STALL_STEPS / 1000 if isinstance(step, int) else 0.0
    elapsed, patience = _seconds(previous, sample), max(usual, STALL_SECONDS)
    if elapsed < patience:
        return None
    text = f"Iteration {sample.values[name]} has not ended for {elapsed:.0f} s."
    return _fault(sample, STALLED, text, iteration=str(sample.values[name]), limit=f"{patience:.0f} s")


def _fault(sample: CounterSample, code: str, message: str, **told: str) -> Fault:
    evidence = ", ".join(f"{name}: {value}" for name, value in sample.values.items())[:4096]
    return Fault(sample.source, code, sample.component, message, sample.observed_at, evidence, told, node=sample.node)


_JUDGES: Mapping[str, _Judge] = {
    "DCGM_FI_DEV_XID_ERRORS": _last_xid,
    "DCGM_EXP_XID_ERRORS_COUNT": _counted_xid,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _Rise("dcgm.volatile_dbe_detected", "{} uncorrectable ECC errors more."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _Rise("dcgm.uncorrectable_row_remap", "{} rows more were remapped."),
    "carrier": _Lost("net.link_down"),
    "ib_link": _Lost("net.ib_port_down"),
    "ib_rate": _slower,
    "iteration": _standstill,
}
