"""Compare: turn the difference between two counter samples of the same port or device into faults.

A counter that rose by more than its threshold is a fault. A counter that fell was reset, which is no fault. A threshold
with a period grows with the time between the samples if this time is longer than the period. Gauges, states and some
counters without a threshold have one rule each (`_RULES`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from faultbridge.decode.data.counters import Threshold, Thresholds, thresholds
from faultbridge.model.faults import Component, CounterSample, Fault, Observation, Snapshot

_Rule = Callable[[CounterSample, CounterSample, str], Fault | None]
STALLED = "train.stalled"
# A training step counts as stalled after five times its usual duration, and at least the time of a checkpoint.
STALL_STEPS, STALL_SECONDS = 5, 300


def differences(observations: Iterable[Observation], limits: Thresholds | None = None) -> tuple[Observation, ...]:
    """Return the observations of a record, and the faults that successive counter samples show.

    Each sample is compared with the previous sample of the same port or device. A fault that an earlier health snapshot
    in `observations` contains is not added again. `limits` replaces the packaged thresholds.
    """
    last: dict[tuple[str, Component], CounterSample] = {}
    reported: set[tuple[str, Component]] = set()
    result: list[Observation] = []
    for observation in observations:
        result.append(observation)
        if isinstance(observation, Snapshot):
            reported |= {(fault.code, fault.component) for fault in observation.present}
        if isinstance(observation, CounterSample):
            previous = last.get((observation.source, observation.component))
            faults = compare(previous, observation, limits) if previous else ()
            result += (fault for fault in faults if (fault.code, fault.component) not in reported)
            last[observation.source, observation.component] = observation
    return tuple(result)


def compare(previous: CounterSample, sample: CounterSample, limits: Thresholds | None = None) -> tuple[Fault, ...]:
    """Return the faults that the difference between two samples of the same port or device shows."""
    return tuple(_faults(previous, sample, thresholds() if limits is None else limits))


def _faults(previous: CounterSample, sample: CounterSample, limits: Thresholds) -> Iterator[Fault]:
    for name, value in sample.values.items():
        rule = _RULES.get(name.partition("/")[0])
        limit = None if rule else limits.get((sample.source, name))
        if rule is not None:
            fault = rule(previous, sample, name)
        elif limit is not None and previous.values.get(name) != value:
            fault = _rise_above(limit, previous, sample)
        else:
            continue
        if fault is not None:
            yield fault


def _rise_above(limit: Threshold, previous: CounterSample, sample: CounterSample) -> Fault | None:
    before, now = previous.values.get(limit.counter), sample.values.get(limit.counter)
    if not isinstance(before, int) or not isinstance(now, int) or now <= before:
        return None
    rise, elapsed = now - before, _seconds(previous, sample)
    periods = max(1.0, elapsed / limit.seconds) if limit.seconds else 1.0
    if rise <= limit.limit * periods:
        return None
    allowed = f"{limit.limit} in {limit.seconds} s" if limit.seconds else str(limit.limit)
    attributes = {
        "counter": limit.counter,
        "before": str(before),
        "value": str(now),
        "limit": allowed,
        "seconds": f"{elapsed:.0f}",
        "lower_bound": "true" if now == limit.full else "",
        "side": "remote" if limit.remote else "",
    }
    where = "; the probable cause is at the remote end of the link" if limit.remote else ""
    text = f"{limit.counter} rose by {rise} {limit.unit}, more than {allowed}{where}."
    return _fault(sample, limit.code, text, **{name: value for name, value in attributes.items() if value})


def _seconds(previous: CounterSample, sample: CounterSample) -> float:
    if previous.observed_at is None or sample.observed_at is None:
        return 0.0
    return max(0.0, (sample.observed_at - previous.observed_at).total_seconds())


class _Rise(Struct, frozen=True):
    """The rule for a counter without a threshold: every increase is a fault."""

    code: str
    text: str

    def __call__(self, previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
        before, now = previous.values.get(name), sample.values[name]
        if not isinstance(before, int) or not isinstance(now, int) or now <= before:
            return None
        return _fault(sample, self.code, self.text.format(now - before), before=str(before), value=str(now))


class _Lost(Struct, frozen=True):
    code: str

    def __call__(self, previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
        if previous.values.get(name) != 1 or sample.values[name] != 0:
            return None
        port = sample.component.name or "a port"
        return _fault(sample, self.code, f"{port} lost its link.", before="1", value="0")


def _last_xid(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Return a fault if the gauge of the last Xid changed or appeared. The value 0 means no Xid."""
    before, now = previous.values.get(name), sample.values[name]
    if before == now or not isinstance(now, int) or now <= 0:
        return None
    return _fault(sample, f"xid.{now}", f"The last Xid is {now}.", before=str(before or 0), value=str(now))


def _counted_xid(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Return a fault if DCGM's count of one Xid, within its time window, is higher than before."""
    number, now, before = name.partition("/")[2], sample.values[name], previous.values.get(name, 0)
    if not number.isdigit() or not isinstance(now, int) or not isinstance(before, int) or now <= before:
        return None
    return _fault(sample, f"xid.{int(number)}", f"Xid {number} occurred {now - before} more times.", value=str(now))


def _reduced_rate(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    before, now = previous.values.get(name), sample.values[name]
    state = "ib_link" if name == "ib_rate" else "carrier"
    link_up = previous.values.get(state) == sample.values.get(state) == 1
    if not link_up or not isinstance(before, int) or not isinstance(now, int) or now >= before:
        return None
    text = f"The rate of {sample.component.name or 'a port'} fell from {before} to {now} Gb/s."
    return _fault(sample, "net.ib_rate_reduced", text, before=str(before), value=str(now))


def _stalled_job(previous: CounterSample, sample: CounterSample, name: str) -> Fault | None:
    """Return a fault if one iteration of a job lasts five times its usual duration and at least 300 s."""
    if previous.values.get(name) != sample.values[name] or sample.values.get("finished") == 1:
        return None
    step = sample.values.get("step_milliseconds")
    usual = step * STALL_STEPS / 1000 if isinstance(step, int) else 0.0
    elapsed, allowed = _seconds(previous, sample), max(usual, STALL_SECONDS)
    if elapsed < allowed:
        return None
    text = f"Iteration {sample.values[name]} has been running for {elapsed:.0f} s."
    return _fault(sample, STALLED, text, iteration=str(sample.values[name]), limit=f"{allowed:.0f} s")


def _fault(sample: CounterSample, code: str, message: str, **attributes: str) -> Fault:
    evidence = ", ".join(f"{name}: {value}" for name, value in sample.values.items())[:4096]
    return Fault(
        sample.source, code, sample.component, message, sample.observed_at, evidence, attributes, node=sample.node
    )


_RULES: Mapping[str, _Rule] = {
    "DCGM_FI_DEV_XID_ERRORS": _last_xid,
    "DCGM_EXP_XID_ERRORS_COUNT": _counted_xid,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _Rise("dcgm.volatile_dbe_detected", "{} more uncorrectable ECC errors."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _Rise("dcgm.uncorrectable_row_remap", "{} more rows were remapped."),
    "carrier": _Lost("net.link_down"),
    "ib_link": _Lost("net.ib_port_down"),
    "ib_rate": _reduced_rate,
    "link_rate": _reduced_rate,
    "iteration": _stalled_job,
}
