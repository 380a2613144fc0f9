"""Compare: a reading beside the one before it; what rose is a fault, what fell was reset and is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from faultbridge.domain.faults import Component, Fault, Observation, Reading, Survey

_Value = int | str
_Judge = Callable[[Reading, _Value | None, _Value], Fault | None]


def differences(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return observations with the faults that readings of one port show by their difference and no survey shows."""
    last: dict[tuple[str, Component], Reading] = {}
    seen: set[tuple[str, Component]] = set()
    found: list[Observation] = []
    for observation in observations:
        found.append(observation)
        if isinstance(observation, Survey):
            seen |= {(fault.code, fault.component) for fault in observation.present}
        if isinstance(observation, Reading):
            previous = last.get((observation.source, observation.component))
            risen = compare(previous, observation) if previous else ()
            found += (fault for fault in risen if (fault.code, fault.component) not in seen)
            last[observation.source, observation.component] = observation
    return tuple(found)


def compare(previous: Reading, reading: Reading) -> tuple[Fault, ...]:
    """Return what went wrong between two readings of the same port; `previous` is the older."""
    judged = (
        _JUDGES[name](reading, previous.values.get(name), value)
        for name, value in reading.values.items()
        if name in _JUDGES and previous.values.get(name) != value
    )
    return tuple(fault for fault in judged if fault is not None)


@dataclass(frozen=True, slots=True)
class _Rise:
    """A counter that only rises while nothing is reset."""

    code: str
    text: str

    def __call__(self, reading: Reading, before: _Value | None, now: _Value) -> Fault | None:
        if not isinstance(before, int) or not isinstance(now, int) or now <= before:
            return None
        return _fault(reading, self.code, self.text.format(now - before), before=str(before), value=str(now))


def _last_xid(reading: Reading, before: _Value | None, now: _Value) -> Fault | None:
    """Judge the gauge of the last Xid: a change, or its first appearance, is a new one; 0 is none."""
    if not isinstance(now, int) or now <= 0:
        return None
    return _fault(reading, f"xid.{now}", f"The last Xid is now {now}.", before=str(before or 0), value=str(now))


def _carrier(reading: Reading, before: _Value | None, now: _Value) -> Fault | None:
    """Judge a port that had a link at the last look: whether it is configured or not, somebody used it."""
    if before != 1 or now != 0:
        return None
    name = reading.component.name or "a port"
    return _fault(reading, "net.link_down", f"{name} has lost its link.", before="1", value="0")


def _fault(reading: Reading, code: str, message: str, **told: str) -> Fault:
    evidence = ", ".join(f"{name}: {value}" for name, value in reading.values.items())[:4096]
    return Fault(
        reading.source, code, reading.component, message, reading.observed_at, evidence, told, node=reading.node
    )


_JUDGES: Mapping[str, _Judge] = {
    "DCGM_FI_DEV_XID_ERRORS": _last_xid,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _Rise("dcgm.volatile_dbe_detected", "{} uncorrectable ECC errors more."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _Rise("dcgm.uncorrectable_row_remap", "{} rows more were remapped."),
    "carrier": _carrier,
}
