"""Postponed records: records that could not be sent, and when each of them is sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from faultbridge.agent.delivery.transport_contract import AccessRefused, RecordRefused, SendFailed

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
MAX_ACCESS_BACKOFF_SECONDS = 900.0
"""Longest pause of a record whose bucket refuses access, which may last for weeks: each attempt sends the record."""

MAX_REFUSALS = 3


class Failure(Enum):
    """Why a record could not be sent.

    - `REFUSAL`: AWS refuses the content of the record.
    - `ACCESS`: AWS refuses the call for a reason other than its content, such as a missing permission.
    - `OTHER`: any other failure, such as an outage of the network.
    """

    REFUSAL = "refusal"
    ACCESS = "access"
    OTHER = "other"


def failure_of(error: SendFailed, *, fills_disk: bool = False) -> Failure:
    """Return why a record could not be sent, from the error that the call raised.

    If the waiting records use too much of the disk (`fills_disk`), refused access counts as a `REFUSAL`, so that the
    record can be put into quarantine.
    """
    if isinstance(error, RecordRefused):
        return Failure.REFUSAL
    if isinstance(error, AccessRefused):
        return Failure.REFUSAL if fills_disk else Failure.ACCESS
    return Failure.OTHER


_LONGEST_PAUSES = {Failure.ACCESS: MAX_ACCESS_BACKOFF_SECONDS}


@dataclass(slots=True)
class _Record:
    retry_at: float
    tries: int
    refusals: int
    sent_before: int
    reason: str = ""


@dataclass(slots=True)
class PostponedRecords:
    """The postponed records of an outbox, by name. All times are seconds of a monotonic clock."""

    random: Random
    _records: dict[str, _Record] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of postponed records."""
        return len(self._records)

    def __contains__(self, name: str) -> bool:
        """Return whether a record is postponed."""
        return name in self._records

    @property
    def reason(self) -> str:
        """Return why one of the postponed records could not be sent; empty if no record is postponed."""
        return next((record.reason for record in self._records.values()), "")

    def due(self, now: float) -> set[str]:
        """Return the names of the records that may be sent again, because their pauses are over."""
        return {name for name, record in self._records.items() if record.retry_at <= now}

    def add(self, name: str, now: float, failure: Failure, sent: int, reason: str = "") -> bool:
        """Postpone a record that could not be sent. Returns True if the record must never be sent again.

        A record must never be sent again if AWS refuses it for at least the third time, and has accepted another record
        since the first failure of this record. Only a `REFUSAL` counts as such a refusal. `sent` is the number of
        records that the queue has accepted so far. `reason` is the error of this attempt.
        """
        record = self._records.setdefault(name, _Record(now, 0, 0, sent))
        record.reason = reason
        record.tries += 1
        record.refusals += failure is Failure.REFUSAL
        record.retry_at = now + pause_after(
            record.tries, self.random, _LONGEST_PAUSES.get(failure, MAX_BACKOFF_SECONDS)
        )
        return failure is Failure.REFUSAL and record.refusals >= MAX_REFUSALS and sent > record.sent_before

    def tries(self, name: str) -> int:
        """Return how often a postponed record could not be sent."""
        return self._records[name].tries

    def remove(self, *names: str) -> None:
        """Remove records that were sent, or that will not be sent again."""
        for name in names:
            self._records.pop(name, None)


def pause_after(tries: int, random: Random, max_seconds: float = MAX_BACKOFF_SECONDS) -> float:
    """Return a random pause in seconds before the next attempt, after `tries` failures.

    The pause is between half of a maximum and the maximum. The maximum is 2 s after the first failure, and doubles with
    each further failure, up to `max_seconds`.
    """
    longest = min(MIN_BACKOFF_SECONDS * 2 ** min(tries, 10), max_seconds)
    return random.uniform(longest / 2, longest)
