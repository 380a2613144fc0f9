"""Build every adapter of one deployment, each on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.domain.cluster.config import ProviderRole
    from faultbridge.ports import (
        Clock,
        Collector,
        EventBus,
        Launcher,
        ObjectStore,
        Orchestrator,
        Pager,
        Provider,
        RecordQueue,
        Restarter,
        Table,
        Verifier,
        Workflow,
    )
    from faultbridge.ports.objects import Archive, ArchiveSink, Vault
    from faultbridge.registry.instances import Inventory, NodeListing
    from faultbridge.settings import Settings


class AwsPorts:
    """All ports of one deployment; each adapter is imported and built on first use."""

    def __init__(self, settings: Settings, clients: Clients | None = None, role: ProviderRole | None = None) -> None:
        """Store the settings, optional clients, and an optional role that all calls on instances use."""
        self.settings = settings
        self._clients, self._role = clients, role
        self._by_role: dict[ProviderRole, AwsPorts] = {}

    @cached_property
    def clients(self) -> Clients:
        """Return the AWS clients; each is created on first use."""
        from faultbridge.adapters.aws.clients import Clients

        return self._clients or Clients()

    @property
    def compute(self) -> Clients:
        """Return the clients for calls on instances; they use the role when there is one."""
        return self.clients.for_role(self._role)

    def for_role(self, role: ProviderRole) -> AwsPorts:
        """Return ports whose calls on instances use a role in another account.

        All other calls stay in this account.
        """
        if role not in self._by_role:
            self._by_role[role] = AwsPorts(self.settings, self.clients, role)
        return self._by_role[role]

    @cached_property
    def clock(self) -> Clock:
        """Return the system clock."""
        from faultbridge.adapters.clock import SystemClock

        return SystemClock(self.settings.clock_offset_seconds)

    @cached_property
    def table(self) -> Table:
        """Return the single table on DynamoDB."""
        from faultbridge.adapters.dynamodb.table import DynamoTable

        return DynamoTable(self.clients, self.settings.table)

    @cached_property
    def bus(self) -> EventBus:
        """Return the event bus on EventBridge."""
        from faultbridge.adapters.messaging.eventbridge import EventBridgeBus

        return EventBridgeBus(self.clients, self.settings.bus, self.settings.event_source)

    @cached_property
    def queue(self) -> RecordQueue:
        """Return the queue of raw records on SQS."""
        from faultbridge.adapters.messaging.sqs import SqsQueue

        return SqsQueue(self.clients, self.settings.queue_url)

    @cached_property
    def objects(self) -> ObjectStore:
        """Return the S3 bucket of raw records and evidence."""
        from faultbridge.adapters.objects.s3 import S3Objects
        from faultbridge.storage.wire.message import MAX_BODY_BYTES

        return S3Objects(self.clients, self.settings.bucket, max_bytes=MAX_BODY_BYTES)

    @cached_property
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the inventories by provider name."""
        from faultbridge.adapters.compute.ec2_inventory import Ec2Inventory
        from faultbridge.adapters.compute.hyperpod_inventory import HyperPodInventory

        return {"ec2-auto-scaling": Ec2Inventory(self.clients), "hyperpod": HyperPodInventory(self.clients)}

    @cached_property
    def node_listing(self) -> NodeListing:
        """Return the node listing of EKS clusters."""
        from faultbridge.adapters.kubernetes.node_listing import EksNodeListing

        return EksNodeListing(self.clients)

    @cached_property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Return a function that reads the allowed webhook senders.

        No sender is allowed when the settings name no secret.
        """
        from faultbridge.adapters.aws.stack import StackSecret

        name = self.settings.webhook_senders
        return lambda: StackSecret(self.clients, name).value if name else b"{}"

    @cached_property
    def workflow(self) -> Workflow:
        """Return the Step Functions state machine."""
        from faultbridge.adapters.messaging.step_functions import StepFunctionsWorkflow

        return StepFunctionsWorkflow(self.clients, self.settings.state_machine)

    @cached_property
    def pager(self) -> Pager:
        """Return a pager that sends through every configured channel."""
        from faultbridge.adapters.paging.channels import pager_from_settings

        return pager_from_settings(self.settings, self.clients)

    @cached_property
    def providers(self) -> Mapping[str, Provider]:
        """Return the providers by the name that a cluster's registration uses."""
        from faultbridge.adapters.compute.auto_scaling import AutoScalingProvider
        from faultbridge.adapters.compute.launch_template import LaunchTemplateProvider

        return {
            "ec2-auto-scaling": AutoScalingProvider(self.compute),
            "ec2-launch-template": LaunchTemplateProvider(self.compute),
        }

    @cached_property
    def launchers(self) -> Mapping[str, Launcher]:
        """Return the launchers by provider name, for providers whose groups launch no successor."""
        from faultbridge.adapters.compute.ec2_fleet import FleetLauncher

        return {"ec2-launch-template": FleetLauncher(self.compute, self.settings.repair_tag)}

    @cached_property
    def restarters(self) -> Mapping[str, Restarter]:
        """Return the restarters by name."""
        from faultbridge.adapters.compute.ssm_restart import SsmRestarter

        return {"ssm": SsmRestarter(self.compute)}

    @cached_property
    def collector(self) -> Collector:
        """Return the collector of log bundles."""
        from faultbridge.adapters.compute.log_bundle import SsmLogCollector

        return SsmLogCollector(self.compute, self.clients, self.settings.bucket)

    @cached_property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Return the orchestrators by name."""
        from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator, NoOrchestrator

        return {"none": NoOrchestrator(), "eks": EksOrchestrator(self.clients, self.clock)}

    @cached_property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Return the verifiers by name."""
        from faultbridge.adapters.compute.dcgm_verifier import OutputBucket, SsmDcgmVerifier
        from faultbridge.decoders.dcgm.diag import read_report

        settings = self.settings
        output = OutputBucket(settings.bucket, settings.output_prefix, self.objects)
        verifier = SsmDcgmVerifier(
            self.compute,
            level=settings.verify_level,
            timeout_seconds=settings.verify_seconds,
            read_report=read_report,
            output=output,
        )
        return {"ssm-dcgm": verifier}

    @cached_property
    def archive(self) -> Archive:
        """Return the S3 bucket of the archive."""
        from faultbridge.adapters.objects.s3 import S3Objects

        return S3Objects(self.clients, self.settings.archive_bucket)

    @cached_property
    def vault(self) -> Vault:
        """Return the S3 bucket of the anchors, which is under Object Lock."""
        from faultbridge.adapters.objects.s3 import LockedObjects

        return LockedObjects(self.clients, self.settings.vault_bucket)

    @cached_property
    def sink(self) -> ArchiveSink:
        """Return the port that delivers entries to the archive: Firehose, or direct writes without a stream."""
        stream = self.settings.archive_stream
        if not stream:
            from faultbridge.archive.write import ObjectSink

            return ObjectSink(self.archive)
        from faultbridge.adapters.objects.firehose import FirehoseArchiveSink

        return FirehoseArchiveSink(self.clients, stream)

    @cached_property
    def token_secret(self) -> Callable[[], bytes]:
        """Return a function that reads the secret that signs page tokens."""
        from faultbridge.adapters.aws.stack import StackSecret

        return StackSecret(self.clients, self.settings.token_secret)
