"""Log bundles in memory."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.ports import Bundle, BundleState, Clock
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam


class FakeCollector:
    """A Collector (fake): each bundle takes `duration`; `refusing` is why none can be made, if one cannot."""

    def __init__(
        self, clock: Clock | None = None, *, seam: Seam | None = None, duration: timedelta = timedelta(0)
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.duration = duration
        self.refusing = ""
        self.begun: dict[tuple[str, str], datetime] = {}

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Begin a bundle, or tell how it stands."""
        with self.seam.around("collector", "collect", (instance_id, token)):
            place = f"s3://bundles/{instance_id}/{token}"
            if self.refusing:
                return Bundle(BundleState.FAILED, place, self.refusing)
            began = self.begun.setdefault((instance_id, token), self.clock.now())
            over = self.clock.now() >= began + self.duration
            return Bundle(BundleState.KEPT if over else BundleState.RUNNING, place)
