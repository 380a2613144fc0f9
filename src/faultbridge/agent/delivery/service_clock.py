"""Service clock: the time of the AWS services, which the `Date` header of their responses states.

AWS refuses a signature whose time differs from the time of the service by more than 5 to 15 minutes, depending on the
service. The clock of a node may differ by more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from faultbridge.agent.host import AgentClock

TOLERANCE = timedelta(minutes=1)


@dataclass(slots=True)
class ServiceClock:
    """The clock of the host, corrected by its measured difference from the clock of the AWS services."""

    clock: AgentClock
    offset: timedelta = timedelta(0)

    def now(self) -> datetime:
        """Return the time of the host in UTC, corrected by the stored offset.

        `correct` changes the offset only if the difference from the time of the AWS services is more than 60 s.
        """
        return self.clock.now() + self.offset

    def correct(self, date: str | None) -> bool:
        """Correct the clock by a `Date` header. Returns whether the clock was corrected.

        The clock is not corrected if the header is missing or not valid, or if the time in the header differs from the
        time of this clock by at most 60 s.
        """
        try:
            served = parsedate_to_datetime(date or "")
        except ValueError:
            return False
        served = served if served.tzinfo else served.replace(tzinfo=UTC)
        if abs(served - self.now()) <= TOLERANCE:
            return False
        self.offset = served - self.clock.now()
        return True
