"""Record requests to services without client tokens, so that no accepted request is sent again.

A request is recorded before it is sent. The record is deleted only if the service did not accept the request. After a
crash or a lost response, the record remains for 30 days, so the request is not sent again in this time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import uuid4

from msgspec import Struct

from faultbridge.model.errors import Conflict
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, AnyOf, Delete, Equals, Item, Present, Put, Update
from faultbridge.model.times import from_text, to_milliseconds, to_text
from faultbridge.record.ports.compute import RestartState
from faultbridge.record.ports.table import Clock, Table

RETENTION = timedelta(days=30)
SETTLE = timedelta(minutes=10)
"""How long an accepted reboot may take until a running node counts as rebooted; a reboot takes one to three minutes."""


class Progress(StrEnum):
    """The progress of a recorded request.

    - `RECORDED`: the request is about to be sent, or was sent.
    - `ACCEPTED`: the service accepted the request.
    - `OBSERVED`: the node was seen in the requested check or reboot.
    - `INTERRUPTED`: the node left the requested check with a status that is not `Running`.
    """

    RECORDED = "recorded"
    ACCEPTED = "accepted"
    OBSERVED = "observed"
    INTERRUPTED = "interrupted"


class Request(Struct, frozen=True):
    """A request to HyperPod or Slurm to reboot or check a node: when it was recorded, and its progress."""

    recorded_at: datetime
    progress: Progress


class RequestLog(Struct, frozen=True):
    """Stores requests for reboots by HyperPod and Slurm, and for health checks, in the table, each under its token."""

    table: Table
    clock: Clock
    make_id: Callable[[], str] = lambda: uuid4().hex

    def find(self, token: str) -> Request | None:
        """Return the request with this token, or None when none was recorded."""
        found = self.table.get(keys.request(token))
        return Request(from_text(str(found["recorded_at"])), Progress(str(found["progress"]))) if found else None

    def record(self, token: str) -> bool:
        """Record a request before it is sent; returns False if the token is already recorded."""
        now, holder = self.clock.now(), self.make_id()
        attributes: Item = {
            "recorded_at": to_text(now),
            "progress": Progress.RECORDED.value,
            "holder": holder,
            "expires_at": to_milliseconds(now + RETENTION) // 1000,
        }
        # The client may repeat the write after a lost response, so its own record must not count as another one.
        unused = AnyOf((Absent(), Equals("holder", holder)))
        try:
            self.table.write(Put(items.item(keys.request(token), now, attributes), when=unused))
        except Conflict:
            return False
        return True

    def advance(self, token: str, progress: Progress) -> None:
        """Store the progress of a recorded request; nothing is stored if the request is not recorded."""
        try:
            self.table.write(Update(keys.request(token), set={("progress",): progress.value}, when=Present()))
        except Conflict:
            return

    def state_of_running(self, request: Request) -> tuple[RestartState, str]:
        """Return the state of a requested reboot whose node runs now, and what is missing to prove its end."""
        settled = request.recorded_at + SETTLE <= self.clock.now()
        if request.progress is Progress.OBSERVED or (request.progress is Progress.ACCEPTED and settled):
            return RestartState.DONE, ""
        return RestartState.RUNNING, "the end of the reboot is not proven yet"

    def withdraw(self, token: str) -> None:
        """Delete the record of a request that the service refused, so that the request can be sent again."""
        self.table.write(Delete(keys.request(token)))
