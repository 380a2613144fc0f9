"""Timestamp: give every observation a plausible time, by comparison with the queue's clock.

No other stage changes times. The rules are:

- A missing time becomes the sender's time of sending, or the time of receipt if the sending time is missing or
  implausible. A time that is before 2020, even after a shift, counts as missing.
- A time after the receipt is shifted back by the lead of the sender's clock. If it is still after the receipt, it
  becomes the time of receipt. Without this rule, one report of a clock in 2038 would make every later observation of
  the node stale.
- A sending time more than 14 days before the receipt means that the sender's clock was not set. The times are shifted
  forward by the lag of that clock. Without this rule, all faults of the sender would be stale.
- Other times in the past are kept, unless the node's heartbeats show that its clock is behind. They are then shifted
  forward, at most to the receipt. Without this rule, a fault of the node could be too old to act on, or older than the
  node's last repair.

Only heartbeats show that a clock is behind by less than 14 days, because a heartbeat never waits before it is sent. If
it is received late, the clock is behind or the call was slow. Any other record may have waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Clear, Fault, Observation, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import RawRecord, SentValues
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

_AnyObservation = TypeVar("_AnyObservation", bound=Observation)
_NO_SKEW = timedelta(0)

MAX_DELAY = timedelta(days=14)
"""A record waits at most this long on a node and in the queue; an earlier time of sending is an error of the clock."""

EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
"""An earlier time comes from a clock that was never set, such as 1970 right after a boot."""

HEARTBEAT, CLOCK = "heartbeat", "host.clock"
SECONDS_OFF = "seconds_off"
TOLERANCE = timedelta(minutes=2)
"""A smaller clock error is not reported. The error that a heartbeat shows varies with the delay of its delivery."""

MAX_HEARTBEAT_DELAY = timedelta(minutes=15)
"""A slow call may delay a heartbeat by this time. The reported lag of the clock is then too large."""

_LAG_PER_TOLERANCE = 8
"""The tolerance is an eighth of the lag. With a large lag, an uncorrected fault would be too old to act on. With a
small lag, a time of another clock must not be corrected."""


def bounded_sent_at(sent_at: datetime, received_at: datetime) -> datetime:
    """Return the sending time, or the receipt if that time is after it or over `MAX_DELAY` before it."""
    return sent_at if received_at - MAX_DELAY <= sent_at <= received_at else received_at


def shift_last_sent(values: SentValues | None, shift: timedelta) -> SentValues | None:
    """Return the sender's earlier sending times, corrected; raises Rejected outside years 1 to 9999."""
    if values is None or not shift:
        return values
    try:
        return replace(values, last_sent={digest: at + shift for digest, at in values.last_sent.items()})
    except OverflowError:
        raise Rejected(
            "bad_time", "a time in `last_sent` is out of range with the sender's clock; allowed: years 1 to 9999"
        ) from None


def assign_times(
    observations: Iterable[Observation], *, received_at: datetime, sent_at: datetime | None = None
) -> tuple[Observation, ...]:
    """Return the observations of a record with their final times; `received_at` is a time of AWS's clock.

    If the time changed, attributes state it: `time_source` is `sent` or `received` for a missing time and `shifted` for
    another, `time_claimed` is the original or implausible sending time.
    """
    clock = _Clock(received_at, sent_at)
    return tuple(map(clock.with_time, observations))


class _Clock:
    """The offset of one sender's clock, and the time that observations without a time get."""

    def __init__(self, received_at: datetime, sent_at: datetime | None) -> None:
        self._received_at = received_at
        self._sent_at = sent_at
        self._default = bounded_sent_at(sent_at, received_at) if sent_at else received_at
        is_plausible = sent_at is None or sent_at == self._default
        self._skew = _NO_SKEW if sent_at is None or is_plausible else sent_at - received_at
        self._source = "sent" if sent_at and is_plausible else "received"

    def with_time(self, observation: _AnyObservation) -> _AnyObservation:
        instant = self._instant(observation.observed_at)
        if isinstance(observation, Snapshot):
            present = tuple(map(self.with_time, observation.present))
            return replace(observation, observed_at=instant, present=present)
        if instant == observation.observed_at:
            return observation
        if isinstance(observation, Fault | Clear):
            attributes = {**observation.attributes, **self._time_attributes(observation.observed_at)}
            return replace(observation, observed_at=instant, attributes=attributes)
        return replace(observation, observed_at=instant)

    def _instant(self, claimed: datetime | None) -> datetime:
        at = self._default if claimed is None else self._shifted(claimed)
        return self._default if at < EARLIEST else at

    def _shifted(self, claimed: datetime) -> datetime:
        if claimed > self._received_at:
            return min(claimed - max(self._skew, _NO_SKEW), self._received_at)
        if self._skew < _NO_SKEW and self._sent_at is not None and claimed <= self._sent_at:
            return claimed - self._skew
        return claimed

    def _time_attributes(self, claimed: datetime | None) -> dict[str, str]:
        if claimed is not None:
            return {"time_source": "shifted", "time_claimed": to_text(claimed)}
        if self._sent_at is not None and self._skew:
            return {"time_source": self._source, "time_claimed": to_text(self._sent_at)}
        return {"time_source": self._source}


def slow_by(state: NodeState, observations: Iterable[Observation] = ()) -> timedelta:
    """Return how far a node's clock is behind, as its heartbeats report; zero without a report.

    A heartbeat in `observations` decides before the node's `host.clock` conditions. Of several reports, the smallest
    lag above zero counts, because a delayed heartbeat reports a larger one.
    """
    snapshots = (one for one in observations if isinstance(one, Snapshot) and one.source == HEARTBEAT)
    reports = [fault.attributes for one in snapshots for fault in one.present if fault.code == CLOCK]
    reports = reports or [one.attributes for one in state.active() if one.code == CLOCK and HEARTBEAT in one.sources]
    return min(filter(None, (_behind(one.get(SECONDS_OFF, "0")) for one in reports)), default=_NO_SKEW)


def clock_has_moved(known: Mapping[str, str], reported: Mapping[str, str]) -> bool:
    """Return whether two reports of how far a node's clock is off differ by more than `TOLERANCE`.

    They differ if the clock was set in the meantime, or if another instance now backs the node. `known` are the
    attributes of the earlier fault, `reported` those of the new fault.

    - An earlier fault that states no seconds, such as the fault of a health agent, counts as 0 seconds.
    - If the new fault states no seconds, the result is False.
    """
    if SECONDS_OFF not in reported:
        return False
    try:
        return abs(int(known.get(SECONDS_OFF, "0")) - int(reported[SECONDS_OFF])) > TOLERANCE.total_seconds()
    except ValueError:
        return False


def _behind(seconds_off: str) -> timedelta:
    try:
        return max(timedelta(seconds=-int(seconds_off)), _NO_SKEW)
    except (ValueError, OverflowError):
        return _NO_SKEW


def correct_record(record: RawRecord, slow: timedelta) -> RawRecord:
    """Return a record of a node whose clock is behind by `slow`, with its sending times moved."""
    sent_at = _corrected(record.sent_at, record, slow)
    if sent_at == record.sent_at:
        return record
    return replace(record, sent_at=sent_at, values=shift_last_sent(record.values, sent_at - record.sent_at))


def correct_observation(observation: _AnyObservation, record: RawRecord, slow: timedelta) -> _AnyObservation:
    """Return an observation with corrected times; `time_claimed` keeps the original time."""
    claimed = observation.observed_at
    at = None if claimed is None else _corrected(claimed, record, slow)
    if isinstance(observation, Snapshot):
        present = tuple(correct_observation(fault, record, slow) for fault in observation.present)
        return replace(observation, observed_at=at, present=present)
    if at == claimed or claimed is None:
        return observation
    if isinstance(observation, Fault | Clear):
        changed = {"time_claimed": to_text(claimed)} | dict(observation.attributes) | {"time_source": "shifted"}
        return replace(observation, observed_at=at, attributes=changed)
    return replace(observation, observed_at=at)


def _corrected(at: datetime, record: RawRecord, slow: timedelta) -> datetime:
    """Return a time `at` of the node's slow clock, moved forward by the clock's lag, at most to the receipt.

    - `slow` is the lag that heartbeats report. If `slow` is zero, `at` is not changed.
    - If the record was received more than `slow` after its sending time, `at` is moved by that longer time instead.
    - At the receipt, the slow clock shows the time of receipt minus `slow`. If `at` is later than that by more than a
      tolerance, `at` comes from another clock and is not changed. The tolerance is an eighth of `slow`, at least
      `TOLERANCE` and at most `MAX_HEARTBEAT_DELAY`.
    """
    age = record.received_at - at
    tolerance = max(TOLERANCE, min(slow / _LAG_PER_TOLERANCE, MAX_HEARTBEAT_DELAY))
    if not slow or age < slow - tolerance:
        return at
    return at + min(max(slow, record.received_at - record.sent_at), age)
