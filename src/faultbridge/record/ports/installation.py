"""All ports (interfaces to outside systems) of one installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from faultbridge.record.ports.compute import Collector, Launcher, Provider, Restarter, Verifier
from faultbridge.record.ports.messaging import EventBus, Pager, RecordQueue, Workflow
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.ports.orchestrator import Orchestrator, VolumeAttachments, Volumes
from faultbridge.record.ports.table import Clock, Table


class ComputeAccess(Protocol):
    """The ports that change or verify the instances of one AWS account, or collect their logs."""

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Return the providers, which replace instances, by the name that a registration uses."""
        ...

    @property
    def launchers(self) -> Mapping[str, Launcher]:
        """Return the launchers by provider name: they launch the successors of providers whose groups launch none."""
        ...

    @property
    def restarters(self) -> Mapping[str, Restarter]:
        """Return the restarters, which reset GPUs and reboot instances, by name."""
        ...

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Return the verifiers, which run diagnostics on instances, by name."""
        ...

    @property
    def volumes(self) -> Mapping[str, Volumes]:
        """Return the adapters that move volumes between instances, by provider name."""
        ...

    @property
    def collector(self) -> Collector:
        """Return the collector of log bundles of instances."""
        ...


class Ports(ComputeAccess, Protocol):
    """All ports (interfaces to outside systems) of one installation, from which the services are built."""

    @property
    def clock(self) -> Clock:
        """Return the source of the current time."""

    @property
    def table(self) -> Table:
        """Return the one DynamoDB table."""

    @property
    def bus(self) -> EventBus:
        """Return the event bus that publishes events to customers."""

    @property
    def queue(self) -> RecordQueue:
        """Return the SQS queue of raw records."""

    @property
    def objects(self) -> ObjectStore:
        """Return the store of raw records and evidence."""

    @property
    def workflow(self) -> Workflow:
        """Return the workflow engine that drives repair attempts."""

    @property
    def pager(self) -> Pager:
        """Return the pager, which sends pages to operators."""

    @property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Return the orchestrators, which cordon and drain nodes, by name."""

    @property
    def volume_attachments(self) -> Mapping[str, VolumeAttachments]:
        """Return the ports that show which volumes a storage driver still uses, by orchestrator."""
