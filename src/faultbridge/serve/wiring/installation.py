"""The class `Installation`, from which all services of one deployment are reached."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.decide.normalize.trust import Trust
    from faultbridge.model.settings import Settings
    from faultbridge.record.append import Stack
    from faultbridge.record.cluster_reads import ClusterReads
    from faultbridge.record.ports import Ports
    from faultbridge.serve.wiring.job_tracking import JobTracking
    from faultbridge.serve.wiring.operating import Operations
    from faultbridge.serve.wiring.recording import Gateway, Ingestion, Ledger, PolicyRules, Registry
    from faultbridge.serve.wiring.repairing import Incidents, Repair
    from faultbridge.serve.wiring.reporting import ApiAnswers, ArchiveKeeping, Console, Pages


@dataclass(frozen=True, slots=True)
class Timing:
    """The sleep function and the random number generator, replaceable in simulation and tests."""

    pause: Callable[[float], None] = time.sleep
    random: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True)
class Installation:
    """One deployment of Faultbridge. Its services are built from `ports` and `settings` at first use."""

    ports: Ports
    settings: Settings
    timing: Timing = field(default_factory=Timing)

    @cached_property
    def table(self) -> ClusterReads:
        """Return the DynamoDB table. While `ClusterReads.once` runs, services share reads of a cluster."""
        from faultbridge.record.cluster_reads import ClusterReads

        return ClusterReads(self.ports.table, self.ports.clock)

    @cached_property
    def stack(self) -> Stack:
        """Return the id and the name of this deployment (stack). Event ids are derived from the id."""
        from faultbridge.record.append import Stack

        return Stack(self.settings.stack_id, self.settings.stack)

    @cached_property
    def trust(self) -> Trust:
        """Return the rules that decide which sender may report about which node."""
        from faultbridge.decide.normalize.trust import Trust

        settings = self.settings
        return Trust(settings.sender_proof, settings.own_senders, settings.events_queue)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the factory of the services that write and publish timeline entries."""
        from faultbridge.serve.wiring.recording import Ledger

        return Ledger(self)

    @cached_property
    def rules(self) -> PolicyRules:
        """Return the factory of the service that reads policies and cluster registrations."""
        from faultbridge.serve.wiring.recording import PolicyRules

        return PolicyRules(self)

    @cached_property
    def registry(self) -> Registry:
        """Return the factory of the services that register and retire nodes and synchronize the inventory."""
        from faultbridge.serve.wiring.recording import Registry

        return Registry(self)

    @cached_property
    def jobs(self) -> JobTracking:
        """Return the factory of the services that record training jobs and follow them."""
        from faultbridge.serve.wiring.job_tracking import JobTracking

        return JobTracking(self)

    @cached_property
    def ingestion(self) -> Ingestion:
        """Return the factory of the services for raw records, heartbeats, rejects and canaries.

        Rejects are refused records; canaries are test records.
        """
        from faultbridge.serve.wiring.recording import Ingestion

        return Ingestion(self)

    @cached_property
    def gateway(self) -> Gateway:
        """Return the factory of the services that receive webhooks and CloudWatch Logs subscriptions."""
        from faultbridge.serve.wiring.recording import Gateway

        return Gateway(self)

    @cached_property
    def repair(self) -> Repair:
        """Return the factory of the services that limit and perform repairs and execute operators' orders."""
        from faultbridge.serve.wiring.repairing import Repair

        return Repair(self)

    @cached_property
    def incidents(self) -> Incidents:
        """Return the factory of the services that correlate faults and close cluster incidents."""
        from faultbridge.serve.wiring.repairing import Incidents

        return Incidents(self)

    @cached_property
    def ops(self) -> Operations:
        """Return the factory of the services that run after new timeline entries and each minute.

        The factory also builds the service that lists the backlog, which is the work that waits.
        """
        from faultbridge.serve.wiring.operating import Operations

        return Operations(self)

    @cached_property
    def pager(self) -> Pages:
        """Return the factory of the services that send operators pages, summaries and reminders."""
        from faultbridge.serve.wiring.reporting import Pages

        return Pages(self)

    @cached_property
    def archive(self) -> ArchiveKeeping:
        """Return the factory of the services that write, seal and anchor the archive of entries.

        An anchor is a locked record of where every entry stream ends.
        """
        from faultbridge.serve.wiring.reporting import ArchiveKeeping

        return ArchiveKeeping(self)

    @cached_property
    def api(self) -> ApiAnswers:
        """Return the factory of the handlers of the HTTP API."""
        from faultbridge.serve.wiring.reporting import ApiAnswers

        return ApiAnswers(self)

    @cached_property
    def console(self) -> Console:
        """Return the factory of the services that render the web pages and reports of the console."""
        from faultbridge.serve.wiring.reporting import Console

        return Console(self)


def on_aws(settings: Settings, clients: Clients | None = None) -> Installation:
    """Build the installation that the settings describe, with adapters for AWS.

    `clients` are the AWS clients to use. With None, the adapters create clients with the credentials and the region of
    the process.
    """
    from faultbridge.adapters.aws.ports import AwsPorts

    return Installation(AwsPorts(settings, clients), settings)
