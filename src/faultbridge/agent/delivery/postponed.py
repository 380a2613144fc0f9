"""Postponed records: records that could not be sent, and when each of them is sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
MAX_REFUSALS = 3


@dataclass(slots=True)
class _Record:
    retry_at: float
    tries: int
    refusals: int
    sent_before: int


@dataclass(slots=True)
class PostponedRecords:
    """The postponed records of an outbox, by name. All times are seconds of a monotonic clock."""

    random: Random
    _records: dict[str, _Record] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of postponed records."""
        return len(self._records)

    def paused(self, now: float) -> set[str]:
        """Return the names of the records that must not be sent again yet."""
        return {name for name, record in self._records.items() if now < record.retry_at}

    def add(self, name: str, now: float, *, refused: bool, sent: int) -> bool:
        """Postpone a record that could not be sent. Returns True if the record must never be sent again.

        A record must never be sent again if AWS refused it at least three times, and accepted another record after the
        first failure of this record. `refused` is True if this failure counts as such a refusal, and False if the call
        failed for another reason, such as a missing permission. `sent` is the number of records that the queue has
        accepted so far.
        """
        record = self._records.setdefault(name, _Record(now, 0, 0, sent))
        record.tries += 1
        record.refusals += refused
        record.retry_at = now + pause_after(record.tries, self.random)
        return record.refusals >= MAX_REFUSALS and sent > record.sent_before

    def tries(self, name: str) -> int:
        """Return how often a postponed record could not be sent."""
        return self._records[name].tries

    def remove(self, name: str) -> None:
        """Remove a record that was sent, or that will not be sent again."""
        self._records.pop(name, None)


def pause_after(tries: int, random: Random) -> float:
    """Return a random pause in seconds before the next attempt, after `tries` failures.

    The pause doubles with each failure, up to a minute.
    """
    longest = min(MIN_BACKOFF_SECONDS * 2 ** min(tries, 8), MAX_BACKOFF_SECONDS)
    return random.uniform(longest / 2, longest)
