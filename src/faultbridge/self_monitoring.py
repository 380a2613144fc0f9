"""Part of the composition root: the services by which an installation knows how it fares."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.ingest.canary import ReceiveCanary, SendCanary
    from faultbridge.ops.backlog import Backlog
    from faultbridge.ports import Ports
    from faultbridge.registry.registration import Registration


class SelfMonitoring:
    """The services by which an installation knows how it fares."""

    ports: Ports

    @property
    def registration(self) -> Registration:
        """Register clusters and nodes."""
        raise NotImplementedError  # pragma: no cover - the whole installation has it

    @cached_property
    def send_canary(self) -> SendCanary:
        """Send canaries."""
        from faultbridge.ingest.canary import SendCanary

        return SendCanary(self.ports.queue, self.registration, self.ports.clock)

    @cached_property
    def receive_canary(self) -> ReceiveCanary:
        """Note canaries that came over the bus."""
        from faultbridge.ingest.canary import ReceiveCanary

        return ReceiveCanary(self.ports.table, self.ports.clock)

    @cached_property
    def stuck(self) -> Backlog:
        """Tell what waits, and since when."""
        from faultbridge.ops.backlog import Backlog

        return Backlog(self.ports.table, self.ports.clock)
