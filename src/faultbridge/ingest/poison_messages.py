"""Poison messages: detects a message that stops the worker process each time it is processed.

A high receive count does not prove this, because during an outage a message is received again every few minutes. A
message that was received often is therefore processed alone. The attempt is counted before it starts, and the count is
deleted after it finished. A message with three attempts that did not finish is rejected.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.storage import keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Delete, Update

if TYPE_CHECKING:
    from faultbridge.ports import Clock, Table

ALONE_FROM_RECEIVES = 6
"""Number of receives from which a message is processed alone."""

MAX_ATTEMPTS = 3
COUNT_TTL = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PoisonMessages:
    """Counts the unfinished attempts of messages that are processed alone.

    Every method may raise Transient. If `start_attempt` raises it, no attempt may start.
    """

    table: Table
    clock: Clock

    def start_attempt(self, message: str) -> bool:
        """Count a new attempt and return True.

        If three attempts have started and none has finished, count nothing and return False.
        """
        key = keys.poison_message(message)
        expires = to_milliseconds(self.clock.now() + COUNT_TTL) // 1000
        counted = Update(
            key,
            set={("expires_at",): expires},
            add={"n": 1},
            when=AnyOf((Absent(), Below("n", MAX_ATTEMPTS))),
        )
        try:
            self.table.write(counted)
        except Conflict:
            found = self.table.get(key)
            if found is None or int(str(found["n"])) < MAX_ATTEMPTS:
                raise
            return False
        return True

    def clear(self, message: str) -> None:
        """Delete the count of a message whose attempt finished."""
        self.table.write(Delete(keys.poison_message(message)))
