"""Timestamp: give every observation a time that is never in the future; no other stage changes times.

A missing time becomes the sender's time of sending, or the time of receipt. A time after the receipt is shifted back
by the offset of the sender's clock, at least to the receipt. Otherwise one node with a clock in 2038 would make every
later observation stale. A time in the past is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from faultbridge.domain.faults import Clear, Fault, Observation, Snapshot
from faultbridge.domain.times import to_text

_AnyObservation = TypeVar("_AnyObservation", bound=Observation)
_NO_SKEW = timedelta(0)


def assign_times(
    observations: Iterable[Observation], *, received_at: datetime, sent_at: datetime | None = None
) -> tuple[Observation, ...]:
    """Return the observations with final times.

    `received_at` is the time of AWS's clock, `sent_at` that of the sender's clock at sending.

    Faults and clears state a changed time in their attributes: `time_source` is `sent` or `received` for a filled-in
    time, and `shifted` for a shifted one; `time_claimed` is then the original time.
    """
    clock = _Clock(received_at, sent_at)
    return tuple(clock.with_time(observation) for observation in observations)


class _Clock:
    """The offset of one sender's clock, and the time for observations without one."""

    def __init__(self, received_at: datetime, sent_at: datetime | None) -> None:
        self._received_at = received_at
        self._skew = max(sent_at - received_at, _NO_SKEW) if sent_at else _NO_SKEW
        self._default = min(sent_at, received_at) if sent_at else received_at
        self._source = "sent" if sent_at else "received"

    def with_time(self, observation: _AnyObservation) -> _AnyObservation:
        if isinstance(observation, Snapshot):
            present = tuple(self.with_time(fault) for fault in observation.present)
            return replace(observation, observed_at=self._instant(observation.observed_at), present=present)
        instant = self._instant(observation.observed_at)
        if instant == observation.observed_at:
            return observation
        if isinstance(observation, Fault | Clear):
            attributes = {**observation.attributes, **self._time_attributes(observation.observed_at)}
            return replace(observation, observed_at=instant, attributes=attributes)
        return replace(observation, observed_at=instant)

    def _instant(self, claimed: datetime | None) -> datetime:
        if claimed is None:
            return self._default
        if claimed <= self._received_at:
            return claimed
        return min(claimed - self._skew, self._received_at)

    def _time_attributes(self, claimed: datetime | None) -> dict[str, str]:
        if claimed is None:
            return {"time_source": self._source}
        return {"time_source": "shifted", "time_claimed": to_text(claimed)}
