"""A fake of a webhook or scheduler that receives notices about jobs that may resume after a repair."""

from __future__ import annotations

from collections import deque

from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.callbacks import JobNotice
from faultbridge.record.ports.compute import CallResult
from tests.sim.fakes.seam import Seam


class FakeJobCallback:
    """Implements `JobCallback` (fake): keeps every delivered notice.

    `received` lists the notices. `resumed` maps the id of each event to the job in the first notice about the event.
    """

    def __init__(self, *, ordered: bool = True, seam: Seam | None = None) -> None:
        self.ordered, self.seam = ordered, seam or Seam()
        self.received: list[JobNotice] = []
        self.resumed: dict[str, str] = {}
        self.failures: deque[ProviderFailure] = deque()

    def fail_next(self, *failures: ProviderFailure) -> None:
        """Make the next deliveries fail, one failure per delivery, without effect."""
        self.failures.extend(failures)

    def deliver(self, notice: JobNotice) -> CallResult:
        """Deliver one notice, or return the next failure that was set with `fail_next`."""
        with self.seam.around("callback", "deliver", notice.job_id):
            if self.failures:
                failure = self.failures.popleft()
                return CallResult(failure, "scripted", no_response=failure is ProviderFailure.TIMEOUT)
            self.received.append(notice)
            self.resumed.setdefault(notice.event_id, notice.job_id)
            return CallResult(reason="accepted")
