"""Suspects: messages that came back so often that one of them may be killing the worker that reads it.

A receive count alone proves nothing: an outage of three hours is sixty receives. A suspect is therefore worked alone,
after a mark that only its success takes away; what has begun three times and never ended is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.ports import Clock, Table
from faultbridge.storage import keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Delete, Update

SUSPICIOUS_FROM = 6
"""Receives before a message is worked alone."""

MAX_BEGINNINGS = 3
REMEMBERED_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PoisonMessages:
    """Counts beginnings of suspects; every call may raise Transient, and then nothing was begun."""

    table: Table
    clock: Clock

    def begin(self, message: str) -> bool:
        """Note that a suspect is about to be worked; False when it began three times and never ended."""
        key = keys.poison_message(message)
        expires = to_milliseconds(self.clock.now() + REMEMBERED_FOR) // 1000
        counted = Update(
            key,
            set={("expires_at",): expires},
            add={"n": 1},
            when=AnyOf((Absent(), Below("n", MAX_BEGINNINGS))),
        )
        try:
            self.table.write(counted)
        except Conflict:
            found = self.table.get(key)
            if found is None or int(str(found["n"])) < MAX_BEGINNINGS:
                raise
            return False
        return True

    def clear(self, message: str) -> None:
        """Forget a suspect that ended alive."""
        self.table.write(Delete(keys.poison_message(message)))
