"""Factories of the services that record facts: ledger, rules, registry, ingest and gateway."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.model.errors import Rejected
    from faultbridge.model.records import Outcome, RawRecord
    from faultbridge.record.append import Append
    from faultbridge.record.publish import Publish
    from faultbridge.record.rulebook import Rulebook
    from faultbridge.repair.registry.inventory_events import InventoryEventHandler
    from faultbridge.repair.registry.inventory_sync import SyncInventory
    from faultbridge.repair.registry.registration import Registration
    from faultbridge.repair.registry.retirement import Retirement
    from faultbridge.serve.gateway.log_subscription import LogSubscription
    from faultbridge.serve.gateway.webhooks import Webhooks
    from faultbridge.serve.ingest.canary import ReceiveCanary, SendCanary
    from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog
    from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor
    from faultbridge.serve.ingest.ingest import Ingest
    from faultbridge.serve.ingest.record_reader import Delivery
    from faultbridge.serve.ingest.rejects import Rejects
    from faultbridge.serve.wiring.installation import Installation


@dataclass(frozen=True)
class Ledger:
    """Builds the services that write node states and publish timeline entries."""

    installation: Installation

    @cached_property
    def append(self) -> Append:
        """Return the service that writes the states and timeline entries of nodes."""
        from faultbridge.record.append import Append

        of = self.installation
        return Append(of.table, of.ports.clock, of.stack, of.timing.pause, of.timing.random)

    @cached_property
    def publish(self) -> Publish:
        """Return the service that publishes timeline entries on the event bus."""
        from faultbridge.record.publish import Publish

        of = self.installation
        return Publish(of.ports.table, of.ports.bus, of.stack.id, of.settings.hyperpod_mirror)


@dataclass(frozen=True)
class PolicyRules:
    """Builds the service that reads policies and cluster registrations."""

    installation: Installation

    @cached_property
    def rulebook(self) -> Rulebook:
        """Return the service that reads cluster registrations and policies."""
        from faultbridge.decode import data
        from faultbridge.decode.data.policies import default_policy
        from faultbridge.record.rulebook import Rulebook

        of = self.installation
        return Rulebook(of.table, of.stack.id, data.load_catalog, default_policy, data.gpus_by_instance_type)


@dataclass(frozen=True)
class Registry:
    """Builds the services that register and retire nodes and synchronize the inventory."""

    installation: Installation

    @cached_property
    def registration(self) -> Registration:
        """Return the service that registers clusters and nodes."""
        from faultbridge.repair.registry.registration import Registration

        of = self.installation
        return Registration(of.ports.table, of.ledger.append, of.ports.clock, of.ports.inventories)

    @cached_property
    def retirement(self) -> Retirement:
        """Return the service that removes nodes from their cluster."""
        from faultbridge.repair.registry.retirement import Retirement

        of = self.installation
        return Retirement(of.ports.table, of.ledger.append, of.rules.rulebook)

    @cached_property
    def inventory(self) -> SyncInventory:
        """Return the inventory sync, which compares providers' instances with the registered nodes."""
        from faultbridge.repair.registry.inventory_sync import SyncInventory
        from faultbridge.repair.registry.provider_check import ProviderCheck
        from faultbridge.repair.registry.replacement_detection import ReplacementDetection

        of = self.installation
        ports = of.ports
        detection = ReplacementDetection(ports.table, of.ledger.append, of.rules.rulebook)
        check = ProviderCheck(ports.inventories, of.repair.cluster_status, ports.clock, self.registration)
        return SyncInventory(
            ports.table,
            self.registration,
            detection,
            ports.inventories,
            check,
            self.retirement,
            ports.node_listing,
        )

    @cached_property
    def inventory_events(self) -> InventoryEventHandler:
        """Return the service that starts an inventory sync after provider events."""
        from faultbridge.decode.hyperpod.launch_failures import launch_failure
        from faultbridge.repair.registry.inventory_events import InventoryEventHandler

        return InventoryEventHandler(self.installation.ports.table, self.inventory, launch_failure)


@dataclass(frozen=True)
class Ingestion:
    """Builds the services for raw records, refused records, heartbeats and canaries (test records)."""

    installation: Installation

    @cached_property
    def ingest(self) -> Ingest:
        """Return the service that converts raw records to conditions, cases and entries."""
        from faultbridge.decode import registry
        from faultbridge.serve.ingest.caches import ItemCache, NodeCache, NodeLookup
        from faultbridge.serve.ingest.counter_store import CounterStore
        from faultbridge.serve.ingest.ingest import Ingest, PoisonMessages
        from faultbridge.serve.ingest.mappings import CustomerMappings, CustomerThresholds
        from faultbridge.serve.ingest.record_reader import RecordReader

        of = self.installation
        table, clock = of.ports.table, of.ports.clock
        items = ItemCache(table, clock)
        mappings = CustomerMappings(items)
        rulebook = replace(of.rules.rulebook, table=items)
        return Ingest(
            node_cache=NodeCache(items),
            node_lookup=NodeLookup(items, rulebook, of.trust),
            append=of.ledger.append,
            rulebook=rulebook,
            reader=RecordReader(of.ports.objects, registry.read, of.trust, mappings, rulebook.config),
            counter_store=CounterStore(table, CustomerThresholds(mappings)),
            poison_messages=PoisonMessages(table, clock),
            heartbeats=replace(self.heartbeat_log, rulebook=rulebook),
            reject=self._reject,
            canary=self._record_canary,
            job_report=self._record_job_report,
        )

    # Most processes never need the services behind these three, and they have a tenth of the modules of ingest.
    def _reject(self, delivery: Delivery, record: RawRecord | None, error: Rejected) -> None:
        self.rejects(delivery, record, error)

    def _record_canary(self, record: RawRecord) -> Outcome:
        from faultbridge.serve.ingest.canary import RecordCanary

        of = self.installation
        return RecordCanary(of.ports.table, of.ports.clock, of.stack)(record)

    def _record_job_report(self, record: RawRecord) -> Outcome:
        from faultbridge.repair.jobs.reports import record_report_record

        return record_report_record(self.installation.jobs.api_jobs, record)

    @cached_property
    def heartbeat_log(self) -> HeartbeatLog:
        """Return the service that stores the heartbeats of nodes."""
        from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog

        of = self.installation
        return HeartbeatLog(of.table, of.ports.clock, of.rules.rulebook)

    @cached_property
    def heartbeats(self) -> HeartbeatMonitor:
        """Return the service that reports missing heartbeats of nodes as faults."""
        from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor

        return HeartbeatMonitor(self.heartbeat_log, self.installation.ledger.append)

    @cached_property
    def rejects(self) -> Rejects:
        """Return the service that stores and retries records that ingest refused."""
        from faultbridge.serve.ingest.rejects import Rejects

        of = self.installation
        return Rejects(of.ports.table, of.ports.objects, of.ports.queue, of.ports.clock, of.trust)

    @cached_property
    def send_canary(self) -> SendCanary:
        """Return the service that sends canaries, which are test records."""
        from faultbridge.serve.ingest.canary import SendCanary

        of = self.installation
        return SendCanary(of.ports.queue, of.registry.registration, of.ports.clock)

    @cached_property
    def receive_canary(self) -> ReceiveCanary:
        """Return the service that records the canaries (test records) that arrived from the event bus."""
        from faultbridge.serve.ingest.canary import ReceiveCanary

        return ReceiveCanary(self.installation.ports.table, self.installation.ports.clock)


@dataclass(frozen=True)
class Gateway:
    """Builds the services that receive records through webhooks and CloudWatch Logs subscriptions."""

    installation: Installation

    @cached_property
    def webhooks(self) -> Webhooks:
        """Return the service that accepts webhook posts of configured senders."""
        from faultbridge.serve.gateway.log_subscription import Forward
        from faultbridge.serve.gateway.webhooks import Webhooks

        ports = self.installation.ports
        return Webhooks(Forward(ports.queue, ports.objects), ports.table, ports.clock, ports.webhook_senders)

    @cached_property
    def log_subscription(self) -> LogSubscription:
        """Return the service that accepts batches from CloudWatch Logs subscriptions."""
        from faultbridge.serve.gateway.log_subscription import Forward, LogSubscription

        ports = self.installation.ports
        return LogSubscription(Forward(ports.queue, ports.objects), ports.clock)
