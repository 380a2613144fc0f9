"""Lease peers, so that only one verification at a time runs tests with an instance."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_text, to_milliseconds, to_text
from faultbridge.errors import Conflict
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Delete, Equals, Put

LEASE = timedelta(minutes=30)
"""Duration of a lease. A command to two instances takes at most ten minutes for delivery plus its time limit."""


@dataclass(frozen=True, slots=True)
class PeerLeases:
    """Stores which verification uses which peer, so that only one verification at a time uses a peer.

    A lease is the right of one verification to use a peer. The verification ends the lease after the tests. Otherwise
    the lease expires after 30 minutes.
    """

    table: Table
    clock: Clock

    def take(self, instance_id: str, operation: str) -> bool:
        """Take the lease of an instance for a verification.

        Returns False if any verification has the lease now, even the verification `operation` itself.
        """
        now = self.clock.now()
        until = now + LEASE
        attributes = {"holder": operation, "until": to_text(until), "expires_at": to_milliseconds(until) // 1000}
        free = AnyOf((Absent(), Below("until", to_text(now))))
        try:
            self.table.write(Put(items.item(keys.peer_lease(instance_id), now, attributes), when=free))
        except Conflict:
            return False
        return True

    def holder(self, instance_id: str) -> str | None:
        """Return the operation id of the verification that has the lease of an instance now.

        The result is None if no verification has the lease.
        """
        found = self.table.get(keys.peer_lease(instance_id))
        live = found is not None and from_text(str(found["until"])) >= self.clock.now()
        return str(found["holder"]) if found is not None and live else None

    def release(self, instance_id: str, operation: str) -> None:
        """End the lease of an instance, unless another verification has it."""
        try:
            self.table.write(Delete(keys.peer_lease(instance_id), when=Equals("holder", operation)))
        except Conflict:
            return
