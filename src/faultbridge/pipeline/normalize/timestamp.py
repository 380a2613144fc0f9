"""Timestamp: every observation gets a time that no later stage has to doubt; the only place where times are altered.

A time that the input lacks is the sender's clock at sending, else the time of receipt. A time ahead of the cloud's is
shifted back by as much as the sender's clock runs ahead, and never left in the future: one node that believes in 2038
would otherwise outlast every later observation. A time that lies behind is old, never now.
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


def settle(
    observations: Iterable[Observation], *, received_at: datetime, sent_at: datetime | None = None
) -> tuple[Observation, ...]:
    """Give each observation its time; `received_at` is the cloud's clock, `sent_at` the sender's at sending.

    Attributes of faults and clears say what was done: `time_source` is `sent` or `received` where a time was filled
    in and `shifted` where it was moved, and then `time_claimed` is the time as the input had it.
    """
    clock = _Clock(received_at, sent_at)
    return tuple(clock.settled(observation) for observation in observations)


class _Clock:
    def __init__(self, received_at: datetime, sent_at: datetime | None) -> None:
        self._received_at = received_at
        self._skew = max(sent_at - received_at, _NO_SKEW) if sent_at else _NO_SKEW
        self._filled = min(sent_at, received_at) if sent_at else received_at
        self._source = "sent" if sent_at else "received"

    def settled(self, observation: _AnyObservation) -> _AnyObservation:
        if isinstance(observation, Snapshot):
            seen = tuple(self.settled(fault) for fault in observation.present)
            return replace(observation, observed_at=self._instant(observation.observed_at), present=seen)
        instant = self._instant(observation.observed_at)
        if instant == observation.observed_at:
            return observation
        if isinstance(observation, Fault | Clear):
            told = self._told(observation.observed_at)
            return replace(observation, observed_at=instant, attributes={**observation.attributes, **told})
        return replace(observation, observed_at=instant)

    def _instant(self, claimed: datetime | None) -> datetime:
        if claimed is None:
            return self._filled
        if claimed <= self._received_at:
            return claimed
        return min(claimed - self._skew, self._received_at)

    def _told(self, claimed: datetime | None) -> dict[str, str]:
        if claimed is None:
            return {"time_source": self._source}
        return {"time_source": "shifted", "time_claimed": to_text(claimed)}
