"""All ports at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from faultbridge.ports.bundle import Collector
from faultbridge.ports.keeping import Clock, ObjectStore, Table
from faultbridge.ports.launch import Launcher
from faultbridge.ports.messages import EventBus, RecordQueue
from faultbridge.ports.people import Pager
from faultbridge.ports.repair import Orchestrator, Provider, Verifier
from faultbridge.ports.restart import Restarter
from faultbridge.ports.workflow import Workflow


class Ports(Protocol):
    """All of the world at once: what the services are put together from."""

    @property
    def clock(self) -> Clock:
        """Tell the time."""
        ...

    @property
    def table(self) -> Table:
        """Reach the one table."""
        ...

    @property
    def bus(self) -> EventBus:
        """Reach the bus."""
        ...

    @property
    def queue(self) -> RecordQueue:
        """Reach the queue of raw records."""
        ...

    @property
    def objects(self) -> ObjectStore:
        """Reach the store of raw records and evidence."""
        ...

    @property
    def workflow(self) -> Workflow:
        """Reach the engine that drives attempts."""
        ...

    @property
    def pager(self) -> Pager:
        """Reach people."""
        ...

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Reach what replaces instances, by the name that a cluster's registration gives."""
        ...

    @property
    def launchers(self) -> Mapping[str, Launcher]:
        """Reach what launches successors, by the name of a provider whose groups do not launch any."""
        ...

    @property
    def restarters(self) -> Mapping[str, Restarter]:
        """Reach what mends instances in place, by name."""
        ...

    @property
    def collector(self) -> Collector:
        """Reach what keeps the evidence of an instance."""
        ...

    @property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Reach what cordons and drains, by name."""
        ...

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Reach what proves a node good, by name."""
        ...
